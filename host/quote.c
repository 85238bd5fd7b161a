/* SPDX-License-Identifier: MIT */
/* quote.c - remote bytes as text that a terminal can be shown. */
#include "quote.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Decode one character; 0 if it is cut, overlong, a surrogate or too high. */
static size_t
decode(const uint8_t *data, size_t len, uint32_t *point)
{
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t i, need;
	uint32_t value;

	if (len == 0) {
		return 0;
	}
	if (data[0] < 0x80) {
		*point = data[0];
		return 1;
	}
	if ((data[0] & 0xe0) == 0xc0) {
		need = 2;
		value = data[0] & 0x1f;
	} else if ((data[0] & 0xf0) == 0xe0) {
		need = 3;
		value = data[0] & 0x0f;
	} else if ((data[0] & 0xf8) == 0xf0) {
		need = 4;
		value = data[0] & 0x07;
	} else {
		return 0;
	}
	if (need > len) {
		return 0;
	}
	for (i = 1; i < need; i++) {
		if ((data[i] & 0xc0) != 0x80) {
			return 0;
		}
		value = value << 6 | (data[i] & 0x3f);
	}
	if (value < least[need] || value > 0x10ffff ||
	    (value >= 0xd800 && value <= 0xdfff)) {
		return 0;
	}
	*point = value;
	return need;
}

size_t
quote_utf8_any(const uint8_t *data, size_t len)
{
	uint32_t point;

	return decode(data, len, &point);
}

size_t
quote_utf8(const uint8_t *data, size_t len)
{
	uint32_t point;
	size_t n = decode(data, len, &point);

	if (n == 0 || point < 0x20 || (point >= 0x7f && point < 0xa0) ||
	    (point >= 0x200b && point <= 0x200f) ||
	    (point >= 0x2028 && point <= 0x202e) ||
	    (point >= 0x2066 && point <= 0x2069) || point == 0xfeff) {
		return 0;
	}
	return n;
}

/* One character of the input as it will be shown; returns bytes taken. */
static size_t
piece(char show[8], const uint8_t *data, size_t len)
{
	static const char plain[] = "\n\r\t\\";
	static const char letter[] = "nrt\\";
	const char *at;
	size_t n;

	at = data[0] == '\0' ? NULL : strchr(plain, data[0]);
	if (at != NULL) {
		show[0] = '\\';
		show[1] = letter[at - plain];
		show[2] = '\0';
		return 1;
	}
	n = quote_utf8(data, len);
	if (n > 0) {
		memcpy(show, data, n);
		show[n] = '\0';
		return n;
	}
	snprintf(show, 8, "\\x%02x", data[0]);
	return 1;
}

size_t
quote_bytes(char *out, size_t cap, const uint8_t *data, size_t len)
{
	char show[8];
	size_t used = 0, mark = 0, take, n;

	if (cap == 0) {
		return 0;
	}
	while (len > 0) {
		take = piece(show, data, len);
		n = strlen(show);
		if (used + n >= cap) {
			/* mark is the last place where "..." still fits. */
			used = mark;
			if (cap > 3) {
				memcpy(out + used, "...", 3);
				used += 3;
			}
			break;
		}
		memcpy(out + used, show, n);
		used += n;
		if (used + 3 < cap) {
			mark = used;
		}
		data += take;
		len -= take;
	}
	out[used] = '\0';
	return used;
}

size_t
quote_text(char *out, size_t cap, const char *text)
{
	return quote_bytes(out, cap, (const uint8_t *)text, strlen(text));
}

size_t
quote_add(char *out, size_t cap, size_t used, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(out + used, cap - used, format, ap);
	va_end(ap);
	if (n < 0) {
		return used;
	}
	return (size_t)n < cap - used ? used + (size_t)n : cap - 1;
}
