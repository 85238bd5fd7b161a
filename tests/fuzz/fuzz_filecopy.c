/* SPDX-License-Identifier: MIT */
/*
 * fuzz_filecopy.c - a START from a hostile sender, and a file of our own.
 *
 * The input's first byte says which: raw bytes that arrive in pieces, extents
 * of small numbers that nearly fit, or a real file with holes.  What is taken
 * describes some file: its offsets only rise, it has an end, and saying it
 * again says the same.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "filecopy.h"
#include "fuzz_input.h"

#define PIECES_MAX 64u
#define FILE_MAX (64u << 12)
#define NAME_MAX_BYTES 255u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct filecopy copy, again;
static uint8_t block[65536];

/* A head that comes in pieces of any size: its START, or -1. */
static int
arrive(struct filecopy_head *head, struct input *in, struct wire *msg)
{
	ssize_t wants;

	head->have = 0;
	while ((wants = filecopy_head_wants(head)) > 0) {
		size_t piece = 1u + input_u8(in), len;
		const uint8_t *bytes;

		CHECK((size_t)wants <= sizeof(head->buf) - head->have);
		piece = piece < (size_t)wants ? piece : (size_t)wants;
		bytes = input_bytes(in, piece, &len);
		if (len == 0) {
			return -1;
		}
		memcpy(head->buf + head->have, bytes, len);
		head->have += len;
	}
	if (wants == -1) {
		return -1;
	}
	return filecopy_head_get(head, WIRE_START, msg);
}

/* Extents that a liar would try: nearly in order, nearly without overlap. */
static void
invent(struct input *in, struct wire *msg)
{
	static const uint64_t edges[] = { 0, 1, 4096, INT64_MAX - 1,
	    INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX };
	static uint8_t extents[(WIRE_EXTENTS_MAX + 1) * WIRE_EXTENT_BYTES];
	struct wire_start *start = &msg->u.start;
	uint64_t at = 0;
	uint32_t n = 0;

	memset(msg, 0, sizeof(*msg));
	msg->type = WIRE_START;
	start->flags = input_u8(in);
	start->from = edges[input_u8(in) % 8];
	start->size = edges[input_u8(in) % 8];
	while (!input_done(in) && n <= WIRE_EXTENTS_MAX) {
		uint8_t how = input_u8(in);
		uint64_t length = 1u + input_u8(in);

		at += how & 7;
		if (how & 8) {
			length = edges[input_u8(in) % 8];
		}
		if (how & 16) {
			at = edges[input_u8(in) % 8];
		}
		wire_number_put(extents + n * WIRE_EXTENT_BYTES, at, 8);
		wire_number_put(extents + n * WIRE_EXTENT_BYTES + 8, length,
		    8);
		at += length;
		n++;
	}
	start->extents.at = extents;
	/* Now and then not a whole one. */
	start->extents.len = n * WIRE_EXTENT_BYTES -
	    (n > 0 && start->flags & 64 ? 3 : 0);
}

/* Its bytes as the receiving end would place them. */
static void
walk(struct filecopy *c, struct input *in)
{
	uint64_t before = c->from;
	unsigned i;

	CHECK(c->count <= WIRE_EXTENTS_MAX && c->next <= c->count);
	for (i = 0; i < WIRE_EXTENTS_MAX + PIECES_MAX; i++) {
		uint64_t n = 1u + input_u16(in);
		bool hole;
		size_t run;

		CHECK(c->at >= before && c->left > 0);
		CHECK(c->left == WIRE_TO_END || c->at + c->left <= INT64_MAX);
		before = c->at;
		n = n < sizeof(block) ? n : sizeof(block);
		if (c->left != WIRE_TO_END) {
			/* A step as large as it may be ends a long list. */
			n = n % 2 == 0 ? c->left : n < c->left ? n : c->left;
			filecopy_moved(c, n);
			continue;
		}
		block[input_u16(in)] ^= 1;
		run = filecopy_run(c, block, (size_t)n, &hole);
		CHECK(run > 0 && run <= n && (!hole || c->zeros));
		while (hole && run > 0) {
			CHECK(block[--run] == 0);
		}
		filecopy_moved(c, n);
		if (i >= PIECES_MAX && input_done(in)) {
			break;
		}
	}
	memset(block, 0, sizeof(block));
}

/* What was taken, told on and taken again, is the same. */
static void
tell_again(const struct filecopy *c)
{
	static struct filecopy_head head;
	struct wire msg = { .type = WIRE_START,
	    .u.start = filecopy_start(c) }, back;

	head.have = filecopy_head_put(&msg, head.buf, sizeof(head.buf));
	CHECK(head.have > 0 && filecopy_head_wants(&head) == 0);
	CHECK(filecopy_head_get(&head, WIRE_START, &back) == 0);
	CHECK(filecopy_head_get(&head, WIRE_PARTIAL, &back) == -1);
	CHECK(filecopy_head_get(&head, WIRE_START, &back) == 0);
	CHECK(filecopy_accept(&again, &back.u.start) == 0);
	CHECK(again.at == c->at && again.left == c->left &&
	    again.count == c->count &&
	    again.zeros == (c->zeros && c->count == 0) &&
	    again.size == c->size && memcmp(again.extents, c->extents,
	    c->count * WIRE_EXTENT_BYTES) == 0);
	CHECK(filecopy_head_put(&msg, head.buf, head.have - 1) == 0);
}

/* A file of ours: bytes here and there, scanned and described. */
static void
scan(struct input *in)
{
	int fd = memfd_create("file", MFD_CLOEXEC);
	uint8_t how = input_u8(in);
	struct seal_digest all, parts;
	uint8_t one[SEAL_KEY], two[SEAL_KEY];
	uint64_t at = 0, from;
	struct wire_start start;
	unsigned i;

	CHECK(fd != -1 && ftruncate(fd, input_u16(in) % FILE_MAX) == 0);
	for (i = 0; i < PIECES_MAX && !input_done(in); i++) {
		uint64_t offset = input_u16(in) * 4u % FILE_MAX;

		CHECK(pwrite(fd, "data", 4, (off_t)offset) == 4);
	}
	from = (uint64_t)(how & 0xf0) << 4;
	filecopy_scan(&copy, fd, from, how & 1);
	start = filecopy_start(&copy);
	CHECK(filecopy_accept(&again, &start) == 0);
	tell_again(&copy);
	/* In one piece or in many: one hash. */
	seal_digest_init(&all);
	seal_digest_init(&parts);
	CHECK(filecopy_hash(&all, fd, &at, UINT64_MAX) == 0);
	from = at;
	at = 0;
	while (at < from) {
		CHECK(filecopy_hash(&parts, fd, &at, 1000) >= 0);
	}
	filecopy_hash_hole(&all, from);
	filecopy_hash_hole(&parts, from / 2);
	filecopy_hash_hole(&parts, from - from / 2);
	seal_digest_get(&all, one);
	seal_digest_get(&parts, two);
	CHECK(memcmp(one, two, sizeof(one)) == 0);
	close(fd);
}

/* Any name of a file has a partial one that a directory can hold. */
static void
partial(struct input *in)
{
	char name[NAME_MAX_BYTES + 1], out[256];
	size_t len;
	const uint8_t *bytes = input_bytes(in, NAME_MAX_BYTES, &len);

	memcpy(name, bytes, len);
	name[len] = '\0';
	filecopy_partial(name, out);
	CHECK(strlen(out) < sizeof(out));
	CHECK(strncmp(out, FILECOPY_PARTIAL, strlen(FILECOPY_PARTIAL)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct filecopy_head head;
	struct input in = { data, size };
	struct wire msg;

	switch (input_u8(&in) % 4) {
	case 0:
		if (arrive(&head, &in, &msg) == -1) {
			return 0;
		}
		break;
	case 1:
		invent(&in, &msg);
		break;
	case 2:
		scan(&in);
		return 0;
	default:
		partial(&in);
		return 0;
	}
	if (filecopy_accept(&copy, &msg.u.start) == 0) {
		tell_again(&copy);
		walk(&copy, &in);
	}
	return 0;
}
