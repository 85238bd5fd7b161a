/* SPDX-License-Identifier: MIT */
/* test_wire.c - every message against its frozen vectors, limits, abuse. */
#include "wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "vectors.h"

enum form { U8, U16, U32, I32, U64, BYTES, LIST };

/* Where a tag's value is in struct wire: written without a look at wire.c. */
struct place {
	const char *tag;
	size_t at;
	enum form form;
	uint32_t max;
};

#define FORM(x) _Generic((x), uint8_t: U8, uint16_t: U16, uint32_t: U32, \
	int32_t: I32, uint64_t: U64, struct wire_bytes: BYTES, \
	struct wire_list: LIST)
#define AT(member) offsetof(struct wire, u.member), \
	FORM(((struct wire *)0)->u.member)
#define P(m, f) { "[" #m "." #f "]", AT(m.f), 0 }
#define PM(m, f, max) { "[" #m "." #f "]", AT(m.f), max }
#define UNUSED(m) { "[" #m ".unused]", AT(empty.unused), 0 }

static const struct place places[] = {
	P(ready, version), P(ready, link), P(ready, uid), P(ready, unlinked),
	P(ready, switches), P(ready, terminals), P(ready, pad),
	P(resume, next), P(resume, ping_ms),
	P(resume, dead_ms), P(resume, linger_ms), P(ack, next), P(ping, id),
	P(pong, id), P(pong, busy), P(close, session), P(close, park_s),
	P(handover, count), P(live, flags), P(live, number), P(live, last),
	P(live, next), P(live, expected), P(live, wait_s),
	PM(live, session, 32), PM(live, secret, 32),
	PM(live, target, WIRE_PATH_MAX), PM(live, place, WIRE_PATH_MAX),
	PM(live, env, WIRE_INFO_MAX),
	P(terminal, error), P(open, request),
	P(open, kind), P(open, body), P(open, out), P(open, err),
	P(data, request), P(data, channel), P(data, offset), P(data, bytes),
	P(credit, request), P(credit, channel), P(credit, limit),
	P(eof, request), P(eof, channel), P(eof, total), P(signal, request),
	P(signal, signal), P(resize, request), P(resize, rows),
	P(resize, columns), P(result, request), P(result, outcome),
	P(result, code), P(result, step), P(result, error), P(result, in),
	P(result, out), P(result, err), P(result, wall_us),
	P(result, new_agent), P(result, detached), PM(result, text, 1024),
	PM(result, info, 16384), P(cancel, request), P(log, level),
	PM(log, text, 1024), P(hello, min), P(hello, max), P(hello, flags),
	PM(hello, program, 64), PM(hello, target, 4096),
	PM(hello, env, 16384), P(welcome, version), P(welcome, pid),
	P(welcome, busy), PM(welcome, program, 64), P(exec, flags),
	P(exec, timeout_ms), P(exec, grace_ms), P(exec, rows),
	P(exec, columns), P(exec, umask), P(exec, nice), P(exec, keep),
	P(exec, terminal),
	PM(exec, user, 256), PM(exec, cwd, 4096),
	PM(exec, argv, 1572864), PM(exec, env, 1572864),
	PM(exec, unset, 1572864), PM(exec, limits, 340), P(put, flags), P(put, mode),
	P(put, uid), P(put, gid), P(put, mtime),
	PM(put, user, 256), PM(put, path, 4096), PM(put, name, 255),
	P(get, flags), P(get, offset), P(get, length), P(get, have),
	PM(get, user, 256), PM(get, path, 4096), PM(get, hash, 32),
	P(fs, op), P(fs, flags), P(fs, mode), PM(fs, user, 256),
	PM(fs, path, 4096), PM(fs, second, 4096),
	P(start, flags), P(start, from), P(start, size),
	PM(start, extents, 16384), P(partial, size), PM(partial, hash, 32),
	UNUSED(probe), UNUSED(echo),
	UNUSED(jobs), P(kill, job), P(kill, signal), P(attach, job),
	P(attach, flags), P(attach, out), P(attach, err), UNUSED(stop), UNUSED(linkinfo), P(status, json),
	P(probe_info, flags), P(probe_info, uid), P(probe_info, gid),
	P(probe_info, caps), P(probe_info, bounding), P(probe_info, seccomp),
	P(probe_info, landlock), P(probe_info, pid),
	PM(probe_info, program, 64), PM(probe_info, arch, 64),
	PM(probe_info, exe, 4096), PM(probe_info, cwd, 4096),
	PM(probe_info, hash, 32), PM(probe_info, dirs, 4096),
	P(file_info, flags), P(file_info, size), P(file_info, mode),
	P(file_info, uid), P(file_info, gid), P(file_info, mtime),
	P(file_info, blocks), P(file_info, links), PM(file_info, hash, 32),
	PM(file_info, name, 255), PM(file_info, link, 4096), P(exec_info, job),
	P(exec_info, flags), P(exec_info, uid), P(exec_info, user_us),
	P(exec_info, system_us), P(exec_info, read_blocks),
	P(exec_info, written_blocks), P(exec_info, peak_kib),
	P(exec_info, out_from), P(exec_info, err_from),
	PM(exec_info, cwd, 4096), PM(exec_info, survivors, 4096),
	P(job, job), P(job, state), P(job, outcome), P(job, code),
	P(job, uid), P(job, pid), P(job, processes), P(job, age_us),
	P(job, cpu_us), P(job, detached), P(job, terminal),
	PM(job, user, 256), PM(job, command, 256), P(tree_put, flags),
	PM(tree_put, user, 256), PM(tree_put, path, 4096),
	PM(tree_put, name, 255), P(tree_get, flags), PM(tree_get, user, 256),
	PM(tree_get, path, 4096), P(tree_info, entries), P(tree_info, files),
	P(tree_info, bytes), P(tree_info, links), P(tree_info, skipped),
	P(entry, kind), P(entry, mode), P(entry, uid), P(entry, gid),
	P(entry, seconds), P(entry, nanoseconds), PM(entry, name, 255),
	PM(entry, target, 4096), PM(chunk, bytes, 65536),
	P(entry_end, unused), P(hole, bytes), P(skipped, error), PM(skipped, path, 4096),
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static const struct place *
place_of(const char *tag)
{
	size_t i;

	for (i = 0; i < PLACES; i++) {
		if (strcmp(places[i].tag, tag) == 0) {
			return &places[i];
		}
	}
	fail_msg("%s is in no table of this test", tag);
	return NULL;
}

/* A field without a length of its own. */
static bool
bare(const char *tag)
{
	return strcmp(tag, "[data.bytes]") == 0 ||
	    strcmp(tag, "[chunk.bytes]") == 0 ||
	    strcmp(tag, "[ready.pad]") == 0;
}

static uint64_t
number(const uint8_t *at, size_t len)
{
	uint64_t value = 0;

	while (len-- > 0) {
		value = value << 8 | *at++;
	}
	return value;
}

/* Set the field in *msg from the bytes it has on the wire. */
static void
set(struct wire *msg, const char *tag, const uint8_t *bytes, size_t len)
{
	static const size_t sizes[] = { 1, 2, 4, 4, 8 };
	const struct place *p = place_of(tag);
	char *to = (char *)msg + p->at;
	size_t skip = bare(tag) ? 0 : 4;

	if (p->form < BYTES) {
		assert_int_equal(len, sizes[p->form]);
	}
	switch (p->form) {
	case U8:
		*(uint8_t *)to = bytes[0];
		break;
	case U16:
		*(uint16_t *)(void *)to = (uint16_t)number(bytes, 2);
		break;
	case U32:
	case I32:
		*(uint32_t *)(void *)to = (uint32_t)number(bytes, 4);
		break;
	case U64:
		*(uint64_t *)(void *)to = number(bytes, 8);
		break;
	case BYTES:
		*(struct wire_bytes *)(void *)to = (struct wire_bytes){
		    bytes + skip, (uint32_t)(len - skip) };
		break;
	case LIST:
		*(struct wire_list *)(void *)to = (struct wire_list){
		    (uint32_t)number(bytes + 4, 4),
		    { bytes + 8, (uint32_t)(len - 8) } };
		break;
	}
}

static void
same_field(const struct wire *a, const struct wire *b, const char *tag)
{
	static const size_t sizes[] = { 1, 2, 4, 4, 8 };
	const struct place *p = place_of(tag);
	const char *x = (const char *)a + p->at, *y = (const char *)b + p->at;

	if (p->form < BYTES) {
		assert_memory_equal(x, y, sizes[p->form]);
	} else if (p->form == BYTES) {
		const struct wire_bytes *v = (const void *)x;
		const struct wire_bytes *w = (const void *)y;

		assert_int_equal(v->len, w->len);
		assert_true(v->len == 0 || memcmp(v->at, w->at, v->len) == 0);
	} else {
		const struct wire_list *v = (const void *)x;
		const struct wire_list *w = (const void *)y;

		assert_int_equal(v->count, w->count);
		assert_int_equal(v->raw.len, w->raw.len);
		assert_true(v->raw.len == 0 ||
		    memcmp(v->raw.at, w->raw.at, v->raw.len) == 0);
	}
}

/* ---- vectors ---------------------------------------------------------- */

static struct vector_file *vectors;

static int
setup(void **state)
{
	(void)state;
	vectors = vector_read("tests/vectors/wire.txt");
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	vector_free(vectors);
	return 0;
}

static const struct vector_line *
message_of(const struct vector_block *b)
{
	const struct vector_line *last = &b->lines[b->count - 1];

	assert_string_equal(last->word, "message");
	assert_non_null(last->bytes);
	return last;
}

static void
one_vector(const struct vector_block *b)
{
	const struct vector_line *whole = message_of(b);
	struct wire want = { .type = whole->bytes[0] }, got;
	uint8_t *out = malloc(whole->len);
	size_t i, at = 1, len;

	assert_string_equal(wire_name(want.type), b->lines[0].text);
	for (i = 1; i + 1 < b->count; i++) {
		const struct vector_line *l = &b->lines[i];

		assert_non_null(wire_tag(want.type, (unsigned)i - 1));
		assert_string_equal(l->word,
		    wire_tag(want.type, (unsigned)i - 1));
		assert_memory_equal(l->bytes, whole->bytes + at, l->len);
		at += l->len;
		set(&want, l->word, l->bytes, l->len);
	}
	assert_int_equal(at, whole->len);
	assert_null(wire_tag(want.type, (unsigned)i - 1));
	assert_int_equal(wire_decode(whole->bytes, whole->len, &got),
	    WIRE_OK);
	assert_int_equal(got.type, want.type);
	for (i = 1; i + 1 < b->count; i++) {
		same_field(&want, &got, b->lines[i].word);
	}
	assert_int_equal(wire_size(&want), whole->len);
	assert_int_equal(wire_encode(&want, out, whole->len, &len), WIRE_OK);
	assert_int_equal(len, whole->len);
	assert_memory_equal(out, whole->bytes, len);
	free(out);
}

static void
test_vectors(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < vectors->count; i++) {
		one_vector(&vectors->blocks[i]);
	}
}

static void
test_each_type_has_one(void **state)
{
	bool seen[256] = { false };
	unsigned type;
	size_t i;

	(void)state;
	for (i = 0; i < vectors->count; i++) {
		seen[message_of(&vectors->blocks[i])->bytes[0]] = true;
	}
	for (type = 0; type < 256; type++) {
		if (seen[type] != (wire_class((uint8_t)type) != -1)) {
			fail_msg("type %u: %s", type, seen[type] ?
			    "unknown" : "has no vector");
		}
	}
}

static void
test_classes(void **state)
{
	unsigned type;

	(void)state;
	for (type = 0; type < 256; type++) {
		int class = wire_class((uint8_t)type);

		assert_true(class == -1 || class == (type < 16 ?
		    WIRE_CLASS_LINK : type < 32 ? WIRE_CLASS_SESSION :
		    type < 64 ? WIRE_CLASS_CLIENT : WIRE_CLASS_BODY));
	}
}

/* A copy of exactly len bytes, so that ASan sees a read beyond it. */
static enum wire_err
decode_exact(const uint8_t *bytes, size_t len, struct wire *msg)
{
	uint8_t *copy = malloc(len + (len == 0));
	enum wire_err err;

	if (len > 0) {
		memcpy(copy, bytes, len);
	}
	err = wire_decode(copy, len, msg);
	free(copy);
	return err;
}

static void
test_truncations(void **state)
{
	struct wire msg;
	size_t i, n;

	(void)state;
	for (i = 0; i < vectors->count; i++) {
		const struct vector_line *w = message_of(&vectors->blocks[i]);

		for (n = 0; n < w->len; n++) {
			/* DATA's bytes are whatever there is, but for none. */
			bool whole = w->bytes[0] == WIRE_DATA &&
			    n > WIRE_DATA_HEADER;

			assert_int_equal(decode_exact(w->bytes, n, &msg),
			    whole ? WIRE_OK : WIRE_ERR_SHORT);
			if (whole) {
				assert_int_equal(msg.u.data.bytes.len,
				    n - WIRE_DATA_HEADER);
			}
		}
	}
}

static void
test_trailing(void **state)
{
	struct wire msg;
	uint8_t *more;
	size_t i;

	(void)state;
	for (i = 0; i < vectors->count; i++) {
		const struct vector_line *w = message_of(&vectors->blocks[i]);
		enum wire_err want = w->bytes[0] == WIRE_DATA ||
		    w->bytes[0] == WIRE_CHUNK ? WIRE_OK :
		    w->bytes[0] == WIRE_READY ? WIRE_ERR_SHORT :
		    WIRE_ERR_TRAILING;

		more = calloc(1, w->len + 1);
		memcpy(more, w->bytes, w->len);
		assert_int_equal(wire_decode(more, w->len + 1, &msg), want);
		free(more);
	}
}

/* Too little room: WIRE_ERR_SPACE, and not a byte beyond it. */
static void
test_no_room(void **state)
{
	size_t i, cap, len;
	struct wire msg;
	uint8_t *out;

	(void)state;
	for (i = 0; i < vectors->count; i++) {
		const struct vector_line *w = message_of(&vectors->blocks[i]);

		assert_int_equal(wire_decode(w->bytes, w->len, &msg), WIRE_OK);
		for (cap = 0; cap < w->len; cap++) {
			out = malloc(cap + (cap == 0));
			assert_int_equal(wire_encode(&msg, out, cap, &len),
			    WIRE_ERR_SPACE);
			assert_true(len <= cap);
			free(out);
		}
	}
}

static void
test_unknown_types(void **state)
{
	uint8_t bytes[64] = { 0 }, out[64];
	struct wire msg = { 0 };
	unsigned type;
	size_t len;

	(void)state;
	for (type = 0; type < 256; type++) {
		if (wire_class((uint8_t)type) != -1) {
			continue;
		}
		bytes[0] = (uint8_t)type;
		msg.type = (uint8_t)type;
		assert_int_equal(wire_encode(&msg, out, sizeof(out), &len),
		    WIRE_ERR_TYPE);
		assert_int_equal(wire_size(&msg), 0);
		assert_int_equal(decode_exact(bytes, 1, &msg), WIRE_ERR_TYPE);
		assert_int_equal(decode_exact(bytes, 64, &msg),
		    WIRE_ERR_TYPE);
		assert_string_equal(wire_name((uint8_t)type), "unknown");
		assert_null(wire_tag((uint8_t)type, 0));
	}
	assert_int_equal(wire_decode(bytes, 0, &msg), WIRE_ERR_SHORT);
}

/* ---- limits ----------------------------------------------------------- */

static uint8_t
type_of(const char *tag)
{
	unsigned type, i;

	for (type = 0; type < 256; type++) {
		for (i = 0; wire_tag((uint8_t)type, i) != NULL; i++) {
			if (strcmp(wire_tag((uint8_t)type, i), tag) == 0) {
				return (uint8_t)type;
			}
		}
	}
	fail_msg("%s: no such field", tag);
	return 0;
}

/* One item that fills a list to size bytes in all, count included. */
static void
fill_list(struct wire_list *list, uint8_t *buf, uint32_t size)
{
	uint32_t item = size - 8;

	memset(buf, 'x', size);
	buf[0] = (uint8_t)(item >> 24);
	buf[1] = (uint8_t)(item >> 16);
	buf[2] = (uint8_t)(item >> 8);
	buf[3] = (uint8_t)item;
	*list = (struct wire_list){ 1, { buf, size - 4 } };
}

/*
 * A field of max bytes passes both ways; one of max + 1 is refused by the
 * encoder, and by the decoder when its length is raised by hand.
 */
static void
limit_of(const struct place *p)
{
	struct wire msg = { .type = type_of(p->tag) }, got;
	uint8_t *big = malloc(p->max + 16), *out = malloc(p->max + 256);
	void *field = (char *)&msg + p->at;
	size_t len, at, i;

	memset(big, 'x', p->max + 16);
	if (p->form == LIST) {
		fill_list(field, big, p->max);
	} else {
		*(struct wire_bytes *)field =
		    (struct wire_bytes){ big, p->max };
	}
	assert_int_equal(wire_encode(&msg, out, p->max + 256, &len), WIRE_OK);
	assert_int_equal(decode_exact(out, len, &got), WIRE_OK);
	/* Find the length field: the only place where max stands. */
	for (at = 1, i = 0; at + 4 < len; at++) {
		if (number(out + at, 4) == p->max) {
			i = at;
			break;
		}
	}
	assert_int_not_equal(i, 0);
	assert_int_equal(number(out + i, 4), p->max);
	memmove(out + i + 5, out + i + 4, len - i - 4);
	out[i] = (uint8_t)((p->max + 1) >> 24);
	out[i + 1] = (uint8_t)((p->max + 1) >> 16);
	out[i + 2] = (uint8_t)((p->max + 1) >> 8);
	out[i + 3] = (uint8_t)(p->max + 1);
	assert_int_equal(decode_exact(out, len + 1, &got), WIRE_ERR_LIMIT);

	if (p->form == LIST) {
		fill_list(field, big, p->max + 1);
	} else {
		((struct wire_bytes *)field)->len = p->max + 1;
	}
	assert_int_equal(wire_encode(&msg, out, p->max + 256, &len),
	    WIRE_ERR_LIMIT);
	assert_int_equal(wire_size(&msg), 0);
	free(big);
	free(out);
}

static void
test_limits(void **state)
{
	size_t i, seen = 0;

	(void)state;
	for (i = 0; i < PLACES; i++) {
		if (places[i].form < BYTES || bare(places[i].tag)) {
			continue;
		}
		assert_int_not_equal(places[i].max, 0);
		limit_of(&places[i]);
		seen++;
	}
	assert_int_equal(seen, 50);
}

static void
test_data_limit(void **state)
{
	static uint8_t bytes[WIRE_FRAME_MAX + 2], out[WIRE_FRAME_MAX + 2];
	struct wire msg = { .type = WIRE_DATA, .u.data = { .request = 1 } };
	size_t len;

	(void)state;
	msg.u.data.bytes = (struct wire_bytes){ bytes, WIRE_DATA_MAX };
	assert_int_equal(wire_encode(&msg, out, sizeof(out), &len), WIRE_OK);
	assert_int_equal(len, WIRE_FRAME_MAX);
	assert_int_equal(decode_exact(out, len, &msg), WIRE_OK);
	assert_int_equal(msg.u.data.bytes.len, WIRE_DATA_MAX);
	assert_int_equal(decode_exact(out, len + 1, &msg), WIRE_ERR_LIMIT);
	msg.u.data.bytes = (struct wire_bytes){ bytes, WIRE_DATA_MAX + 1 };
	assert_int_equal(wire_encode(&msg, out, sizeof(out), &len),
	    WIRE_ERR_LIMIT);
}

/* ---- lists ------------------------------------------------------------ */

struct list_case {
	const char *what;
	const char *hex;		/* the list, its own length included */
	enum wire_err want;
};

static const struct list_case list_cases[] = {
	{ "empty", "00000004" "00000000", WIRE_OK },
	{ "one item", "0000000a" "00000001" "00000002" "6162", WIRE_OK },
	{ "an empty item", "00000008" "00000001" "00000000", WIRE_OK },
	{ "no room for the count", "00000003" "000000", WIRE_ERR_SHORT },
	{ "nothing at all", "00000000", WIRE_ERR_SHORT },
	{ "a count of one and no item", "00000004" "00000001",
	    WIRE_ERR_SHORT },
	{ "a count too large by one", "00000008" "00000002" "00000000",
	    WIRE_ERR_SHORT },
	{ "a count of 2^32-1", "00000008" "ffffffff" "00000000",
	    WIRE_ERR_LIMIT },
	{ "a count over the limit", "00000008" "00008001" "00000000",
	    WIRE_ERR_LIMIT },
	{ "an item that ends beyond the list", "00000009" "00000001"
	    "00000002" "61", WIRE_ERR_SHORT },
	{ "an item of 2^32-1", "00000009" "00000001" "ffffffff" "61",
	    WIRE_ERR_LIMIT },
	{ "an item that wraps", "00000009" "00000001" "fffffffe" "61",
	    WIRE_ERR_LIMIT },
	{ "half an item's length", "00000006" "00000001" "0000",
	    WIRE_ERR_SHORT },
	{ "bytes behind the items", "00000005" "00000000" "61",
	    WIRE_ERR_TRAILING },
	{ "items behind the count", "0000000c" "00000001" "00000000"
	    "00000000", WIRE_ERR_TRAILING },
	{ "a list beyond the message", "000000ff" "00000000",
	    WIRE_ERR_SHORT },
};

static void
test_copy(void **state)
{
	char out[5] = "????";

	(void)state;
	assert_int_equal(wire_copy(out, sizeof(out), wire_string("abcd")), 0);
	assert_string_equal(out, "abcd");
	assert_int_equal(wire_copy(out, sizeof(out), wire_string("abcde")),
	    -1);
	assert_int_equal(wire_copy(out, sizeof(out),
	    (struct wire_bytes){ (const uint8_t *)"a\0b", 3 }), -1);
	assert_int_equal(wire_copy(out, sizeof(out),
	    (struct wire_bytes){ NULL, 0 }), 0);
	assert_string_equal(out, "");
}

static void
test_list_abuse(void **state)
{
	/* An EXEC's fields around argv; the other lists are empty. */
	static const char head[] = "40" "00000000" "0000000000000000"
	    "00000000" "0000" "0000" "00000000" "00000000" "00000000"
	    "00000000" "00000000" "00000000";
	static const char tail[] = "00000004" "00000000" "00000004"
	    "00000000" "00000004" "00000000";
	struct wire msg;
	enum wire_err err;
	char text[512];
	uint8_t *bytes;
	size_t i, len;

	(void)state;
	for (i = 0; i < sizeof(list_cases) / sizeof(list_cases[0]); i++) {
		const struct list_case *c = &list_cases[i];

		snprintf(text, sizeof(text), "%s%s%s", head, c->hex, tail);
		bytes = vector_hex(text, &len);
		err = decode_exact(bytes, len, &msg);
		if (err != c->want) {
			fail_msg("%s: %s", c->what, wire_err_text(err));
		}
		free(bytes);
	}
}

static void
test_list_items(void **state)
{
	uint32_t size = 4 + WIRE_ITEMS_MAX * 4u, i;
	uint8_t *items = calloc(1, size), *out = malloc(size + 128);
	struct wire msg = { .type = WIRE_EXEC }, got;
	struct wire_bytes item;
	size_t len;

	(void)state;
	msg.u.exec.argv = (struct wire_list){ WIRE_ITEMS_MAX,
	    { items, WIRE_ITEMS_MAX * 4u } };
	assert_int_equal(wire_encode(&msg, out, size + 128, &len), WIRE_OK);
	assert_int_equal(wire_decode(out, len, &got), WIRE_OK);
	for (i = 0; wire_next(&got.u.exec.argv, &item); i++) {
		assert_int_equal(item.len, 0);
	}
	assert_int_equal(i, WIRE_ITEMS_MAX);
	msg.u.exec.argv = (struct wire_list){ WIRE_ITEMS_MAX + 1,
	    { items, size } };
	assert_int_equal(wire_encode(&msg, out, size + 128, &len),
	    WIRE_ERR_LIMIT);
	free(items);
	free(out);
}

static void
test_next(void **state)
{
	static const uint8_t raw[] = { 0, 0, 0, 1, 'a', 0, 0, 0, 0,
	    0, 0, 0, 3, 'b', 0, 0xff };
	struct wire_list list = { 3, { raw, sizeof(raw) } };
	struct wire_bytes item;

	(void)state;
	assert_true(wire_next(&list, &item));
	assert_int_equal(item.len, 1);
	assert_int_equal(item.at[0], 'a');
	assert_true(wire_next(&list, &item));
	assert_int_equal(item.len, 0);
	assert_true(wire_next(&list, &item));
	assert_int_equal(item.len, 3);
	assert_memory_equal(item.at, "b\0\xff", 3);
	assert_false(wire_next(&list, &item));
	assert_false(wire_next(&list, &item));
}

/* ---- chance ----------------------------------------------------------- */

/* What decodes encodes to the same bytes: there is one form of a message. */
static void
test_mutations(void **state)
{
	unsigned seed = 1, round, n;
	size_t len;
	struct wire msg;
	uint8_t *copy, *out;

	(void)state;
	for (round = 0; round < 40000; round++) {
		const struct vector_line *w = message_of(
		    &vectors->blocks[round % vectors->count]);

		copy = malloc(w->len);
		out = malloc(w->len);
		memcpy(copy, w->bytes, w->len);
		for (n = (unsigned)rand_r(&seed) % 3 + 1; n > 0; n--) {
			copy[(unsigned)rand_r(&seed) % w->len] =
			    (uint8_t)(rand_r(&seed) >> (rand_r(&seed) % 8));
		}
		if (wire_decode(copy, w->len, &msg) == WIRE_OK &&
		    msg.type != WIRE_READY) {
			assert_int_equal(wire_encode(&msg, out, w->len, &len),
			    WIRE_OK);
			assert_int_equal(len, w->len);
			assert_memory_equal(out, copy, len);
		}
		free(copy);
		free(out);
	}
}

static void
test_texts(void **state)
{
	int err;

	(void)state;
	for (err = WIRE_OK; err <= WIRE_ERR_SPACE; err++) {
		assert_string_not_equal(wire_err_text((enum wire_err)err),
		    "unknown error");
	}
	assert_int_equal(wire_string("abc").len, 3);
	assert_int_equal(wire_string("").len, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_each_type_has_one),
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_truncations),
		cmocka_unit_test(test_trailing),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_unknown_types),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_data_limit),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_list_abuse),
		cmocka_unit_test(test_list_items),
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_mutations),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
