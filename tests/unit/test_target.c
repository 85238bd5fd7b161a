/* SPDX-License-Identifier: MIT */
/* test_target.c - names of targets, and cp's operands. */
#include "target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void
test_good(void **state)
{
	static const char *const good[][3] = {
		{ "local", "local", "" },
		{ "docker:x", "docker", "x" },
		{ "docker:A.b_c-9", "docker", "A.b_c-9" },
		{ "podman:web", "podman", "web" },
		{ "openshell:box-1", "openshell", "box-1" },
		{ "x", "", "x" },
		{ "locale", "", "locale" },
		{ "smx-a2b3c4d5e6f7g", "", "smx-a2b3c4d5e6f7g" },
		{ "1234567890123456789", "", "1234567890123456789" },
	};
	char text[TARGET_TEXT_MAX];
	struct target target;
	struct error error;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(target_parse(good[i][0], &target, &error), 0);
		assert_string_equal(target.scheme, good[i][1]);
		assert_string_equal(target.name, good[i][2]);
		target_format(&target, text);
		assert_string_equal(text, good[i][0]);
	}
}

static void
test_bad(void **state)
{
	static const char *const bad[] = {
		"", ":", "Local", "local:", "local:x", "X", "a_b", "a.b",
		"-a", "a-", "a--b", "12345678901234567890", "dokcer:x", "x:",
		"docker", "docker:", "docker:-x", "docker:.x", "docker:a b",
		"docker:a:b", "docker:a\n", "docker:\xc3\xa9", "docker:$(x)",
		"docker:a;b", "podman:", "podman", "kubectl:n/p", "ssh:h",
		"-i", "--", "\x1b[2J"
	};
	char longest[TARGET_NAME_MAX + 16];
	struct target target;
	struct error error;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		error.step = WIRE_STEP_NONE;
		assert_int_equal(target_parse(bad[i], &target, &error), -1);
		assert_int_equal(error.step, WIRE_STEP_TARGET);
		assert_true(error.text[0] != '\0');
	}
	memset(longest, 'x', sizeof(longest) - 1);
	memcpy(longest, "docker:", 7);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(target_parse(longest, &target, &error), -1);
	longest[7 + TARGET_NAME_MAX - 1] = '\0';
	assert_int_equal(target_parse(longest, &target, &error), 0);
	assert_int_equal(strlen(target.name), TARGET_NAME_MAX - 1);
}

static void
test_operands(void **state)
{
	static const struct {
		const char *text, *scheme, *name, *path;
	} some[] = {
		{ "-", "", "", "-" },
		{ "a", "", "", "a" },
		{ "/a:b", "", "", "/a:b" },
		{ "./docker:x:y", "", "", "./docker:x:y" },
		{ "../docker:x", "", "", "../docker:x" },
		{ "local:/a", "local", "", "/a" },
		{ "local:a:b", "local", "", "a:b" },
		{ "docker:x:a", "docker", "x", "a" },
		{ "docker:x:/a:b", "docker", "x", "/a:b" },
		{ "openshell:b::", "openshell", "b", ":" },
		{ "a:b", "", "a", "b" },
		{ "smx-a:/x:y", "", "smx-a", "/x:y" },
	};
	struct target_operand operand;
	struct error error;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		assert_int_equal(target_operand(some[i].text, &operand,
		    &error), 0);
		assert_int_equal(operand.local, some[i].name[0] == '\0' &&
		    some[i].scheme[0] == '\0');
		assert_string_equal(operand.target.scheme, some[i].scheme);
		assert_string_equal(operand.target.name, some[i].name);
		assert_string_equal(operand.path, some[i].path);
	}
}

static void
test_bad_operands(void **state)
{
	static const char *const bad[] = {
		"", ":", "A:b", "local:", "docker:x", "docker:x:", "docker::/a",
		"kubectl:x:/a", ".../a:b", "~:x", "a:", "a--b:c"
	};
	struct target_operand operand;
	struct error error;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(target_operand(bad[i], &operand, &error), -1);
	}
	/* A file that only looks like a target: the error says how. */
	assert_int_equal(target_operand("A:b", &operand, &error), -1);
	assert_non_null(strstr(error.text, "./NAME"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_operands),
		cmocka_unit_test(test_bad_operands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
