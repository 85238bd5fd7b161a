/* SPDX-License-Identifier: MIT */
/* test_envlist.c - -e, --env-file and --unset become lists of a message. */
#include "envlist.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* "A=1|B=2|" of a list. */
static const char *
joined(const struct items *items)
{
	static char out[512];
	struct wire_list list = items_list(items);
	struct wire_bytes item;
	size_t used = 0;

	out[0] = '\0';
	while (wire_next(&list, &item)) {
		used += (size_t)snprintf(out + used, sizeof(out) - used,
		    "%.*s|", (int)item.len, (const char *)item.at);
	}
	return out;
}

static void
test_add(void **state)
{
	struct envlist env = { 0 };
	struct error error;

	(void)state;
	setenv("SMX_HERE", "v=1\n", 1);
	unsetenv("SMX_GONE");
	assert_int_equal(envlist_add(&env, "A=", &error), 0);
	assert_int_equal(envlist_add(&env, "B==x", &error), 0);
	assert_int_equal(envlist_add(&env, "SMX_HERE", &error), 0);
	assert_int_equal(envlist_add(&env, "SMX_GONE", &error), 0);
	assert_int_equal(envlist_remove(&env, "C", &error), 0);
	assert_string_equal(joined(&env.set), "A=|B==x|SMX_HERE=v=1\n|");
	assert_string_equal(joined(&env.unset), "SMX_GONE|C|");
	assert_int_equal(env.set.bytes, 2 + 4 + 13);
	envlist_free(&env);
	envlist_free(&env);
}

static void
test_bad_names(void **state)
{
	static const char *const bad[] = { "", "=", "=x", "A B=x", "A\t=x",
	    "A\n=1", " A=1", "A; id #", "\x7f=1", "\x1b=1" };
	struct envlist env = { 0 };
	struct error error;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(envlist_add(&env, bad[i], &error), -1);
		assert_int_equal(error.step, WIRE_STEP_USAGE);
		assert_int_equal(envlist_remove(&env, bad[i], &error), -1);
	}
	assert_int_equal(envlist_remove(&env, "A=B", &error), -1);
	assert_int_equal(env.set.count + env.unset.count, 0);
}

static int
from_file(struct envlist *env, const char *text, size_t len,
    struct error *error)
{
	char path[] = "/tmp/sandmux-env-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	close(fd);
	rc = envlist_file(env, path, error);
	unlink(path);
	return rc;
}

static void
test_file(void **state)
{
	static const char text[] = "\xef\xbb\xbf" "A=1\n\n# no\n  #no\n"
	    " B=x # y\r\nSMX_HERE\nSMX_GONE\nC=last";
	struct envlist env = { 0 };
	struct error error;

	(void)state;
	setenv("SMX_HERE", "here", 1);
	unsetenv("SMX_GONE");
	assert_int_equal(from_file(&env, text, strlen(text), &error), 0);
	assert_string_equal(joined(&env.set),
	    "A=1|B=x # y|SMX_HERE=here|C=last|");
	assert_int_equal(env.unset.count, 0);
	envlist_free(&env);
	assert_int_equal(from_file(&env, "", 0, &error), 0);
	assert_int_equal(env.set.count, 0);
}

static void
test_bad_file(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *where;
	} bad[] = {
		{ "A=1\nB=\0\n", 8, "line 2" },
		{ "\0", 1, "line 1" },
		{ "A=1\n\n\nA B\n", 10, "line 4" },
		{ "=x", 2, "line 1" }
	};
	struct envlist env = { 0 };
	struct error error;
	char *big;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(from_file(&env, bad[i].text, bad[i].len,
		    &error), -1);
		assert_non_null(strstr(error.text, bad[i].where));
	}
	envlist_free(&env);
	assert_int_equal(envlist_file(&env, "/nowhere", &error), -1);
	assert_non_null(strstr(error.text, "/nowhere"));
	big = calloc(1, ENVLIST_FILE_MAX + 1);
	assert_non_null(big);
	memset(big, '#', ENVLIST_FILE_MAX);
	assert_int_equal(from_file(&env, big, ENVLIST_FILE_MAX, &error), -1);
	assert_int_equal(from_file(&env, big, ENVLIST_FILE_MAX - 1, &error),
	    0);
	free(big);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_bad_names),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_bad_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
