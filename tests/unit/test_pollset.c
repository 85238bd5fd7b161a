/* SPDX-License-Identifier: MIT */
/* test_pollset.c - slots, deadlines, and the clock that they are made of. */
#include "pollset.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

#include "clock.h"

static void
test_ready(void **state)
{
	struct pollset set = { 0 };
	int a[2], b[2];
	size_t sa, sb, none;

	(void)state;
	assert_int_equal(pipe(a), 0);
	assert_int_equal(pipe(b), 0);
	assert_int_equal(write(b[1], "x", 1), 1);
	pollset_clear(&set);
	sa = pollset_add(&set, a[0], POLLIN);
	none = pollset_add(&set, -1, POLLIN);
	sb = pollset_add(&set, b[0], POLLIN);
	assert_int_equal(none, POLLSET_NONE);
	assert_int_equal(pollset_add(&set, a[0], 0), POLLSET_NONE);
	assert_int_equal(pollset_wait(&set), 0);
	assert_int_equal(pollset_ready(&set, sa), 0);
	assert_int_equal(pollset_ready(&set, sb), POLLIN);
	assert_int_equal(pollset_ready(&set, none), 0);
	/* The next turn starts from nothing. */
	pollset_clear(&set);
	assert_int_equal(set.count, 0);
	assert_true(set.deadline == CLOCK_NEVER);
	close(a[1]);
	sa = pollset_add(&set, a[0], POLLIN);
	assert_int_equal(pollset_wait(&set), 0);
	assert_int_equal(pollset_ready(&set, sa), POLLHUP);
	pollset_free(&set);
	pollset_free(&set);
	close(a[0]);
	close(b[0]);
	close(b[1]);
}

static void
test_many(void **state)
{
	struct pollset set = { 0 };
	int ends[2];
	size_t i;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pollset_clear(&set);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(pollset_add(&set, ends[i % 2],
		    i % 2 ? POLLOUT : POLLIN), i);
	}
	assert_int_equal(pollset_wait(&set), 0);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(pollset_ready(&set, i), i % 2 ? POLLOUT : 0);
	}
	pollset_free(&set);
	close(ends[0]);
	close(ends[1]);
}

static void
test_deadline(void **state)
{
	struct pollset set = { 0 };
	uint64_t now = clock_now();

	(void)state;
	pollset_clear(&set);
	pollset_wake(&set, now + 500000);
	pollset_wake(&set, now + 20000);
	pollset_wake(&set, CLOCK_NEVER);
	pollset_wake(&set, now + 100000);
	assert_true(set.deadline == now + 20000);
	assert_int_equal(pollset_wait(&set), 0);
	assert_true(clock_now() >= now + 20000);
	/* A deadline that has passed does not block. */
	pollset_wake(&set, 1);
	assert_int_equal(pollset_wait(&set), 0);
	pollset_free(&set);
}

static void
on_alarm(int number)
{
	(void)number;
}

/* A signal ends the wait, as success with nothing ready. */
static void
test_signal(void **state)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	struct itimerval soon = { .it_value = { 0, 20000 } };
	struct pollset set = { 0 };
	int ends[2];
	size_t slot;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(sigaction(SIGALRM, &sa, NULL), 0);
	pollset_clear(&set);
	slot = pollset_add(&set, ends[0], POLLIN);
	set.fds[slot].revents = POLLIN;		/* from an earlier life */
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(pollset_wait(&set), 0);
	assert_int_equal(pollset_ready(&set, slot), 0);
	pollset_free(&set);
	close(ends[0]);
	close(ends[1]);
}

static void
test_clock(void **state)
{
	uint64_t a = clock_now(), b = clock_now();

	(void)state;
	assert_true(a > 0 && b >= a);
	assert_int_equal(clock_poll_ms(a, CLOCK_NEVER), -1);
	assert_int_equal(clock_poll_ms(a, a), 0);
	assert_int_equal(clock_poll_ms(a, a - 1), 0);
	/* Up, so that the deadline has come when poll returns. */
	assert_int_equal(clock_poll_ms(a, a + 1), 1);
	assert_int_equal(clock_poll_ms(a, a + 1999), 2);
	assert_int_equal(clock_poll_ms(a, CLOCK_NEVER - 1), INT_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ready),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
