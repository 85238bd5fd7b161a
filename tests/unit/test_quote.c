/* SPDX-License-Identifier: MIT */
/* test_quote.c - nothing remote reaches a terminal as it is. */
#include "quote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const char *
quoted(const char *text)
{
	static char out[256];

	quote_text(out, sizeof(out), text);
	return out;
}

static void
test_escapes(void **state)
{
	static const char *const pairs[][2] = {
		{ "", "" }, { "plain", "plain" }, { "a\nb", "a\\nb" },
		{ "\r\t", "\\r\\t" }, { "\\", "\\\\" },
		{ "\x1b[2J", "\\x1b[2J" }, { "\x7f", "\\x7f" },
		{ "\xc3\xa9", "\xc3\xa9" },		/* e acute */
		{ "\xc3", "\\xc3" }, { "\xa9", "\\xa9" },
		{ "\xc0\x80", "\\xc0\\x80" },		/* overlong NUL */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },	/* a surrogate */
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "\xc2\x9b" "2J", "\\xc2\\x9b2J" },	/* C1: CSI */
		{ "\xe2\x80\xae", "\\xe2\\x80\\xae" },	/* right to left */
		{ "\xe2\x80\xa8", "\\xe2\\x80\\xa8" },	/* line separator */
		{ "\xff\xfe", "\\xff\\xfe" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		assert_string_equal(quoted(pairs[i][0]), pairs[i][1]);
	}
}

static void
test_nul(void **state)
{
	char out[32];

	(void)state;
	assert_int_equal(quote_bytes(out, sizeof(out),
	    (const uint8_t *)"a\0b", 3), 6);
	assert_string_equal(out, "a\\x00b");
}

static void
test_cut(void **state)
{
	static const char *const texts[] = {
		"plain words", "\x1b\x1b\x1b\x1b", "\xc3\xa9\xc3\xa9\xc3\xa9",
		"a\nb\nc\nd\ne"
	};
	char out[32], whole[64];
	size_t i, room, n, len;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		len = quote_text(whole, sizeof(whole), texts[i]);
		for (room = 1; room < sizeof(out); room++) {
			memset(out, 'z', sizeof(out));
			n = quote_text(out, room, texts[i]);
			assert_true(n < room);
			assert_int_equal(strlen(out), n);
			if (room > len) {
				assert_string_equal(out, whole);
			} else if (room > 3) {
				assert_string_equal(out + n - 3, "...");
				assert_memory_equal(out, whole, n - 3);
			}
		}
	}
	assert_int_equal(quote_text(out, 0, "x"), 0);
}

static void
test_all_bytes(void **state)
{
	uint8_t all[256];
	char out[2048];
	size_t i;

	(void)state;
	for (i = 0; i < 256; i++) {
		all[i] = (uint8_t)i;
	}
	quote_bytes(out, sizeof(out), all, sizeof(all));
	for (i = 0; out[i] != '\0'; i++) {
		assert_true(out[i] >= ' ' && out[i] < 0x7f);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_all_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
