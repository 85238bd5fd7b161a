/* SPDX-License-Identifier: MIT */
/* tty.c - raw mode and the way back from it. */
#include "tty.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"

static int terminal = -1;		/* its modes were taken */
static volatile sig_atomic_t raw;	/* and are to be given back */
static struct termios before;

/*
 * In the background it has its modes from the one in front, who must not be
 * disturbed.  One that does not control us has no background.
 */
static bool
in_front(void)
{
	pid_t group = tcgetpgrp(terminal);

	return group < 0 || group == getpgrp();
}

void
tty_restore(void)
{
	int saved = errno;

	if (raw) {
		raw = 0;
		if (in_front()) {
			/* NOW: a terminal that nobody reads must not hold us. */
			tcsetattr(terminal, TCSANOW, &before);
		}
	}
	errno = saved;
}

/* For the signals that would end us as they come. */
static void
on_fatal(int number)
{
	tty_restore();
	raise(number);			/* SA_RESETHAND: now it ends us */
}

static void
catch_fatal(void)
{
	static const int numbers[] = { SIGILL, SIGTRAP, SIGABRT, SIGBUS,
	    SIGFPE, SIGUSR1, SIGSEGV, SIGUSR2, SIGALRM, SIGXCPU, SIGXFSZ,
	    SIGVTALRM, SIGPROF, SIGSYS };
	struct sigaction action = { .sa_handler = on_fatal }, old;
	size_t i;

	action.sa_flags = (int)SA_RESETHAND;
	sigemptyset(&action.sa_mask);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (sigaction(numbers[i], NULL, &old) == 0 &&
		    old.sa_handler == SIG_DFL) {
			sigaction(numbers[i], &action, NULL);
		}
	}
}

static int
make_raw(void)
{
	struct termios modes = before;

	cfmakeraw(&modes);
	raw = 1;
	while (tcsetattr(terminal, TCSANOW, &modes) < 0) {
		if (errno != EINTR) {
			raw = 0;
			return -1;
		}
	}
	return 0;
}

int
tty_raw(int fd)
{
	if (tcgetattr(fd, &before) < 0) {
		return -1;
	}
	terminal = fd;
	catch_fatal();
	return make_raw();
}

void
tty_stop(void)
{
	bool was = raw;

	tty_restore();
	raise(SIGSTOP);
	if (was) {
		make_raw();
	}
}

void
tty_continue(void)
{
	if (raw) {
		make_raw();
	}
}

bool
tty_size(unsigned *rows, unsigned *columns)
{
	static const int fds[] = { STDOUT_FILENO, STDIN_FILENO,
	    STDERR_FILENO };
	struct winsize size;
	size_t i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (ioctl(fds[i], TIOCGWINSZ, &size) == 0 &&
		    size.ws_row > 0 && size.ws_col > 0) {
			*rows = size.ws_row;
			*columns = size.ws_col;
			return true;
		}
	}
	*rows = *columns = 0;
	return false;
}

bool
tty_leaves(const uint8_t *keys, size_t len)
{
	static uint64_t first;
	static unsigned count;
	uint64_t now = clock_now();
	size_t i;

	for (i = 0; i < len; i++) {
		if (keys[i] != TTY_LEAVE) {
			count = 0;
			continue;
		}
		if (count == 0 || now - first > TTY_LEAVE_MS *
		    (uint64_t)CLOCK_MS) {
			count = 0;
			first = now;
		}
		if (++count == TTY_LEAVE_TIMES) {
			count = 0;
			return true;
		}
	}
	return false;
}
