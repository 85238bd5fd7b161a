/* SPDX-License-Identifier: MIT */
/* items.c - lists of byte strings as messages carry them. */
#include "items.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void
items_add(struct items *items, const void *data, size_t len)
{
	size_t need = items->len + 4 + len, size = items->size;
	uint8_t *grown, *at;

	if (items->failed || len > WIRE_BODY_MAX || need > WIRE_BODY_MAX) {
		items->failed = true;
		return;
	}
	if (need > size) {
		size = size * 2 > need ? size * 2 : need + 256;
		grown = realloc(items->data, size);
		if (grown == NULL) {
			items->failed = true;
			return;
		}
		items->data = grown;
		items->size = size;
	}
	at = items->data + items->len;
	wire_number_put(at, len, 4);
	if (len > 0) {
		memcpy(at + 4, data, len);
	}
	items->len = need;
	items->bytes += len;
	items->count++;
}

void
items_text(struct items *items, const char *text)
{
	items_add(items, text, strlen(text));
}

void
items_free(struct items *items)
{
	free(items->data);
	*items = (struct items){ 0 };
}

struct wire_list
items_list(const struct items *items)
{
	return (struct wire_list){ .count = items->count,
	    .raw = { .at = items->data, .len = (uint32_t)items->len } };
}

int
items_encode(const struct wire *msg, uint8_t **body, uint32_t *len)
{
	size_t size = wire_size(msg), used;
	uint8_t *data;

	if (size == 0 || size > WIRE_BODY_MAX) {
		errno = EMSGSIZE;
		return -1;
	}
	data = malloc(size);
	if (data == NULL) {
		return -1;
	}
	if (wire_encode(msg, data, size, &used) != WIRE_OK) {
		free(data);
		errno = EMSGSIZE;
		return -1;
	}
	*body = data;
	*len = (uint32_t)used;
	return 0;
}
