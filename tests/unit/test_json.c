/* SPDX-License-Identifier: MIT */
/* test_json.c - JSON as we write it. */
#include "json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void
test_values(void **state)
{
	struct json json = { 0 };

	(void)state;
	json_object(&json, NULL);
	json_string(&json, "s", "a\"\\\n\x1f\x7f");
	json_bytes(&json, "b", "\0\xff\xc3\xa9\xc2\x9b", 6);
	json_u64(&json, "u", UINT64_MAX);
	json_i64(&json, "i", INT64_MIN);
	json_double(&json, "d", 1.5);
	json_bool(&json, "t", true);
	json_null(&json, "n");
	json_array(&json, "a");
	json_u64(&json, NULL, 1);
	json_array(&json, NULL);
	json_end_array(&json);
	json_object(&json, NULL);
	json_end_object(&json);
	json_end_array(&json);
	json_raw(&json, "r", "[2]", 3);
	json_end_object(&json);
	assert_string_equal(json_text(&json),
	    "{\"s\": \"a\\u0022\\u005c\\u000a\\u001f\\u007f\", "
	    "\"b\": \"\\u0000\\udcff\xc3\xa9\\u009b\", "
	    "\"u\": 18446744073709551615, "
	    "\"i\": -9223372036854775808, \"d\": 1.500, \"t\": true, "
	    "\"n\": null, \"a\": [1, [], {}], \"r\": [2]}");
	json_free(&json);
	json_free(&json);
}

static void
test_keys_are_quoted(void **state)
{
	struct json json = { 0 };

	(void)state;
	json_object(&json, NULL);
	json_bool(&json, "a\"b", false);
	json_end_object(&json);
	assert_string_equal(json_text(&json), "{\"a\\u0022b\": false}");
	json_free(&json);
}

static void
test_empty_bytes(void **state)
{
	struct json json = { 0 };

	(void)state;
	json_bytes(&json, NULL, NULL, 0);
	assert_string_equal(json_text(&json), "\"\"");
	json_free(&json);
}

static void
test_bound(void **state)
{
	struct json json = { 0 };
	char *big = malloc(JSON_MAX);

	(void)state;
	assert_non_null(big);
	memset(big, 'x', JSON_MAX);
	json_bytes(&json, NULL, big, JSON_MAX - 2);
	assert_non_null(json_text(&json));
	assert_int_equal(json.len, JSON_MAX);
	json_u64(&json, NULL, 1);
	assert_null(json_text(&json));
	json_free(&json);
	json_bytes(&json, NULL, big, JSON_MAX);
	assert_null(json_text(&json));
	json_free(&json);
	free(big);
}

static void
test_depth(void **state)
{
	struct json json = { 0 };
	unsigned i;

	(void)state;
	for (i = 0; i + 1 < JSON_DEPTH; i++) {
		json_array(&json, NULL);
	}
	assert_non_null(json_text(&json));
	json_array(&json, NULL);
	assert_null(json_text(&json));
	json_free(&json);
	json_end_array(&json);
	assert_null(json_text(&json));
	json_free(&json);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_keys_are_quoted),
		cmocka_unit_test(test_empty_bytes),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_depth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
