/* SPDX-License-Identifier: MIT */
/*
 * fuzz_input.h - a fuzzer's input read as a sequence of small decisions.
 *
 * Used by every fuzz_*.c.  Reading past the end gives zeros, so a target ends
 * by looking at input_done().
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct input {
	const uint8_t *at;
	size_t left;
};

/* Unlike assert() it cannot be compiled out. */
#define CHECK(what) do { \
	if (!(what)) { \
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
		abort(); \
	} \
} while (0)

static inline bool
input_done(const struct input *in)
{
	return in->left == 0;
}

static inline uint8_t
input_u8(struct input *in)
{
	if (in->left == 0) {
		return 0;
	}
	in->left--;
	return *in->at++;
}

static inline uint32_t
input_u16(struct input *in)
{
	uint32_t high = input_u8(in);

	return high << 8 | input_u8(in);
}

/* At most max bytes, borrowed; *len says how many there are. */
static inline const uint8_t *
input_bytes(struct input *in, size_t max, size_t *len)
{
	const uint8_t *at = in->at;

	*len = max < in->left ? max : in->left;
	in->at += *len;
	in->left -= *len;
	return at;
}

#endif
