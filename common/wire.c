/* SPDX-License-Identifier: MIT */
/* wire.c - the tables of every message and the one codec they drive. */
#include "wire.h"

#include <string.h>

enum kind {
	K_U8, K_U16, K_U32, K_U64, K_I32,
	K_BYTES,			/* f(bytes) */
	K_LIST,				/* f(count, f(item)...) */
	K_REST,				/* all that is left */
	K_PAD				/* zeros up to WIRE_READY_BYTES */
};

/* The agent does without the tags: they are half of the tables' size. */
#ifdef WIRE_NO_TAGS
#define TAG(tag)
#else
#define TAG(tag) tag,
#endif

struct field {
#ifndef WIRE_NO_TAGS
	const char *tag;
#endif
	uint8_t kind;			/* enum kind */
	uint16_t at;			/* in struct wire */
	uint32_t max;			/* of a length */
};

struct message {
	uint8_t type;
	enum wire_class class;
	const char *name;
	const struct field *fields;
	unsigned count;
};

#define AT(member) offsetof(struct wire, u.member)
#define N(kind, message, name) \
	{ TAG("[" #message "." #name "]") kind, AT(message.name), 0 }
#define B(kind, message, name, max) \
	{ TAG("[" #message "." #name "]") kind, AT(message.name), max }

static const struct field ready_fields[] = {
	N(K_U16, ready, version), N(K_U32, ready, link), N(K_U32, ready, uid),
	N(K_U8, ready, unlinked), N(K_U8, ready, switches),
	N(K_U8, ready, terminals), N(K_PAD, ready, pad)
};
static const struct field resume_fields[] = {
	N(K_U64, resume, next), N(K_U32, resume, ping_ms),
	N(K_U32, resume, dead_ms), N(K_U32, resume, linger_ms)
};
static const struct field ack_fields[] = { N(K_U64, ack, next) };
static const struct field ping_fields[] = { N(K_U64, ping, id) };
static const struct field pong_fields[] = {
	N(K_U64, pong, id), N(K_U8, pong, busy)
};
static const struct field close_fields[] = {
	N(K_U8, close, session), N(K_U32, close, park_s)
};
static const struct field terminal_fields[] = {
	N(K_U32, terminal, error)
};
static const struct field open_fields[] = {
	N(K_U32, open, request), N(K_U8, open, kind), N(K_U32, open, body),
	N(K_U64, open, out), N(K_U64, open, err)
};
static const struct field data_fields[] = {
	N(K_U32, data, request), N(K_U8, data, channel),
	N(K_U64, data, offset), B(K_REST, data, bytes, WIRE_DATA_MAX)
};
static const struct field credit_fields[] = {
	N(K_U32, credit, request), N(K_U8, credit, channel),
	N(K_U64, credit, limit)
};
static const struct field eof_fields[] = {
	N(K_U32, eof, request), N(K_U8, eof, channel), N(K_U64, eof, total)
};
static const struct field signal_fields[] = {
	N(K_U32, signal, request), N(K_U8, signal, signal)
};
static const struct field resize_fields[] = {
	N(K_U32, resize, request), N(K_U16, resize, rows),
	N(K_U16, resize, columns)
};
static const struct field result_fields[] = {
	N(K_U32, result, request), N(K_U8, result, outcome),
	N(K_I32, result, code), N(K_U8, result, step),
	N(K_U32, result, error), N(K_U64, result, in),
	N(K_U64, result, out), N(K_U64, result, err),
	N(K_U64, result, wall_us), N(K_U8, result, new_agent),
	N(K_U8, result, detached),
	B(K_BYTES, result, text, WIRE_TEXT_MAX),
	B(K_BYTES, result, info, WIRE_INFO_MAX)
};
static const struct field cancel_fields[] = { N(K_U32, cancel, request) };
static const struct field log_fields[] = {
	N(K_U8, log, level), B(K_BYTES, log, text, WIRE_TEXT_MAX)
};
static const struct field hello_fields[] = {
	N(K_U16, hello, min), N(K_U16, hello, max), N(K_U32, hello, flags),
	B(K_BYTES, hello, program, 64),
	B(K_BYTES, hello, target, WIRE_PATH_MAX),
	B(K_LIST, hello, env, WIRE_INFO_MAX)
};
static const struct field welcome_fields[] = {
	N(K_U16, welcome, version), N(K_U32, welcome, pid),
	N(K_U32, welcome, busy), B(K_BYTES, welcome, program, 64)
};
static const struct field handover_fields[] = {
	N(K_U32, handover, count)
};
static const struct field live_fields[] = {
	N(K_U32, live, flags), N(K_U32, live, number), N(K_U32, live, last),
	N(K_U64, live, next), N(K_U64, live, expected),
	N(K_U32, live, wait_s), B(K_BYTES, live, session, 32),
	B(K_BYTES, live, secret, 32),
	B(K_BYTES, live, target, WIRE_PATH_MAX),
	B(K_BYTES, live, place, WIRE_PATH_MAX),
	B(K_LIST, live, env, WIRE_INFO_MAX)
};
static const struct field exec_fields[] = {
	N(K_U32, exec, flags), N(K_U64, exec, timeout_ms),
	N(K_U32, exec, grace_ms), N(K_U16, exec, rows),
	N(K_U16, exec, columns), N(K_U32, exec, umask), N(K_I32, exec, nice),
	N(K_U32, exec, keep), N(K_U32, exec, terminal),
	B(K_BYTES, exec, user, WIRE_USER_MAX),
	B(K_BYTES, exec, cwd, WIRE_PATH_MAX),
	B(K_LIST, exec, argv, WIRE_BODY_MAX),
	B(K_LIST, exec, env, WIRE_BODY_MAX),
	B(K_LIST, exec, unset, WIRE_BODY_MAX),
	B(K_LIST, exec, limits, 4 + WIRE_LIMITS_MAX * (4 + WIRE_LIMIT_BYTES))
};
static const struct field put_fields[] = {
	N(K_U32, put, flags), N(K_U32, put, mode), N(K_U32, put, uid),
	N(K_U32, put, gid), N(K_U64, put, mtime),
	B(K_BYTES, put, user, WIRE_USER_MAX),
	B(K_BYTES, put, path, WIRE_PATH_MAX),
	B(K_BYTES, put, name, 255)
};
static const struct field get_fields[] = {
	N(K_U32, get, flags), N(K_U64, get, offset), N(K_U64, get, length),
	N(K_U64, get, have), B(K_BYTES, get, user, WIRE_USER_MAX),
	B(K_BYTES, get, path, WIRE_PATH_MAX),
	B(K_BYTES, get, hash, WIRE_HASH)
};
static const struct field start_fields[] = {
	N(K_U32, start, flags), N(K_U64, start, from), N(K_U64, start, size),
	B(K_BYTES, start, extents, WIRE_EXTENTS_MAX * WIRE_EXTENT_BYTES)
};
static const struct field partial_fields[] = {
	N(K_U64, partial, size), B(K_BYTES, partial, hash, WIRE_HASH)
};
static const struct field fs_fields[] = {
	N(K_U8, fs, op), N(K_U32, fs, flags), N(K_U32, fs, mode),
	B(K_BYTES, fs, user, WIRE_USER_MAX),
	B(K_BYTES, fs, path, WIRE_PATH_MAX),
	B(K_BYTES, fs, second, WIRE_PATH_MAX)
};
static const struct field tree_put_fields[] = {
	N(K_U32, tree_put, flags), B(K_BYTES, tree_put, user, WIRE_USER_MAX),
	B(K_BYTES, tree_put, path, WIRE_PATH_MAX),
	B(K_BYTES, tree_put, name, WIRE_NAME_MAX)
};
static const struct field tree_get_fields[] = {
	N(K_U32, tree_get, flags), B(K_BYTES, tree_get, user, WIRE_USER_MAX),
	B(K_BYTES, tree_get, path, WIRE_PATH_MAX)
};
static const struct field tree_info_fields[] = {
	N(K_U64, tree_info, entries), N(K_U64, tree_info, files),
	N(K_U64, tree_info, bytes), N(K_U64, tree_info, links),
	N(K_U64, tree_info, skipped)
};
static const struct field entry_fields[] = {
	N(K_U8, entry, kind), N(K_U32, entry, mode), N(K_U32, entry, uid),
	N(K_U32, entry, gid), N(K_U64, entry, seconds),
	N(K_U32, entry, nanoseconds), B(K_BYTES, entry, name, WIRE_NAME_MAX),
	B(K_BYTES, entry, target, WIRE_PATH_MAX)
};
static const struct field chunk_fields[] = {
	B(K_REST, chunk, bytes, WIRE_CHUNK_MAX)
};
static const struct field hole_fields[] = { N(K_U64, hole, bytes) };
static const struct field entry_end_fields[] = {
	N(K_U8, entry_end, unused)
};
static const struct field skipped_fields[] = {
	N(K_U32, skipped, error), B(K_BYTES, skipped, path, WIRE_PATH_MAX)
};
#define EMPTY(message) \
	static const struct field message##_fields[] = { \
		{ TAG("[" #message ".unused]") K_U8, AT(empty.unused), 0 } \
	}
EMPTY(probe);
EMPTY(echo);
EMPTY(jobs);
EMPTY(stop);
EMPTY(linkinfo);
static const struct field kill_fields[] = {
	N(K_U32, kill, job), N(K_U8, kill, signal)
};
static const struct field attach_fields[] = {
	N(K_U32, attach, job), N(K_U32, attach, flags),
	N(K_U64, attach, out), N(K_U64, attach, err)
};
static const struct field status_fields[] = { N(K_U8, status, json) };
static const struct field probe_info_fields[] = {
	N(K_U32, probe_info, flags), N(K_U32, probe_info, uid),
	N(K_U32, probe_info, gid), N(K_U64, probe_info, caps),
	N(K_U64, probe_info, bounding), N(K_U32, probe_info, seccomp),
	N(K_U32, probe_info, landlock), N(K_U32, probe_info, pid),
	B(K_BYTES, probe_info, program, 64), B(K_BYTES, probe_info, arch, 64),
	B(K_BYTES, probe_info, exe, WIRE_PATH_MAX),
	B(K_BYTES, probe_info, cwd, WIRE_PATH_MAX),
	B(K_BYTES, probe_info, hash, 32),
	B(K_LIST, probe_info, dirs, WIRE_PATH_MAX)
};
static const struct field file_info_fields[] = {
	N(K_U32, file_info, flags), N(K_U64, file_info, size),
	N(K_U32, file_info, mode), N(K_U32, file_info, uid),
	N(K_U32, file_info, gid), N(K_U64, file_info, mtime),
	N(K_U64, file_info, blocks), N(K_U32, file_info, links),
	B(K_BYTES, file_info, hash, WIRE_HASH),
	B(K_BYTES, file_info, name, 255),
	B(K_BYTES, file_info, link, WIRE_PATH_MAX)
};
static const struct field exec_info_fields[] = {
	N(K_U32, exec_info, job), N(K_U32, exec_info, flags),
	N(K_U32, exec_info, uid), N(K_U64, exec_info, user_us),
	N(K_U64, exec_info, system_us), N(K_U64, exec_info, read_blocks),
	N(K_U64, exec_info, written_blocks), N(K_U64, exec_info, peak_kib),
	N(K_U64, exec_info, out_from), N(K_U64, exec_info, err_from),
	B(K_BYTES, exec_info, cwd, WIRE_PATH_MAX),
	B(K_LIST, exec_info, survivors, WIRE_PATH_MAX)
};
static const struct field job_fields[] = {
	N(K_U32, job, job), N(K_U8, job, state), N(K_U8, job, outcome),
	N(K_I32, job, code), N(K_U32, job, uid), N(K_U32, job, pid),
	N(K_U32, job, processes), N(K_U64, job, age_us),
	N(K_U64, job, cpu_us), N(K_U8, job, detached),
	N(K_U8, job, terminal),
	B(K_BYTES, job, user, WIRE_USER_MAX),
	B(K_BYTES, job, command, WIRE_COMMAND_MAX)
};

#define M(type, class, name) \
	{ type, class, #name, name##_fields, \
	    sizeof(name##_fields) / sizeof(name##_fields[0]) }

static const struct message messages[] = {
	M(WIRE_READY, WIRE_CLASS_LINK, ready),
	M(WIRE_RESUME, WIRE_CLASS_LINK, resume),
	M(WIRE_ACK, WIRE_CLASS_LINK, ack),
	M(WIRE_PING, WIRE_CLASS_LINK, ping),
	M(WIRE_PONG, WIRE_CLASS_LINK, pong),
	M(WIRE_CLOSE, WIRE_CLASS_LINK, close),
	M(WIRE_TERMINAL, WIRE_CLASS_LINK, terminal),
	M(WIRE_OPEN, WIRE_CLASS_SESSION, open),
	M(WIRE_DATA, WIRE_CLASS_SESSION, data),
	M(WIRE_CREDIT, WIRE_CLASS_SESSION, credit),
	M(WIRE_EOF, WIRE_CLASS_SESSION, eof),
	M(WIRE_SIGNAL, WIRE_CLASS_SESSION, signal),
	M(WIRE_RESIZE, WIRE_CLASS_SESSION, resize),
	M(WIRE_RESULT, WIRE_CLASS_SESSION, result),
	M(WIRE_CANCEL, WIRE_CLASS_SESSION, cancel),
	M(WIRE_LOG, WIRE_CLASS_SESSION, log),
	M(WIRE_HELLO, WIRE_CLASS_CLIENT, hello),
	M(WIRE_WELCOME, WIRE_CLASS_CLIENT, welcome),
	M(WIRE_HANDOVER, WIRE_CLASS_CLIENT, handover),
	M(WIRE_LIVE, WIRE_CLASS_CLIENT, live),
	M(WIRE_EXEC, WIRE_CLASS_BODY, exec),
	M(WIRE_PUT, WIRE_CLASS_BODY, put),
	M(WIRE_GET, WIRE_CLASS_BODY, get),
	M(WIRE_PROBE, WIRE_CLASS_BODY, probe),
	M(WIRE_ECHO, WIRE_CLASS_BODY, echo),
	M(WIRE_JOBS, WIRE_CLASS_BODY, jobs),
	M(WIRE_KILL, WIRE_CLASS_BODY, kill),
	M(WIRE_ATTACH, WIRE_CLASS_BODY, attach),
	M(WIRE_TREE_PUT, WIRE_CLASS_BODY, tree_put),
	M(WIRE_TREE_GET, WIRE_CLASS_BODY, tree_get),
	M(WIRE_FS, WIRE_CLASS_BODY, fs),
	M(WIRE_STATUS, WIRE_CLASS_BODY, status),
	M(WIRE_STOP, WIRE_CLASS_BODY, stop),
	M(WIRE_LINKINFO, WIRE_CLASS_BODY, linkinfo),
	M(WIRE_PROBE_INFO, WIRE_CLASS_BODY, probe_info),
	M(WIRE_FILE_INFO, WIRE_CLASS_BODY, file_info),
	M(WIRE_EXEC_INFO, WIRE_CLASS_BODY, exec_info),
	M(WIRE_JOB, WIRE_CLASS_BODY, job),
	M(WIRE_TREE_INFO, WIRE_CLASS_BODY, tree_info),
	M(WIRE_ENTRY, WIRE_CLASS_BODY, entry),
	M(WIRE_CHUNK, WIRE_CLASS_BODY, chunk),
	M(WIRE_ENTRY_END, WIRE_CLASS_BODY, entry_end),
	M(WIRE_SKIPPED, WIRE_CLASS_BODY, skipped),
	M(WIRE_HOLE, WIRE_CLASS_BODY, hole),
	M(WIRE_START, WIRE_CLASS_BODY, start),
	M(WIRE_PARTIAL, WIRE_CLASS_BODY, partial),
};

/* A bounded reader or writer; once it fails it stays failed. */
struct cursor {
	const uint8_t *in;
	uint8_t *out;			/* NULL: only count */
	size_t at, end;
	enum wire_err err;
};

static const struct message *
find(uint8_t type)
{
	size_t i;

	for (i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		if (messages[i].type == type) {
			return &messages[i];
		}
	}
	return NULL;
}

uint64_t
wire_number_get(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	while (bytes-- > 0) {
		value = value << 8 | *at++;
	}
	return value;
}

void
wire_number_put(uint8_t *at, uint64_t value, unsigned bytes)
{
	while (bytes-- > 0) {
		at[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static uint64_t
get(struct cursor *c, unsigned bytes)
{
	if (c->err != WIRE_OK || c->end - c->at < bytes) {
		c->err = c->err != WIRE_OK ? c->err : WIRE_ERR_SHORT;
		return 0;
	}
	c->at += bytes;
	return wire_number_get(c->in + c->at - bytes, bytes);
}

static struct wire_bytes
get_bytes(struct cursor *c, uint32_t len)
{
	struct wire_bytes bytes = { NULL, 0 };

	if (c->err != WIRE_OK || c->end - c->at < len) {
		c->err = c->err != WIRE_OK ? c->err : WIRE_ERR_SHORT;
		return bytes;
	}
	bytes.at = c->in + c->at;
	bytes.len = len;
	c->at += len;
	return bytes;
}

static struct wire_bytes
get_limited(struct cursor *c, uint32_t max)
{
	uint32_t len = (uint32_t)get(c, 4);

	if (c->err == WIRE_OK && len > max) {
		c->err = WIRE_ERR_LIMIT;
	}
	return get_bytes(c, len);
}

static struct wire_list
get_list(struct cursor *c, uint32_t max)
{
	struct wire_list list = { 0, { NULL, 0 } };
	struct wire_bytes whole = get_limited(c, max);
	struct cursor inner = { .in = whole.at, .end = whole.len };
	uint32_t i;

	if (c->err != WIRE_OK) {
		return list;
	}
	list.count = (uint32_t)get(&inner, 4);
	list.raw = (struct wire_bytes){ whole.at + inner.at,
	    whole.len - (uint32_t)inner.at };
	if (inner.err == WIRE_OK && list.count > WIRE_ITEMS_MAX) {
		inner.err = WIRE_ERR_LIMIT;
	}
	for (i = 0; i < list.count && inner.err == WIRE_OK; i++) {
		get_limited(&inner, max);
	}
	if (inner.err == WIRE_OK && inner.at != inner.end) {
		inner.err = WIRE_ERR_TRAILING;
	}
	c->err = inner.err;
	return list;
}

static void
decode_field(struct cursor *c, const struct field *f, struct wire *out)
{
	void *to = (char *)out + f->at;
	uint64_t value;

	switch ((enum kind)f->kind) {
	case K_U8:
		*(uint8_t *)to = (uint8_t)get(c, 1);
		return;
	case K_U16:
		*(uint16_t *)to = (uint16_t)get(c, 2);
		return;
	case K_U32:
	case K_I32:
		value = get(c, 4);
		*(uint32_t *)to = (uint32_t)value;
		return;
	case K_U64:
		*(uint64_t *)to = get(c, 8);
		return;
	case K_BYTES:
		*(struct wire_bytes *)to = get_limited(c, f->max);
		return;
	case K_LIST:
		*(struct wire_list *)to = get_list(c, f->max);
		return;
	case K_REST:
		if (c->err == WIRE_OK && c->end - c->at > f->max) {
			c->err = WIRE_ERR_LIMIT;
		}
		if (c->err == WIRE_OK && c->end == c->at) {
			c->err = WIRE_ERR_SHORT;
		}
		*(struct wire_bytes *)to =
		    get_bytes(c, (uint32_t)(c->end - c->at));
		return;
	case K_PAD:
		if (c->end != WIRE_READY_BYTES) {
			c->err = WIRE_ERR_SHORT;
		}
		*(struct wire_bytes *)to =
		    get_bytes(c, (uint32_t)(c->end - c->at));
		return;
	}
}

enum wire_err
wire_decode(const uint8_t *data, size_t len, struct wire *out)
{
	struct cursor c = { .in = data, .end = len };
	const struct message *m;
	unsigned i;

	memset(out, 0, sizeof(*out));
	out->type = (uint8_t)get(&c, 1);
	if (c.err != WIRE_OK) {
		return c.err;
	}
	m = find(out->type);
	if (m == NULL) {
		return WIRE_ERR_TYPE;
	}
	for (i = 0; i < m->count; i++) {
		decode_field(&c, &m->fields[i], out);
	}
	if (c.err == WIRE_OK && c.at != c.end) {
		c.err = WIRE_ERR_TRAILING;
	}
	return c.err;
}

static void
put(struct cursor *c, uint64_t value, unsigned bytes)
{
	if (c->err != WIRE_OK || c->end - c->at < bytes) {
		c->err = c->err != WIRE_OK ? c->err : WIRE_ERR_SPACE;
		return;
	}
	if (c->out != NULL) {
		wire_number_put(c->out + c->at, value, bytes);
	}
	c->at += bytes;
}

static void
put_bytes(struct cursor *c, struct wire_bytes bytes, uint32_t max)
{
	if (c->err == WIRE_OK && bytes.len > max) {
		c->err = WIRE_ERR_LIMIT;
	}
	if (c->err != WIRE_OK || c->end - c->at < bytes.len) {
		c->err = c->err != WIRE_OK ? c->err : WIRE_ERR_SPACE;
		return;
	}
	if (c->out != NULL && bytes.len > 0) {
		memcpy(c->out + c->at, bytes.at, bytes.len);
	}
	c->at += bytes.len;
}

static void
put_pad(struct cursor *c)
{
	while (c->err == WIRE_OK && c->at < WIRE_READY_BYTES) {
		put(c, 0, 1);
	}
}

static void
encode_field(struct cursor *c, const struct field *f, const struct wire *msg)
{
	const void *from = (const char *)msg + f->at;
	struct wire_bytes bytes;
	struct wire_list list;

	switch ((enum kind)f->kind) {
	case K_U8:
		put(c, *(const uint8_t *)from, 1);
		return;
	case K_U16:
		put(c, *(const uint16_t *)from, 2);
		return;
	case K_U32:
	case K_I32:
		put(c, *(const uint32_t *)from, 4);
		return;
	case K_U64:
		put(c, *(const uint64_t *)from, 8);
		return;
	case K_BYTES:
		bytes = *(const struct wire_bytes *)from;
		put(c, bytes.len, 4);
		put_bytes(c, bytes, f->max);
		return;
	case K_LIST:
		list = *(const struct wire_list *)from;
		if (list.count > WIRE_ITEMS_MAX || f->max < 4 ||
		    list.raw.len > f->max - 4) {
			c->err = c->err != WIRE_OK ? c->err : WIRE_ERR_LIMIT;
			return;
		}
		put(c, list.raw.len + 4, 4);
		put(c, list.count, 4);
		put_bytes(c, list.raw, f->max);
		return;
	case K_REST:
		put_bytes(c, *(const struct wire_bytes *)from, f->max);
		return;
	case K_PAD:
		put_pad(c);
		return;
	}
}

static enum wire_err
encode(const struct wire *msg, struct cursor *c)
{
	const struct message *m = find(msg->type);
	unsigned i;

	if (m == NULL) {
		return WIRE_ERR_TYPE;
	}
	put(c, msg->type, 1);
	for (i = 0; i < m->count; i++) {
		encode_field(c, &m->fields[i], msg);
	}
	return c->err;
}

enum wire_err
wire_encode(const struct wire *msg, uint8_t *out, size_t cap, size_t *len)
{
	struct cursor c = { .out = out, .end = cap };
	enum wire_err err = encode(msg, &c);

	*len = c.at;
	return err;
}

size_t
wire_size(const struct wire *msg)
{
	struct cursor c = { .end = SIZE_MAX };

	return encode(msg, &c) == WIRE_OK ? c.at : 0;
}

bool
wire_next(struct wire_list *list, struct wire_bytes *item)
{
	struct cursor c = { .in = list->raw.at, .end = list->raw.len };

	if (list->count == 0) {
		return false;
	}
	*item = get_bytes(&c, (uint32_t)get(&c, 4));
	if (c.err != WIRE_OK) {
		return false;
	}
	list->count--;
	list->raw.at += c.at;
	list->raw.len -= (uint32_t)c.at;
	return true;
}

int
wire_class(uint8_t type)
{
	const struct message *m = find(type);

	return m == NULL ? -1 : (int)m->class;
}

const char *
wire_name(uint8_t type)
{
	const struct message *m = find(type);

	return m == NULL ? "unknown" : m->name;
}

#ifndef WIRE_NO_TAGS
const char *
wire_tag(uint8_t type, unsigned index)
{
	const struct message *m = find(type);

	return m == NULL || index >= m->count ? NULL : m->fields[index].tag;
}
#endif

const char *
wire_err_text(enum wire_err err)
{
	switch (err) {
	case WIRE_OK:
		return "no error";
	case WIRE_ERR_SHORT:
		return "message ends inside a field";
	case WIRE_ERR_TRAILING:
		return "bytes after the last field";
	case WIRE_ERR_LIMIT:
		return "field over its limit";
	case WIRE_ERR_TYPE:
		return "unknown message type";
	case WIRE_ERR_SPACE:
		return "message does not fit";
	}
	return "unknown error";
}

struct wire_bytes
wire_string(const char *text)
{
	return (struct wire_bytes){ (const uint8_t *)text,
	    (uint32_t)strlen(text) };
}

int
wire_copy(char *out, size_t cap, struct wire_bytes from)
{
	if (from.len >= cap || (from.len > 0 &&
	    memchr(from.at, '\0', from.len) != NULL)) {
		return -1;
	}
	if (from.len > 0) {
		memcpy(out, from.at, from.len);
	}
	out[from.len] = '\0';
	return 0;
}
