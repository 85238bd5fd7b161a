/* SPDX-License-Identifier: MIT */
/*
 * supervisor.c - pid 1 of a stand-in sandbox.
 *
 * supervisor USER WORKDIR NENV ENV... COMMAND...
 *
 * Listens in /.standin/link, which only root in the container can reach,
 * runs the main command in the cage and ends with it, taking everything
 * in the container along.
 */
#include "supervisor.h"

#include "cage.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SUPERVISOR_DIR "/.standin"
#define SUPERVISOR_LINK "/.standin/link"

/* The gateway reads the reason from a file: it waits for either. */
static void
refuse(const char *why)
{
	FILE *f = fopen(SUPERVISOR_LINK "/error.new", "w");

	if (f != NULL) {
		(void)fprintf(f, "%s\n", why);
		(void)fclose(f);
		(void)chmod(SUPERVISOR_LINK "/error.new", 0666);
		(void)rename(SUPERVISOR_LINK "/error.new",
		    SUPERVISOR_LINK "/error");
	}
	(void)fprintf(stderr, "supervisor: %s\n", why);
	exit(1);
}

static int
open_signals(void)
{
	sigset_t set;

	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void
start_main(char **argv)
{
	struct spawn_request rq;
	struct child ch;

	memset(&rq, 0, sizeof(rq));
	rq.argv = argv;
	if (spawn_start(&ch, &rq) == -1) {
		refuse("cannot start the main process");
	}
	reaper_set_main(ch.pid);
	spawn_close(&ch);
}

/* Returns when the main command has ended or SIGTERM came. */
static void
serve(int listener, int signals)
{
	struct pollfd p[2];

	for (;;) {
		struct signalfd_siginfo si;
		int fd;

		p[0].fd = listener;
		p[1].fd = signals;
		p[0].events = p[1].events = POLLIN;
		if (poll(p, 2, -1) < 0) {
			continue;
		}
		while (read(signals, &si, sizeof(si)) == sizeof(si)) {
			if (si.ssi_signo == SIGTERM) {
				return;
			}
		}
		if (reaper_run()) {
			return;
		}
		fd = (p[0].revents & POLLIN) != 0 ?
		    accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
		if (fd != -1) {
			session_start(fd);
		}
	}
}

int
main(int argc, char **argv)
{
	static struct cage cage;
	const char *why;
	int listener, signals, st;
	int nenv = argc >= 5 ? atoi(argv[3]) : -1;

	if (nenv < 0 || argc < 5 + nenv) {
		refuse("usage: supervisor USER WORKDIR NENV ENV... CMD...");
	}
	(void)umask(022);
	(void)chmod(SUPERVISOR_DIR, 0700);
	signals = open_signals();
	if (cage_prepare(&cage, argv[1], argv[2], getenv("STANDIN_POLICY"),
	    &why) == -1) {
		refuse(why);
	}
	spawn_init(&cage, argv + 4, nenv);
	start_main(argv + 4 + nenv);
	listener = wire_listen(SUPERVISOR_LINK, "sock");
	if (listener == -1) {
		refuse("cannot listen");
	}
	serve(listener, signals);
	st = reaper_main_status();
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1;
}
