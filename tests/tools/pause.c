/* SPDX-License-Identifier: MIT */
/*
 * pause.c - the only program of the test image made from nothing.
 *
 * Without arguments it is the container's first process: it reaps orphans
 * and ends on TERM.  Else its first argument chooses a small command: true,
 * exit N, echo WORD..., cat, env, pwd, id, sleep SECONDS.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void
pause_end(int number)
{
	(void)number;
	_exit(0);
}

static void
pause_forever(void)
{
	signal(SIGTERM, pause_end);
	signal(SIGINT, pause_end);
	for (;;) {
		if (wait(NULL) == -1 && errno == ECHILD) {
			sleep(1);
		}
	}
}

static int
pause_cat(void)
{
	char buf[65536];
	ssize_t got;

	while ((got = read(0, buf, sizeof(buf))) > 0) {
		if (write(1, buf, (size_t)got) != got) {
			return 1;
		}
	}
	return got == 0 ? 0 : 1;
}

static int
pause_print(const char *what, int argc, char *argv[])
{
	char cwd[4096];
	int i;

	if (strcmp(what, "echo") == 0) {
		for (i = 2; i < argc; i++) {
			printf("%s%s", i > 2 ? " " : "", argv[i]);
		}
		printf("\n");
	} else if (strcmp(what, "env") == 0) {
		for (i = 0; environ[i] != NULL; i++) {
			puts(environ[i]);
		}
	} else if (strcmp(what, "pwd") == 0) {
		puts(getcwd(cwd, sizeof(cwd)) != NULL ? cwd : "?");
	} else if (strcmp(what, "id") == 0) {
		printf("%d:%d\n", (int)getuid(), (int)getgid());
	} else {
		fprintf(stderr, "pause: no command %s\n", what);
		return 2;
	}
	return 0;
}

int
main(int argc, char *argv[])
{
	const char *what = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 0;

	if (argc < 2) {
		pause_forever();
	}
	if (strcmp(what, "true") == 0) {
		return 0;
	}
	if (strcmp(what, "exit") == 0) {
		return number;
	}
	if (strcmp(what, "sleep") == 0) {
		sleep((unsigned)number);
		return 0;
	}
	if (strcmp(what, "cat") == 0) {
		return pause_cat();
	}
	return pause_print(what, argc, argv);
}
