/* SPDX-License-Identifier: MIT */
/* test_trust.c - which users cannot be root, whatever the sandbox says. */
#include "trust.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void
test_not_root(void **state)
{
	static const char *const others[] = {
		"1", "1000", "1000:0", "1000:root", "01", "2147483647",
		"5:", "5::"
	};
	static const char *const roots[] = {
		"", "0", "00", "0:5", ":", ":5", "root", "app", "1000x", "x1",
		"-1", "+1", " 1", "1 ", "2147483648", "4294967296",
		"18446744073709551617", "99999999999999999999999999999999"
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (!trust_is_not_root(others[i], strlen(others[i]))) {
			fail_msg("%s", others[i]);
		}
	}
	for (i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		if (trust_is_not_root(roots[i], strlen(roots[i]))) {
			fail_msg("%s", roots[i]);
		}
	}
	/* Only what is inside counts. */
	assert_false(trust_is_not_root("05", 1));
	assert_true(trust_is_not_root("5x", 1));
	assert_false(trust_is_not_root(NULL, 0));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
