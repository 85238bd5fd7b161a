/* SPDX-License-Identifier: MIT */
/* test_options.c - the grammar of options, times and numbers. */
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { LONG = 256, FILE_ID, LATE, NEVER };

static const struct options_entry table[] = {
	{ 'i', "interactive", OPTIONS_FLAG },
	{ 'j', NULL, OPTIONS_FLAG },
	{ 'w', "workdir", OPTIONS_VALUE },
	{ LONG, "long-flag", OPTIONS_FLAG },
	{ FILE_ID, "file", OPTIONS_VALUE },
	{ 'u', "user", OPTIONS_LATER },
	{ LATE, "late", OPTIONS_LATER },
	{ NEVER, "never", OPTIONS_REFUSED },
	OPTIONS_LAST
};

/* "i w=DIR ! operand ..." for a line of words, or "error: ...". */
static const char *
read_line(const char *line)
{
	static char out[WIRE_TEXT_MAX + 16];
	char copy[256], *argv[16], *word, *rest;
	struct options o = { .table = table, .argv = argv };
	struct error error;
	size_t used = 0;
	int id;

	snprintf(copy, sizeof(copy), "cmd %s", line);
	for (word = strtok_r(copy, " ", &rest); word != NULL;
	    word = strtok_r(NULL, " ", &rest)) {
		argv[o.argc++] = word;
	}
	while ((id = options_next(&o, &error)) > 0) {
		used += (size_t)(id < 256 ?
		    snprintf(out + used, sizeof(out) - used, "%c", id) :
		    snprintf(out + used, sizeof(out) - used, "%d", id));
		if (o.value != NULL) {
			used += (size_t)snprintf(out + used,
			    sizeof(out) - used, "=%s", o.value);
		}
		out[used++] = ' ';
	}
	if (id < 0) {
		assert_int_equal(error.step, WIRE_STEP_USAGE);
		snprintf(out, sizeof(out), "error: %s", error.text);
		return out;
	}
	used += (size_t)snprintf(out + used, sizeof(out) - used, "!");
	for (; o.at < o.argc; o.at++) {
		used += (size_t)snprintf(out + used, sizeof(out) - used,
		    " %s", o.argv[o.at]);
	}
	return out;
}

static void
test_grammar(void **state)
{
	static const char *const lines[][2] = {
		{ "", "!" },
		{ "a", "! a" },
		{ "-i a", "i ! a" },
		{ "-ij a", "i j ! a" },
		{ "-ijw d a", "i j w=d ! a" },
		{ "-iwd a", "i w=d ! a" },
		{ "-w=d a", "w=d ! a" },
		{ "-w=d=e a", "w=d=e ! a" },
		{ "-w -i a", "w=-i ! a" },
		{ "-w -- a", "w=-- ! a" },
		{ "--workdir d a", "w=d ! a" },
		{ "--workdir=d a", "w=d ! a" },
		{ "--workdir= a", "w= ! a" },
		{ "--long-flag --file f a", "256 257=f ! a" },
		{ "a -i", "! a -i" },
		{ "-- -i", "! -i" },
		{ "-i -- -- a", "i ! -- a" },
		{ "- a", "! - a" },
		{ "-j", "j !" },
		{ "--never a", "259 ! a" },
		{ "--never=x a", "259=x ! a" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_string_equal(read_line(lines[i][0]), lines[i][1]);
	}
}

static void
test_errors(void **state)
{
	static const char *const lines[][2] = {
		{ "-w", "-w needs a value" },
		{ "-iw", "-w needs a value" },
		{ "--workdir", "--workdir needs a value" },
		{ "--long-flag=x", "--long-flag takes no value" },
		{ "-u", "-u, --user: not in this version" },
		{ "-iu", "not in this version" },
		{ "--late", "--late: not in this version" },
		{ "--late=x", "not in this version" },
		{ "--wrokdir", "unknown option --wrokdir; did you mean "
		    "--workdir?" },
		{ "--wrokdir=x", "did you mean --workdir?" },
		{ "--long", "did you mean --long-flag?" },
		{ "--interactiv", "did you mean --interactive?" },
		{ "--nevr", "see sandmux cmd --help" },
		{ "--zzzzzz", "see sandmux cmd --help" },
		{ "-I", "unknown option -I; did you mean -i?" },
		{ "-U", "see sandmux cmd --help" },
		{ "-x", "see sandmux cmd --help" },
		{ "-file", "did you mean --file?" },
		{ "-i\x1b", "-\\x1b" },
		{ "--\x1b[2J", "--\\x1b[2J" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const char *got = read_line(lines[i][0]);

		assert_memory_equal(got, "error: ", 7);
		assert_non_null(strstr(got, lines[i][1]));
	}
}

static void
test_duration(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {
		{ "0", 0 }, { "1", 1000 }, { "1.5", 1500 }, { "1.5s", 1500 },
		{ ".5", 500 }, { "2.", 2000 }, { "2m", 120000 },
		{ "300ms", 300 }, { "0.1ms", 1 }, { "0.0001", 1 },
		{ "1h", 3600000 }, { "1.123456789s", 1124 },
		{ "99999999", 99999999000 }, { "9999999h", 35999996400000 }
	};
	static const char *const bad[] = {
		"", ".", "s", "1x", "-1", "+1", "1.2.3", " 1", "1 ", "1e3",
		"1.sm", "1234567890", "1S", "m1", "\xff"
	};
	struct error error;
	uint64_t ms;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(options_duration(good[i].text, "-t", &ms,
		    &error), 0);
		assert_int_equal(ms, good[i].ms);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(options_duration(bad[i], "-t", &ms, &error),
		    -1);
		assert_int_equal(error.step, WIRE_STEP_USAGE);
	}
}

static void
test_number(void **state)
{
	struct error error;
	uint64_t value;

	(void)state;
	assert_int_equal(options_number("0", "-n", 10, &value, &error), 0);
	assert_int_equal(value, 0);
	assert_int_equal(options_number("10", "-n", 10, &value, &error), 0);
	assert_int_equal(value, 10);
	assert_int_equal(options_number("18446744073709551615", "-n",
	    UINT64_MAX, &value, &error), 0);
	assert_true(value == UINT64_MAX);
	assert_int_equal(options_number("11", "-n", 10, &value, &error), -1);
	assert_int_equal(options_number("18446744073709551616", "-n",
	    UINT64_MAX, &value, &error), -1);
	assert_int_equal(options_number("", "-n", 10, &value, &error), -1);
	assert_int_equal(options_number("-1", "-n", 10, &value, &error), -1);
	assert_int_equal(options_number("1x", "-n", 10, &value, &error), -1);
	assert_int_equal(options_number("9", "-n", 8, &value, &error), -1);
	assert_int_equal(options_number("8", "-n", 8, &value, &error), 0);
	assert_int_equal(options_number("1", "-n", 0, &value, &error), -1);
}

static void
test_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t max, value;
	} good[] = {
		{ "0", 0, 0 }, { "7", 7, 7 }, { "7b", 7, 7 },
		{ "1k", 1024, 1024 }, { "1K", 2047, 1024 },
		{ "3M", UINT64_MAX, 3u << 20 }, { "2g", UINT64_MAX, 2u << 30 },
		{ "17179869183G", UINT64_MAX, UINT64_C(17179869183) << 30 },
		{ "18446744073709551615", UINT64_MAX, UINT64_MAX }
	};
	static const struct {
		const char *text;
		uint64_t max;
	} bad[] = {
		{ "", 9 }, { "k", 9 }, { "-1", 9 }, { "8", 7 },
		{ "1k", 1023 }, { "2k", 2047 }, { "1.5k", 99999 },
		{ "1kb", 99999 }, { "0x1", 9 }, { " 1", 9 }, { "1T", UINT64_MAX },
		{ "17179869184G", UINT64_MAX },
		{ "18446744073709551616", UINT64_MAX },
		{ "000000000000000000000000001", 9 }
	};
	struct error error;
	uint64_t value;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(options_size(good[i].text, "-s", good[i].max,
		    &value, &error), 0);
		assert_true(value == good[i].value);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(options_size(bad[i].text, "-s", bad[i].max,
		    &value, &error), -1);
		assert_int_equal(error.step, WIRE_STEP_USAGE);
	}
}

static void
test_signal(void **state)
{
	static const struct {
		const char *text;
		unsigned number;
	} good[] = {
		{ "TERM", 15 }, { "SIGTERM", 15 }, { "sigkill", 9 },
		{ "Hup", 1 }, { "15", 15 }, { "1", 1 }, { "64", 64 },
		{ "sys", 31 }, { "SIGSTKFLT", 16 }
	};
	static const char *const bad[] = { "", "0", "65", "SIG", "-9", "9x",
	    "TERMINATE", "SIGSIGTERM", "4294967305", "+9" };
	struct error error;
	unsigned number;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(options_signal(good[i].text, "-s", &number,
		    &error), 0);
		assert_int_equal(number, good[i].number);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(options_signal(bad[i], "-s", &number,
		    &error), -1);
		assert_int_equal(error.step, WIRE_STEP_USAGE);
	}
}

static void
test_distance(void **state)
{
	(void)state;
	assert_int_equal(options_distance("", ""), 0);
	assert_int_equal(options_distance("abc", "abc"), 0);
	assert_int_equal(options_distance("abc", ""), 3);
	assert_int_equal(options_distance("kitten", "sitting"), 3);
	assert_int_equal(options_distance("ab", "ba"), 2);
	assert_int_equal(options_distance(
	    "123456789012345678901234567890123", "x"), 99);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grammar),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_number),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_distance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
