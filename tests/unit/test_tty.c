/* SPDX-License-Identifier: MIT */
/* test_tty.c - the terminal gets its modes back; the keys that leave. */
#include "tty.h"

#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <cmocka.h>

static bool
is_raw(int fd)
{
	struct termios modes;

	assert_int_equal(tcgetattr(fd, &modes), 0);
	return (modes.c_lflag & (ICANON | ECHO | ISIG)) == 0;
}

static void
test_modes(void **state)
{
	int master, slave;

	(void)state;
	tty_restore();
	assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
	assert_false(is_raw(slave));
	assert_int_equal(tty_raw(slave), 0);
	assert_true(is_raw(slave));
	tty_restore();
	assert_false(is_raw(slave));
	tty_continue();
	assert_false(is_raw(slave));
	assert_int_equal(tty_raw(slave), 0);
	tty_continue();
	assert_true(is_raw(slave));
	tty_restore();
	tty_restore();
	assert_false(is_raw(slave));
	close(master);
	close(slave);
}

static void
test_no_terminal(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(tty_raw(ends[0]), -1);
	close(ends[0]);
	close(ends[1]);
}

/* Every signal that ends a process gives the terminal back, and ends it. */
static void
test_signals(void **state)
{
	static const int numbers[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE,
	    SIGILL, SIGTRAP, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGXFSZ,
	    SIGVTALRM, SIGPROF, SIGSYS };
	int master, slave, status;
	size_t i;
	pid_t child;

	(void)state;
	assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			signal(numbers[i], SIG_DFL);
			if (tty_raw(slave) == 0 && is_raw(slave)) {
				raise(numbers[i]);
			}
			_exit(1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), numbers[i]);
		assert_false(is_raw(slave));
	}
	close(master);
	close(slave);
}

static void
test_leave(void **state)
{
	static const uint8_t three[] = { 'a', 0x1d, 0x1d, 0x1d, 'b' };
	static const uint8_t broken[] = { 0x1d, 0x1d, 'x', 0x1d, 0x1d };

	(void)state;
	assert_true(tty_leaves(three, sizeof(three)));
	assert_false(tty_leaves(broken, sizeof(broken)));
	assert_true(tty_leaves(three + 1, 1));
	assert_false(tty_leaves(three + 1, 1));
	assert_false(tty_leaves(three + 1, 1));
	usleep(TTY_LEAVE_MS * 1000 + 100000);
	assert_false(tty_leaves(three + 1, 1));
	assert_false(tty_leaves(three + 1, 1));
	assert_true(tty_leaves(three + 1, 1));
	assert_false(tty_leaves(three, 0));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_no_terminal),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
