/* SPDX-License-Identifier: MIT */
/*
 * brood.c - processes that are hard to end, for the tests of jobs.
 *
 *	brood COMMAND [ARGUMENT...] MARK
 *
 * Every process keeps MARK in its arguments and ends by itself after
 * LIFE_S seconds, so that a test that fails leaves nothing for long.
 *
 *	sleep			sleeps
 *	ignore			sleeps, and only KILL ends it
 *	term FILE		on TERM adds its pid to FILE and ends
 *	chain N			N chains of setsid, fork, exit
 *	double			a setsid'd, twice forked, TERM-ignoring sleeper
 *	bomb			forks, each child in a session of its own, and
 *				so do its children, up to whatever limit
 *	plain			the same within one group
 *	talk FILE		writes to stdout all the time, counts in FILE
 *	burn MS			uses so much processor time
 *	eat MIB			uses so much memory
 *	all NUMBER		sends a signal to all it may, and sleeps
 *	become UID		sleeps, ignoring TERM, as UID: if set-user-id
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFE_S 120
/*
 * How long a generation lives: for the first ones of all chains some seconds
 * of five thousand new processes each, then fifty a second of each chain.
 * Where nobody reaps them they are zombies, and others need process numbers
 * too.
 */
#define GENERATIONS 20000
#define PAUSE_NS 200000			/* times the number of chains */
#define PAUSE_THEN_NS 20000000

static const char *file;
static time_t end;

static void
rest(void)
{
	while (time(NULL) < end) {
		sleep(1);
	}
	_exit(0);
}

static void
ignore_all(void)
{
	int i;

	for (i = 1; i < NSIG; i++) {
		signal(i, SIG_IGN);
	}
	signal(SIGCHLD, SIG_DFL);
}

static void
append(const char *line)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0666);

	if (fd == -1 || write(fd, line, strlen(line)) == -1) {
		_exit(9);
	}
	close(fd);
}

static void
on_term(int number)
{
	char line[32];

	snprintf(line, sizeof(line), "%d %d\n", number, (int)getpid());
	append(line);
	_exit(0);
}

/* At any moment one process of the chain lives, never for long. */
static void
chain(int n)
{
	struct timespec pause = { 0, n * PAUSE_NS };
	pid_t pid;
	int i;

	for (i = 0; time(NULL) < end; i++) {
		if (i == GENERATIONS / n) {
			pause.tv_nsec = PAUSE_THEN_NS;
		}
		nanosleep(&pause, NULL);
		pid = fork();
		if (pid > 0) {
			_exit(0);
		}
		if (pid == 0) {
			setsid();
		}
	}
	_exit(0);
}

static void
chains(int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (fork() == 0) {
			setsid();
			chain(n);
		}
	}
	printf("ready\n");
	fflush(stdout);
	ignore_all();
	rest();
}

static void
bomb(int sessions)
{
	const struct timespec pause = { 0, 20000000 };
	pid_t pid;

	printf("ready\n");
	fflush(stdout);
	ignore_all();
	while (time(NULL) < end) {
		pid = fork();
		if (pid == 0 && sessions) {
			setsid();
		} else if (pid == -1) {
			/* Others need the machine too. */
			nanosleep(&pause, NULL);
		}
		/* Their zombies would be the bomb's own limit. */
		while (waitpid(-1, NULL, WNOHANG) > 0) {
			continue;
		}
	}
	_exit(0);
}

static void
twice(void)
{
	if (fork() == 0) {
		setsid();
		if (fork() > 0) {
			_exit(0);
		}
		ignore_all();
		printf("ready\n");
		fflush(stdout);
		rest();
	}
	while (wait(NULL) == -1 && errno == EINTR) {
		continue;
	}
	rest();
}

static void
talk(void)
{
	static char line[200];
	const struct timespec pause = { 0, 5000000 };
	char text[64];
	unsigned i;

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\n';
	for (i = 1; time(NULL) < end; i++) {
		if (write(1, line, sizeof(line)) == -1) {
			snprintf(text, sizeof(text), "errno %d\n", errno);
		} else {
			snprintf(text, sizeof(text), "%u\n", i);
		}
		append(text);
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

static void
burn(long ms)
{
	struct timespec t = { 0, 0 };

	do {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < ms);
}

static void
eat(size_t mib)
{
	char *p = malloc(mib << 20);

	if (p == NULL) {
		exit(8);
	}
	memset(p, 1, mib << 20);
	printf("%d\n", p[(mib << 20) - 1]);
}

int
main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	int number = argc > 3 ? atoi(argv[2]) : 0;

	end = time(NULL) + LIFE_S;
	file = argv[argc > 2 ? 2 : 0];
	if (strcmp(what, "sleep") == 0) {
		rest();
	} else if (strcmp(what, "ignore") == 0) {
		ignore_all();
		printf("ready\n");
		fflush(stdout);
		rest();
	} else if (strcmp(what, "term") == 0) {
		signal(SIGTERM, on_term);
		printf("ready\n");
		fflush(stdout);
		rest();
	} else if (strcmp(what, "chain") == 0) {
		chains(number);
	} else if (strcmp(what, "double") == 0) {
		twice();
	} else if (strcmp(what, "bomb") == 0) {
		bomb(1);
	} else if (strcmp(what, "plain") == 0) {
		bomb(0);
	} else if (strcmp(what, "talk") == 0) {
		talk();
	} else if (strcmp(what, "burn") == 0) {
		burn(number);
		return 0;
	} else if (strcmp(what, "eat") == 0) {
		eat((size_t)number);
		return 0;
	} else if (strcmp(what, "all") == 0) {
		kill(-1, number);
		rest();
	} else if (strcmp(what, "become") == 0) {
		if (setuid((uid_t)number) == -1) {
			return 7;
		}
		ignore_all();
		printf("ready\n");
		fflush(stdout);
		rest();
	}
	return 2;
}
