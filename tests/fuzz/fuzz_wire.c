/* SPDX-License-Identifier: MIT */
/*
 * fuzz_wire.c - every decoder: what decodes must encode to the same bytes.
 *
 * The input is one message.
 */
#include <string.h>

#include "fuzz_input.h"
#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All items lie inside the list, and there are as many as it says. */
static void
check_list(struct wire_list list)
{
	const uint8_t *end = list.raw.at + list.raw.len;
	struct wire_bytes item;
	uint32_t count = list.count, seen = 0;

	CHECK(count <= WIRE_ITEMS_MAX);
	while (wire_next(&list, &item)) {
		CHECK(item.at + item.len <= end);
		seen++;
	}
	CHECK(seen == count && list.raw.len == 0);
}

static void
check_lists(const struct wire *msg)
{
	switch (msg->type) {
	case WIRE_EXEC:
		check_list(msg->u.exec.argv);
		check_list(msg->u.exec.env);
		check_list(msg->u.exec.unset);
		return;
	case WIRE_HELLO:
		check_list(msg->u.hello.env);
		return;
	case WIRE_PROBE_INFO:
		check_list(msg->u.probe_info.dirs);
		return;
	default:
		return;
	}
}

/* A field over its limit is refused by the encoder too. */
static void
check_limits(struct wire msg, uint8_t *out, size_t cap)
{
	static uint8_t much[WIRE_FRAME_MAX + 1];
	struct wire_bytes over = { much, sizeof(much) };
	size_t len;

	switch (msg.type) {
	case WIRE_LOG:
		msg.u.log.text = over;
		break;
	case WIRE_DATA:
		msg.u.data.bytes = over;
		break;
	case WIRE_EXEC:
		msg.u.exec.env.raw.len = WIRE_BODY_MAX;
		break;
	case WIRE_HELLO:
		msg.u.hello.env.count = WIRE_ITEMS_MAX + 1;
		break;
	default:
		return;
	}
	CHECK(wire_encode(&msg, out, cap, &len) != WIRE_OK);
	CHECK(wire_size(&msg) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire msg;
	enum wire_err err = wire_decode(data, size, &msg);
	uint8_t *out;
	size_t len, same;
	unsigned i;

	CHECK(wire_err_text(err)[0] != '\0');
	CHECK((wire_class(msg.type) == -1) == (strcmp(wire_name(msg.type),
	    "unknown") == 0));
	for (i = 0; wire_tag(msg.type, i) != NULL; i++) {
		continue;
	}
	CHECK(i < 16);
	if (err != WIRE_OK) {
		return 0;
	}
	check_lists(&msg);
	CHECK(wire_size(&msg) == size);
	out = malloc(size);
	CHECK(out != NULL);
	CHECK(wire_encode(&msg, out, size, &len) == WIRE_OK && len == size);
	/* READY's padding is written as zeros, whatever it was. */
	same = msg.type == WIRE_READY ? size - msg.u.ready.pad.len : size;
	CHECK(memcmp(out, data, same) == 0);
	CHECK(wire_encode(&msg, out, size - 1, &len) == WIRE_ERR_SPACE);
	check_limits(msg, out, size);
	msg.type = 0;
	CHECK(wire_encode(&msg, out, size, &len) == WIRE_ERR_TYPE);
	free(out);
	return 0;
}
