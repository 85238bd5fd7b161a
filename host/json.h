/* SPDX-License-Identifier: MIT */
/*
 * json.h - writes one JSON text into a buffer that grows to a bound.
 *
 * Used wherever a program reads an answer.  Strings may be any bytes: what
 * is not UTF-8 is written as a lone surrogate \udcXX, which Python decodes
 * back to the very bytes ("surrogateescape").  Errors are sticky: write
 * everything, ask once.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX 1048576u	/* bytes of a text; more makes it fail */
#define JSON_DEPTH 16u

struct json {
	char *data;		/* owned; NUL-terminated unless NULL */
	size_t len, size;
	unsigned depth;
	bool more[JSON_DEPTH];	/* a comma is due at this depth */
	bool failed;
};

/* key is NULL for the outermost value and inside arrays. */
void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
/* End the innermost object or array. */
void json_end_object(struct json *json);
void json_end_array(struct json *json);

void json_bytes(struct json *json, const char *key, const void *data,
    size_t len);
void json_string(struct json *json, const char *key, const char *text);
void json_u64(struct json *json, const char *key, uint64_t value);
void json_i64(struct json *json, const char *key, int64_t value);
/* Three digits after the point; not for NaN or infinities. */
void json_double(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* A string, or null where text is NULL. */
void json_string_or_null(struct json *json, const char *key,
    const char *text);
/* A text that is JSON already. */
void json_raw(struct json *json, const char *key, const char *text,
    size_t len);

/* The text, or NULL if memory or the bound ran out; owned by json. */
const char *json_text(const struct json *json);
/* Start with {0}; free is fine on that too. */
void json_free(struct json *json);

#endif
