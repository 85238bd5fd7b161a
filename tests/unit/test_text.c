/* SPDX-License-Identifier: MIT */
/* test_text.c - answers of the controller: bounded, and checked as JSON. */
#include "text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char told[1024];

static void
tell(void *ctx, const char *path, const char *value, size_t len)
{
	size_t used = strlen(told);

	(void)ctx;
	snprintf(told + used, sizeof(told) - used, "%s=%.*s;", path, (int)len,
	    value);
}

static int
check(const char *text)
{
	told[0] = '\0';
	return text_json(text, strlen(text), tell, NULL);
}

static void
test_walk(void **state)
{
	(void)state;
	assert_int_equal(check("{\"a\": 1, \"b\": {\"c\": [true, null, "
	    "{\"d\": \"x\\ny\"}]}, \"e\": -1.5e3, \"f\": []}"), 0);
	assert_string_equal(told,
	    "a=1;b.c[0]=true;b.c[1]=null;b.c[2].d=x\ny;e=-1.5e3;");
	assert_int_equal(check(" \"\\u0041\\u00e9\\u20ac\\udcff\" "), 0);
	assert_string_equal(told, "=A\xc3\xa9\xe2\x82\xac\xff;");
	assert_int_equal(check("{\"\\u001b\": 1}"), 0);
	assert_string_equal(told, "\\x1b=1;");
	assert_int_equal(text_json("[]", 2, NULL, NULL), 0);
}

static void
test_no_json(void **state)
{
	static const char *const bad[] = {
		"", " ", "{", "}", "[1,]", "{\"a\"}", "{\"a\":}", "{a: 1}",
		"\"", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "nul",
		"tru", "1 2", "[1] x", "--1", "1.2.3", "+", "'a'", "[1 2]",
		"{\"a\": 1 \"b\": 2}", "{\"a\": 1,}", "\"\x1b\"", "\"\x01\"",
		"\"\xff\"", "\"\xc2\x9b\"", "\"\n\"", "{1: 2}", "[,]", ","
	};
	char deep[64];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (check(bad[i]) != -1) {
			fail_msg("taken for JSON: %s", bad[i]);
		}
	}
	memset(deep, '[', 20);
	memset(deep + 20, ']', 20);
	assert_int_equal(text_json(deep, 40, NULL, NULL), -1);
	assert_int_equal(text_json(deep + 8, 24, NULL, NULL), 0);
	/* A NUL is no end. */
	assert_int_equal(text_json("[]\0[", 4, NULL, NULL), -1);
}

static void
test_long_parts(void **state)
{
	char *text = malloc(200000);
	size_t len;

	(void)state;
	assert_non_null(text);
	/* A long key and a long value are cut when told, not refused. */
	text[0] = '{';
	text[1] = '"';
	memset(text + 2, 'k', 90000);
	len = 2 + 90000;
	len += (size_t)sprintf(text + len, "\": \"");
	memset(text + len, 'v', 90000);
	len += 90000;
	len += (size_t)sprintf(text + len, "\"}");
	told[0] = '\0';
	assert_int_equal(text_json(text, len, tell, NULL), 0);
	free(text);
}

static void
test_append(void **state)
{
	struct text text = { 0 };
	char *piece = malloc(TEXT_MAX);

	(void)state;
	assert_non_null(piece);
	memset(piece, 'x', TEXT_MAX);
	assert_int_equal(text_append(&text, piece, 10), 10);
	assert_string_equal(text.data, "xxxxxxxxxx");
	errno = 0;
	assert_int_equal(text_append(&text, piece, TEXT_MAX), -1);
	assert_int_equal(errno, EFBIG);
	assert_int_equal(text_append(&text, piece, TEXT_MAX - 10),
	    TEXT_MAX - 10);
	assert_int_equal(text_append(&text, piece, 1), -1);
	text_free(&text);
	text_free(&text);
	free(piece);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_no_json),
		cmocka_unit_test(test_long_parts),
		cmocka_unit_test(test_append),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
