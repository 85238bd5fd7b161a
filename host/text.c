/* SPDX-License-Identifier: MIT */
/* text.c - an answer as text, bounded, and the strings of a JSON one. */
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quote.h"

#define TEXT_PATH 256
#define TEXT_VALUE 4096			/* a longer one is cut when told */
#define TEXT_DEPTH 16

ssize_t
text_append(void *ctx, void *data, size_t len)
{
	struct text *text = ctx;
	size_t size = text->size;
	char *grown;

	if (len > TEXT_MAX - text->len) {
		errno = EFBIG;
		return -1;
	}
	if (text->len + len + 1 > size) {
		size = (text->len + len + 1) * 2;
		grown = realloc(text->data, size);
		if (grown == NULL) {
			return -1;
		}
		text->data = grown;
		text->size = size;
	}
	memcpy(text->data + text->len, data, len);
	text->len += len;
	text->data[text->len] = '\0';
	return (ssize_t)len;
}

void
text_free(struct text *text)
{
	free(text->data);
	*text = (struct text){ 0 };
}

int
text_print(const char *data, size_t len)
{
	const char *end;
	size_t n, room;
	char *line;

	for (; len > 0; data += n, len -= n) {
		end = memchr(data, '\n', len);
		n = end == NULL ? len : (size_t)(end - data);
		room = n * 4 + 1;
		line = malloc(room);
		if (line == NULL) {
			return -1;
		}
		quote_bytes(line, room, (const uint8_t *)data, n);
		puts(line);
		free(line);
		n += end != NULL;
	}
	return fflush(stdout) == 0 ? 0 : -1;
}

/* ---- JSON ------------------------------------------------------------ */

struct reader {
	const char *at, *end;
	void (*said)(void *ctx, const char *path, const char *value,
	    size_t len);
	void *ctx;
	char path[TEXT_PATH];
	char value[TEXT_VALUE];
	size_t value_len;
};

static void
space(struct reader *r)
{
	while (r->at < r->end && *r->at != '\0' &&
	    strchr(" \t\r\n", *r->at) != NULL) {
		r->at++;
	}
}

static bool
take(struct reader *r, char c)
{
	space(r);
	if (r->at < r->end && *r->at == c) {
		r->at++;
		return true;
	}
	return false;
}

static void
add_value(struct reader *r, const char *data, size_t len)
{
	if (len <= sizeof(r->value) - r->value_len) {
		memcpy(r->value + r->value_len, data, len);
		r->value_len += len;
	}
}

static void
add_point(struct reader *r, unsigned point)
{
	char out[3];
	size_t n = 0;

	if (point >= 0xdc80 && point <= 0xdcff) {
		out[n++] = (char)(point & 0xff);	/* json.h's raw byte */
	} else if (point < 0x80) {
		out[n++] = (char)point;
	} else if (point < 0x800) {
		out[n++] = (char)(0xc0 | point >> 6);
		out[n++] = (char)(0x80 | (point & 0x3f));
	} else {
		out[n++] = (char)(0xe0 | point >> 12);
		out[n++] = (char)(0x80 | (point >> 6 & 0x3f));
		out[n++] = (char)(0x80 | (point & 0x3f));
	}
	add_value(r, out, n);
}

static int
escape(struct reader *r)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at;
	char hex[5];
	unsigned i;

	if (r->at >= r->end || *r->at == '\0') {
		return -1;
	}
	at = strchr(from, *r->at);
	if (at != NULL) {
		add_value(r, to + (at - from), 1);
		r->at++;
		return 0;
	}
	if (*r->at != 'u' || r->end - r->at < 5) {
		return -1;
	}
	for (i = 0; i < 4; i++) {
		hex[i] = r->at[1 + i];
		if (hex[i] == '\0' ||
		    strchr("0123456789abcdefABCDEF", hex[i]) == NULL) {
			return -1;
		}
	}
	hex[4] = '\0';
	add_point(r, (unsigned)strtoul(hex, NULL, 16));
	r->at += 5;
	return 0;
}

/* A string behind its first quote; its value is left in r->value. */
static int
string(struct reader *r)
{
	size_t n;

	r->value_len = 0;
	while (r->at < r->end && *r->at != '"') {
		if (*r->at == '\\') {
			r->at++;
			if (escape(r) < 0) {
				return -1;
			}
			continue;
		}
		/* Unprintable ones must be escaped: it may be printed. */
		n = quote_utf8((const uint8_t *)r->at,
		    (size_t)(r->end - r->at));
		if (n == 0) {
			return -1;
		}
		add_value(r, r->at, n);
		r->at += n;
	}
	if (r->at >= r->end) {
		return -1;
	}
	r->at++;
	return 0;
}

static int
word(struct reader *r)
{
	static const char *const words[] = { "true", "false", "null" };
	const char *start = r->at;
	size_t i, len;
	char *end, number[32] = "";

	for (i = 0; i < 3; i++) {
		len = strlen(words[i]);
		if ((size_t)(r->end - r->at) >= len &&
		    memcmp(r->at, words[i], len) == 0) {
			r->at += len;
			r->value_len = 0;
			add_value(r, start, len);
			return 0;
		}
	}
	for (len = 0; r->at + len < r->end && len + 1 < sizeof(number) &&
	    r->at[len] != '\0' &&
	    strchr("+-.0123456789eE", r->at[len]) != NULL; len++) {
		number[len] = r->at[len];
	}
	strtod(number, &end);
	if (len == 0 || *end != '\0') {
		return -1;
	}
	r->at += len;
	r->value_len = 0;
	add_value(r, start, len);
	return 0;
}

static int value(struct reader *r, size_t path, unsigned depth);

/* The path's end for a member or an element; the new length. */
static size_t
member(struct reader *r, size_t path)
{
	char key[96];
	int n;

	quote_bytes(key, sizeof(key), (const uint8_t *)r->value,
	    r->value_len);
	n = snprintf(r->path + path, sizeof(r->path) - path, "%s%s",
	    path > 0 ? "." : "", key);
	path += n > 0 ? (size_t)n : 0;
	return path < sizeof(r->path) ? path : sizeof(r->path) - 1;
}

static int
object(struct reader *r, size_t path, unsigned depth)
{
	size_t longer;

	if (take(r, '}')) {
		return 0;
	}
	do {
		if (!take(r, '"') || string(r) < 0) {
			return -1;
		}
		longer = member(r, path);
		if (!take(r, ':') || value(r, longer, depth + 1) < 0) {
			return -1;
		}
	} while (take(r, ','));
	return take(r, '}') ? 0 : -1;
}

static int
array(struct reader *r, size_t path, unsigned depth)
{
	size_t longer;
	unsigned i = 0;
	int n;

	if (take(r, ']')) {
		return 0;
	}
	do {
		n = snprintf(r->path + path, sizeof(r->path) - path, "[%u]",
		    i++);
		longer = path + (n > 0 ? (size_t)n : 0);
		if (longer >= sizeof(r->path)) {
			longer = sizeof(r->path) - 1;
		}
		if (value(r, longer, depth + 1) < 0) {
			return -1;
		}
	} while (take(r, ','));
	return take(r, ']') ? 0 : -1;
}

static int
value(struct reader *r, size_t path, unsigned depth)
{
	int rc;

	if (depth > TEXT_DEPTH) {
		return -1;
	}
	r->path[path] = '\0';
	if (take(r, '{')) {
		return object(r, path, depth);
	}
	if (take(r, '[')) {
		return array(r, path, depth);
	}
	rc = take(r, '"') ? string(r) : word(r);
	if (rc == 0 && r->said != NULL) {
		r->path[path] = '\0';
		r->said(r->ctx, r->path, r->value, r->value_len);
	}
	return rc;
}

int
text_json(const char *data, size_t len,
    void (*said)(void *ctx, const char *path, const char *value, size_t len),
    void *ctx)
{
	struct reader r = { .at = data, .end = data + len, .said = said,
	    .ctx = ctx };

	if (value(&r, 0, 0) < 0) {
		return -1;
	}
	space(&r);
	return r.at == r.end ? 0 : -1;
}
