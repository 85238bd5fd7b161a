/* SPDX-License-Identifier: MIT */
/* daemon.c - leaving the client that started us; signals as bytes. */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "system.h"

static int signal_pipe[2] = { -1, -1 };
static volatile sig_atomic_t signal_stop, signal_child;

static void
on_signal(int number)
{
	int saved = errno;
	ssize_t ignored;

	if (number == SIGCHLD) {
		signal_child = 1;
	} else {
		signal_stop = number;
	}
	ignored = write(signal_pipe[1], "", 1);
	(void)ignored;
	errno = saved;
}

int
daemon_catch_signals(void)
{
	static const int caught[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal };
	size_t i;

	if (system_pipe(signal_pipe) < 0 ||
	    system_nonblock(signal_pipe[0], 1) < 0 ||
	    system_nonblock(signal_pipe[1], 1) < 0) {
		return -1;
	}
	sigemptyset(&sa.sa_mask);
	for (i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
		sigaction(caught[i], &sa, NULL);
	}
	sa.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &sa, NULL);
	return 0;
}

int
daemon_signal_fd(void)
{
	return signal_pipe[0];
}

bool
daemon_take_signals(void)
{
	char drain[64];
	bool child = false;

	while (read(signal_pipe[0], drain, sizeof(drain)) ==
	    (ssize_t)sizeof(drain)) {
	}
	/* Cleared before the caller reaps: one more in between is reaped too. */
	if (signal_child) {
		signal_child = 0;
		child = true;
	}
	return child;
}

int
daemon_stop_signal(void)
{
	return signal_stop;
}

void
daemon_report(int *fd, const struct error *error)
{
	char text[WIRE_TEXT_MAX + 256];
	ssize_t ignored;
	int n;

	if (*fd < 0) {
		return;
	}
	if (error == NULL) {
		n = snprintf(text, sizeof(text), "+");
	} else {
		n = snprintf(text, sizeof(text), "-%s%s%s", error->text,
		    error->number != 0 ? ": " : "", error->number != 0 ?
		    strerror(error->number) : "");
	}
	ignored = write(*fd, text, (size_t)n);
	(void)ignored;
	close(*fd);
	*fd = -1;
}

int
daemon_detach(int *ready)
{
	int null;

	setsid();
	if (*ready >= 0 && *ready != 3) {
		if (dup2(*ready, 3) < 0) {
			return -1;
		}
		*ready = 3;
	}
	if (*ready == 3) {
		fcntl(3, F_SETFD, FD_CLOEXEC);
	}
	system_close_from(*ready == 3 ? 4 : 3);
	null = open("/dev/null", O_RDWR);
	if (null < 0) {
		return -1;
	}
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	if (null > 2) {
		close(null);
	}
	return chdir("/");
}
