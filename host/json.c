/* SPDX-License-Identifier: MIT */
/* json.c - JSON text, and bytes that are not UTF-8 in it. */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quote.h"

static void
put(struct json *json, const char *data, size_t len)
{
	char *grown;
	size_t size;

	if (json->failed || len > JSON_MAX - json->len) {
		json->failed = true;
		return;
	}
	if (json->len + len + 1 > json->size) {
		size = json->size == 0 ? 256 : json->size;
		while (size < json->len + len + 1) {
			size *= 2;
		}
		grown = realloc(json->data, size);
		if (grown == NULL) {
			json->failed = true;
			return;
		}
		json->data = grown;
		json->size = size;
	}
	memcpy(json->data + json->len, data, len);
	json->len += len;
	json->data[json->len] = '\0';
}

/*
 * One character that does not stand for itself, as \uXXXX in escape[8];
 * returns the bytes it took.  All unprintable ones are below U+10000.
 */
static size_t
escaped(char *escape, const uint8_t *data, size_t len)
{
	size_t n = quote_utf8_any(data, len);
	unsigned point = n < 2 ? data[0] : n == 2 ?
	    (data[0] & 0x1fu) << 6 | (data[1] & 0x3fu) :
	    (data[0] & 0x0fu) << 12 | (data[1] & 0x3fu) << 6 |
	    (data[2] & 0x3fu);

	snprintf(escape, 8, "\\u%04x", (n == 0 ? 0xdc00u : 0u) + point);
	return n == 0 ? 1 : n;
}

static void
quoted(struct json *json, const uint8_t *data, size_t len)
{
	char escape[8];
	size_t n, run = 0, taken;

	put(json, "\"", 1);
	while (len > run && !json->failed) {
		n = quote_utf8(data + run, len - run);
		if (n > 0 && data[run] != '"' && data[run] != '\\') {
			run += n;
			continue;
		}
		put(json, (const char *)data, run);
		taken = escaped(escape, data + run, len - run);
		put(json, escape, 6);
		data += run + taken;
		len -= run + taken;
		run = 0;
	}
	put(json, (const char *)data, run);
	put(json, "\"", 1);
}

/* What stands before a value: the comma and the key. */
static void
before(struct json *json, const char *key)
{
	if (json->more[json->depth]) {
		put(json, ", ", 2);
	}
	json->more[json->depth] = true;
	if (key != NULL) {
		quoted(json, (const uint8_t *)key, strlen(key));
		put(json, ": ", 2);
	}
}

static void
begin(struct json *json, const char *key, const char *bracket)
{
	before(json, key);
	put(json, bracket, 1);
	if (json->depth + 1 >= JSON_DEPTH) {
		json->failed = true;
		return;
	}
	json->depth++;
	json->more[json->depth] = false;
}

static void
end(struct json *json, const char *bracket)
{
	if (json->depth == 0) {
		json->failed = true;
		return;
	}
	json->depth--;
	put(json, bracket, 1);
}

void
json_object(struct json *json, const char *key)
{
	begin(json, key, "{");
}

void
json_array(struct json *json, const char *key)
{
	begin(json, key, "[");
}

void
json_end_object(struct json *json)
{
	end(json, "}");
}

void
json_end_array(struct json *json)
{
	end(json, "]");
}

void
json_bytes(struct json *json, const char *key, const void *data, size_t len)
{
	before(json, key);
	quoted(json, len == 0 ? (const uint8_t *)"" : data, len);
}

void
json_string(struct json *json, const char *key, const char *text)
{
	json_bytes(json, key, text, strlen(text));
}

static void
plain(struct json *json, const char *key, const char *text)
{
	json_raw(json, key, text, strlen(text));
}

void
json_u64(struct json *json, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	plain(json, key, text);
}

void
json_i64(struct json *json, const char *key, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	plain(json, key, text);
}

void
json_double(struct json *json, const char *key, double value)
{
	char text[64];

	if (value > 1e15 || value < -1e15) {
		json->failed = true;
		return;
	}
	snprintf(text, sizeof(text), "%.3f", value);
	plain(json, key, text);
}

void
json_bool(struct json *json, const char *key, bool value)
{
	plain(json, key, value ? "true" : "false");
}

void
json_null(struct json *json, const char *key)
{
	plain(json, key, "null");
}

void
json_raw(struct json *json, const char *key, const char *text, size_t len)
{
	before(json, key);
	put(json, text, len);
}

const char *
json_text(const struct json *json)
{
	return json->failed ? NULL : json->data;
}

void
json_free(struct json *json)
{
	free(json->data);
	*json = (struct json){ 0 };
}

void
json_string_or_null(struct json *json, const char *key, const char *text)
{
	if (text == NULL) {
		json_null(json, key);
	} else {
		json_string(json, key, text);
	}
}
