/* SPDX-License-Identifier: MIT */
/* interrupt.c - signal handlers that write to a pipe. */
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "system.h"

static int ends[2] = { -1, -1 };
static bool pipe_was_default;

static void
on_signal(int number)
{
	int saved = errno;
	unsigned char byte = (unsigned char)number;
	/* A full pipe holds signals enough. */
	ssize_t n = write(ends[1], &byte, 1);

	(void)n;
	errno = saved;
}

static int
catch(const int *numbers, size_t count)
{
	struct sigaction action = { .sa_handler = on_signal }, old;
	size_t i;

	sigemptyset(&action.sa_mask);
	/* Without SA_RESTART: a blocked write to a terminal must end too. */
	for (i = 0; i < count; i++) {
		if (sigaction(numbers[i], NULL, &old) < 0) {
			return -1;
		}
		if (old.sa_handler != SIG_IGN &&
		    sigaction(numbers[i], &action, NULL) < 0) {
			return -1;
		}
	}
	return 0;
}

int
interrupt_init(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };

	if (ends[0] >= 0) {
		return 0;
	}
	if (system_pipe(ends) < 0 || system_nonblock(ends[0], 1) < 0 ||
	    system_nonblock(ends[1], 1) < 0) {
		return -1;
	}
	return catch(numbers, sizeof(numbers) / sizeof(numbers[0]));
}

int
interrupt_terminal(void)
{
	static const int numbers[] = { SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT };

	return catch(numbers, sizeof(numbers) / sizeof(numbers[0]));
}

int
interrupt_fd(void)
{
	return ends[0];
}

int
interrupt_take(void)
{
	unsigned char byte;

	return ends[0] >= 0 && read(ends[0], &byte, 1) == 1 ? byte : 0;
}

void
interrupt_guard(void)
{
	struct sigaction old;

	signal(SIGXFSZ, SIG_IGN);
	if (sigaction(SIGPIPE, NULL, &old) == 0 &&
	    old.sa_handler == SIG_DFL) {
		pipe_was_default = true;
		signal(SIGPIPE, SIG_IGN);
	}
}

void
interrupt_broken_pipe(void)
{
	if (pipe_was_default) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
}
