/* SPDX-License-Identifier: MIT */
/* test_events.c - whole lines for a reader of any speed, and for none. */
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define LINES 4000u			/* more than a pipe holds */

static char dir[] = "/tmp/sandmux-events-XXXXXX";
static const char *const file = "events";

static int
setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/sandmux-events-XXXXXX");
	return mkdtemp(dir) != NULL && chdir(dir) == 0 ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	unlink(file);
	return chdir("/") == 0 ? rmdir(dir) : -1;
}

static void
say(struct events *events, const char *name, unsigned number, bool last)
{
	struct json json;

	events_begin(&json, name);
	json_u64(&json, "number", number);
	events_send(events, &json, last);
}

static size_t
read_all(int fd, char *buf, size_t cap)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, buf + len, cap - len - 1)) > 0) {
		len += (size_t)n;
	}
	buf[len] = '\0';
	return len;
}

static void
test_to_a_file(void **state)
{
	struct events events;
	struct error error;
	char buf[256];
	int fd;

	(void)state;
	fd = open(file, O_WRONLY | O_CREAT, 0644);
	assert_int_equal(write(fd, "what was there before, longer than it is "
	    "now, by far, so that some of it would be left ............",
	    100), 100);
	close(fd);
	assert_int_equal(events_open(&events, file, &error), 0);
	say(&events, "start", 1, false);
	say(&events, "end", 2, true);
	events_close(&events);
	assert_int_equal(events.fd, -1);
	events_close(&events);
	fd = open(file, O_RDONLY);
	read_all(fd, buf, sizeof(buf));
	close(fd);
	assert_string_equal(buf, "{\"event\": \"start\", \"number\": 1}\n"
	    "{\"event\": \"end\", \"number\": 2}\n");
}

static void
test_where_none_can_go(void **state)
{
	struct events events;
	struct error error;

	(void)state;
	assert_int_equal(events_open(&events, "no/such/place", &error), -1);
	assert_int_equal(error.number, ENOENT);
	assert_non_null(strstr(error.text, "no/such/place"));
	/* A fifo that nobody reads does not hold the copy up. */
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(events_open(&events, file, &error), -1);
	assert_int_equal(error.number, ENXIO);
}

/* Nobody asked: what is said goes nowhere, and its memory is freed. */
static void
test_nobody_asked(void **state)
{
	struct events events = { .fd = -1 };

	(void)state;
	say(&events, "start", 1, false);
	say(&events, "end", 1, true);
	events_close(&events);
}

struct reader {
	int fd;
	char buf[1 << 20];
	size_t len;
};

static void *
read_late(void *arg)
{
	struct reader *r = arg;

	/* The writer waits for the last line by now; if not, no matter. */
	usleep(200000);
	r->len = read_all(r->fd, r->buf, sizeof(r->buf));
	return NULL;
}

/*
 * A reader that does not read: lines are left out, none is waited for but
 * the last, and each that arrives is whole or ends where the next begins.
 */
static void
test_a_slow_reader(void **state)
{
	static struct reader r;
	struct events events;
	struct error error;
	unsigned whole = 0, number, before = 0;
	pthread_t thread;
	char *line, *next, name[16];

	(void)state;
	assert_int_equal(mkfifo(file, 0600), 0);
	r.fd = open(file, O_RDONLY | O_NONBLOCK);
	assert_true(r.fd >= 0);
	assert_int_equal(fcntl(r.fd, F_SETFL, 0), 0);
	assert_int_equal(events_open(&events, file, &error), 0);
	for (number = 1; number <= LINES; number++) {
		say(&events, "progress", number, false);
	}
	assert_int_equal(pthread_create(&thread, NULL, read_late, &r), 0);
	say(&events, "end", LINES + 1, true);
	events_close(&events);
	pthread_join(thread, NULL);
	close(r.fd);
	for (line = r.buf; *line != '\0'; line = next + 1) {
		next = strchr(line, '\n');
		assert_non_null(next);
		*next = '\0';
		if (sscanf(line, "{\"event\": \"%15[a-z]\", \"number\": %u}",
		    name, &number) == 2) {
			assert_true(number > before);
			before = number;
			whole++;
		}
	}
	assert_true(whole > 100 && whole < LINES);
	assert_int_equal(before, LINES + 1);
	assert_string_equal(name, "end");
}

/* A reader that goes away: no signal, no wait, not for the end either. */
static void
test_a_reader_that_goes(void **state)
{
	struct events events;
	struct error error;
	int fd;

	(void)state;
	assert_int_equal(mkfifo(file, 0600), 0);
	fd = open(file, O_RDONLY | O_NONBLOCK);
	assert_int_equal(events_open(&events, file, &error), 0);
	say(&events, "start", 1, false);
	close(fd);
	say(&events, "progress", 2, false);
	say(&events, "end", 3, true);
	events_close(&events);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_to_a_file, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(test_where_none_can_go, setup,
		    teardown),
		cmocka_unit_test(test_nobody_asked),
		cmocka_unit_test_setup_teardown(test_a_slow_reader, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(test_a_reader_that_goes,
		    setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
