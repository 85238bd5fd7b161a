/* SPDX-License-Identifier: MIT */
/*
 * items.h - builds a list of byte strings in the form that messages carry.
 *
 * For HELLO's and EXEC's lists (wire.h).  Memory failures are sticky.
 */
#ifndef ITEMS_H
#define ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct items {
	uint8_t *data;		/* owned: each a 4-byte length, then bytes */
	size_t len, size;
	size_t bytes;		/* of the strings alone */
	uint32_t count;
	bool failed;		/* out of memory, or over WIRE_BODY_MAX */
};

/* Start with {0}. */
void items_add(struct items *items, const void *data, size_t len);
void items_text(struct items *items, const char *text);
void items_free(struct items *items);

/* The list; borrows from items. */
struct wire_list items_list(const struct items *items);

/* Encode *msg into a malloc()ed *body; 0, or -1 with errno. */
int items_encode(const struct wire *msg, uint8_t **body, uint32_t *len);

#endif
