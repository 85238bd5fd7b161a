/* SPDX-License-Identifier: MIT */
/* test_rlimits.c - --limit's names and values, as EXEC carries them. */
#include "rlimits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

static const struct {
	const char *name;
	int number;
} all[] = {
	{ "cpu", 0 }, { "fsize", 1 }, { "data", 2 }, { "stack", 3 },
	{ "core", 4 }, { "rss", 5 }, { "nproc", 6 }, { "nofile", 7 },
	{ "memlock", 8 }, { "as", 9 }, { "locks", 10 },
	{ "sigpending", 11 }, { "msgqueue", 12 }, { "nice", 13 },
	{ "rtprio", 14 }, { "rttime", 15 }
};

static void
test_names(void **state)
{
	struct limits limits;
	struct error error;
	char text[64];
	size_t i;
	int n;

	(void)state;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		limits = (struct limits){ 0 };
		snprintf(text, sizeof(text), "%s=1:2", all[i].name);
		assert_int_equal(limits_add(&limits, text, &error), 0);
		for (n = 0; n < (int)WIRE_LIMITS_MAX; n++) {
			assert_int_equal(limits.of[n].given,
			    n == all[i].number);
		}
		assert_int_equal(limits.of[all[i].number].soft, 1);
		assert_int_equal(limits.of[all[i].number].hard, 2);
	}
#if defined(__linux__) && defined(__x86_64__)
	assert_int_equal(RLIMIT_NOFILE, 7);
	assert_int_equal(RLIMIT_RTTIME, 15);
#endif
}

static void
test_refused(void **state)
{
	static const char *const bad[] = { "", "=", "nofile", "nofile=",
	    "nofile=:", "nofile=:1", "nofile=1:", "nofile=1:2:3", "NOFILE=1",
	    "nofile =1", "nofile=-2", "nofile=2:1", "nofile=0x10",
	    "nofile=11111111111111111111111111111111111111111111", "x=1",
	    "nofile=infinity", "nofile=18446744073709551615" };
	struct limits limits = { 0 };
	struct error error;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		error = (struct error){ 0 };
		assert_int_equal(limits_add(&limits, bad[i], &error), -1);
		assert_int_equal(error.step, WIRE_STEP_USAGE);
		assert_non_null(strstr(error.text, "--limit"));
	}
	for (i = 0; i < WIRE_LIMITS_MAX; i++) {
		assert_false(limits.of[i].given);
	}
}

static void
test_items(void **state)
{
	static const uint8_t want[] = { 7, 0, 0, 0, 0, 0, 0, 4, 0, 255, 255,
	    255, 255, 255, 255, 255, 255 };
	struct limits limits = { 0 };
	struct items items = { 0 };
	struct wire_bytes item;
	struct wire_list list;
	struct error error;

	(void)state;
	assert_int_equal(limits_add(&limits, "nofile=1", &error), 0);
	assert_int_equal(limits_add(&limits, "nofile=1k:unlimited", &error),
	    0);
	limits_items(&limits, &items);
	list = items_list(&items);
	assert_int_equal(list.count, 1);
	assert_true(wire_next(&list, &item));
	assert_int_equal(item.len, sizeof(want));
	assert_memory_equal(item.at, want, sizeof(want));
	items_free(&items);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_items),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
