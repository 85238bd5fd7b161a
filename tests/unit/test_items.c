/* SPDX-License-Identifier: MIT */
/* test_items.c - lists as messages carry them, up to their bounds. */
#include "items.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void
test_round_trip(void **state)
{
	static const char *const words[] = { "", "a", "two\nlines", "\xff" };
	struct items items = { 0 };
	struct wire msg = { .type = WIRE_EXEC }, back;
	struct wire_list list;
	struct wire_bytes item;
	uint8_t *body;
	uint32_t len;
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		items_text(&items, words[i]);
	}
	items_add(&items, NULL, 0);
	msg.u.exec.argv = items_list(&items);
	assert_int_equal(items_encode(&msg, &body, &len), 0);
	assert_int_equal(wire_decode(body, len, &back), WIRE_OK);
	list = back.u.exec.argv;
	assert_int_equal(list.count, 5);
	for (i = 0; i < 4; i++) {
		assert_true(wire_next(&list, &item));
		assert_int_equal(item.len, strlen(words[i]));
		assert_memory_equal(item.at, words[i], item.len);
	}
	assert_true(wire_next(&list, &item));
	assert_int_equal(item.len, 0);
	assert_false(wire_next(&list, &item));
	free(body);
	items_free(&items);
	items_free(&items);
}

static void
test_bounds(void **state)
{
	struct items items = { 0 };
	char *big = calloc(1, WIRE_BODY_MAX);

	(void)state;
	assert_non_null(big);
	items_add(&items, big, WIRE_ARGS_MAX);
	assert_false(items.failed);
	assert_int_equal(items.bytes, WIRE_ARGS_MAX);
	items_add(&items, big, WIRE_BODY_MAX - WIRE_ARGS_MAX);
	assert_true(items.failed);
	assert_int_equal(items.count, 1);
	items_free(&items);
	items_add(&items, big, (size_t)UINT32_MAX * 2);
	assert_true(items.failed);
	items_free(&items);
	free(big);
}

static void
test_unknown_message(void **state)
{
	struct wire msg = { .type = 0xfe };
	uint8_t *body;
	uint32_t len;

	(void)state;
	errno = 0;
	assert_int_equal(items_encode(&msg, &body, &len), -1);
	assert_int_equal(errno, EMSGSIZE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_unknown_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
