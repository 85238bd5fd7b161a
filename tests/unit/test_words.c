/* SPDX-License-Identifier: MIT */
/* test_words.c - every step, errno, outcome and signal has its words. */
#include "words.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void
test_every_step(void **state)
{
	struct error error = { .text = "thing" };
	char line[WORDS_LINE];
	unsigned step;

	(void)state;
	for (step = WIRE_STEP_NONE; step <= WIRE_STEP_LINGER; step++) {
		assert_string_not_equal(words_step(step), "unknown");
		error.step = (enum wire_step)step;
		words_error(&error, line, sizeof(line));
		assert_non_null(strstr(line, "thing"));
		assert_null(strchr(line, '%'));
	}
	assert_string_equal(words_step(step), "unknown");
	assert_string_equal(words_step(UINT32_MAX), "unknown");
	error.step = (enum wire_step)200;
	assert_non_null(strstr(words_error(&error, line, sizeof(line)),
	    "thing"));
}

static void
test_errno(void **state)
{
	(void)state;
	assert_string_equal(words_errno(2), "ENOENT");
	assert_string_equal(words_errno_text(2), "no such file or directory");
	assert_string_equal(words_errno(11), "EAGAIN");
	assert_string_equal(words_errno(35), "EDEADLK");
	assert_string_equal(words_errno(95), "EOPNOTSUPP");
	assert_string_equal(words_errno(133), "EHWPOISON");
	assert_null(words_errno(0));
	assert_null(words_errno(41));
	assert_null(words_errno(134));
	assert_null(words_errno(UINT32_MAX));
#ifdef __linux__
	assert_string_equal(words_errno(ENOSPC), "ENOSPC");
	assert_string_equal(words_errno(EDQUOT), "EDQUOT");
#endif
}

static void
test_names(void **state)
{
	(void)state;
	assert_string_equal(words_signal(9), "SIGKILL");
	assert_string_equal(words_signal(15), "SIGTERM");
	assert_null(words_signal(0));
	assert_null(words_signal(32));
	assert_null(words_signal(UINT32_MAX));
	assert_string_equal(words_capability(0), "CHOWN");
	assert_string_equal(words_capability(7), "SETUID");
	assert_string_equal(words_capability(40), "CHECKPOINT_RESTORE");
	assert_null(words_capability(41));
	assert_string_equal(words_outcome(WIRE_TIMED_OUT), "timed-out");
	assert_string_equal(words_outcome(WIRE_FAILED + 1), "unknown");
}

static void
test_lines(void **state)
{
	struct error error;
	char line[WORDS_LINE];

	(void)state;
	error_set(&error, WIRE_STEP_EXEC, ENOENT, "frob");
	assert_string_equal(words_error(&error, line, sizeof(line)),
	    "cannot run frob: no such file or directory (ENOENT); is it "
	    "installed, and in the target's PATH?");
	error_set(&error, WIRE_STEP_CHDIR, EACCES, "/x");
	assert_string_equal(words_error(&error, line, sizeof(line)),
	    "cannot change to the directory /x: permission denied (EACCES)");
	error_set(&error, WIRE_STEP_OPEN, 4000, "/x");
	assert_string_equal(words_error(&error, line, sizeof(line)),
	    "cannot open /x: error number 4000");
	error_set(&error, WIRE_STEP_LINK, 0, "the agent is silent");
	assert_memory_equal(words_error(&error, line, sizeof(line)),
	    "link lost, outcome unknown: the agent is silent", 46);
}

static void
test_hostile_text(void **state)
{
	struct error error = { .step = WIRE_STEP_EXEC, .number = ENOENT };
	char line[WORDS_LINE], small[8];
	size_t i, room;

	(void)state;
	memset(error.text, 0x1b, sizeof(error.text) - 1);
	words_error(&error, line, sizeof(line));
	assert_true(strlen(line) < sizeof(line));
	assert_null(strchr(line, 0x1b));
	/* The reason stays, however long the thing is. */
	assert_non_null(strstr(line, "ENOENT"));
	for (room = 1; room <= sizeof(small); room++) {
		memset(small, 'z', sizeof(small));
		words_error(&error, small, room);
		assert_true(strlen(small) == room - 1);
		for (i = room; i < sizeof(small); i++) {
			assert_int_equal(small[i], 'z');
		}
	}
}

static void
test_result(void **state)
{
	uint8_t text[2000];
	struct wire_result result = { .outcome = WIRE_FAILED, .step = 7,
	    .error = 2, .text = { (const uint8_t *)"a\0b", 3 } };
	struct error error;

	(void)state;
	words_result(&result, &error);
	assert_int_equal(error.step, WIRE_STEP_EXEC);
	assert_int_equal(error.number, 2);
	assert_string_equal(error.text, "a\x01" "b");
	memset(text, 'x', sizeof(text));
	result.text = (struct wire_bytes){ text, sizeof(text) };
	result.error = UINT32_MAX;
	words_result(&result, &error);
	assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
	assert_true(error.number > 0);
	result.text = (struct wire_bytes){ NULL, 0 };
	words_result(&result, &error);
	assert_string_equal(error.text, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_step),
		cmocka_unit_test(test_errno),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
