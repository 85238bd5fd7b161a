/* SPDX-License-Identifier: MIT */
/* clip.c - the head, the tail or both of a stream, as it goes by. */
#include "clip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLIP_FIRST 65536u		/* room for a tail, to begin with */

void
clip_init(struct clip *clip, struct stdfd *fd, enum clip_keep keep,
    uint64_t limit)
{
	*clip = (struct clip){ .fd = fd, .head = limit };
	if (limit != UINT64_MAX && keep != CLIP_HEAD) {
		clip->head = keep == CLIP_TAIL ? 0 : limit - limit / 2;
		clip->tail = (size_t)(limit - clip->head);
	}
}

void
clip_free(struct clip *clip)
{
	free(clip->ring);
	clip->ring = NULL;
}

/* Room for len more, up to the whole tail; 0, or -1 with errno. */
static int
grow(struct clip *clip, size_t len)
{
	size_t size = clip->size == 0 ? CLIP_FIRST : clip->size;
	uint8_t *grown;

	while (size < clip->tail && size - clip->used < len) {
		size *= 2;
	}
	size = size < clip->tail ? size : clip->tail;
	if (size == clip->size) {
		return 0;
	}
	/* It has not gone round yet: it does so only at its full size. */
	grown = realloc(clip->ring, size);
	if (grown == NULL) {
		return -1;
	}
	clip->ring = grown;
	clip->size = size;
	return 0;
}

/* Keep the last of data in the ring; at is where the oldest byte is. */
static int
keep(struct clip *clip, const uint8_t *data, size_t len)
{
	size_t to, n;

	if (clip->tail == 0) {
		return 0;
	}
	if (grow(clip, len) < 0) {
		return -1;
	}
	if (len > clip->size) {
		data += len - clip->size;
		len = clip->size;
	}
	if (clip->used + len > clip->size) {
		n = clip->used + len - clip->size;
		clip->at = (clip->at + n) % clip->size;
		clip->used -= n;
	}
	while (len > 0) {
		to = (clip->at + clip->used) % clip->size;
		n = clip->size - to < len ? clip->size - to : len;
		memcpy(clip->ring + to, data, n);
		clip->used += n;
		data += n;
		len -= n;
	}
	return 0;
}

ssize_t
clip_move(void *ctx, void *data, size_t len)
{
	struct clip *clip = ctx;
	uint64_t room = clip->head - clip->shown;
	size_t n = room < len ? (size_t)room : len;
	ssize_t done = n == 0 ? 0 : stdfd_write(clip->fd, data, n);

	if (done < 0) {
		return -1;
	}
	clip->shown += (uint64_t)done;
	clip->seen += (uint64_t)done;
	if ((size_t)done < n) {
		return done;
	}
	if (keep(clip, (const uint8_t *)data + n, len - n) < 0) {
		return -1;
	}
	clip->seen += len - n;
	return (ssize_t)len;
}

int
clip_finish(struct clip *clip)
{
	ssize_t n;

	while (clip->used > 0) {
		n = clip->size - clip->at < clip->used ?
		    (ssize_t)(clip->size - clip->at) : (ssize_t)clip->used;
		n = stdfd_write(clip->fd, clip->ring + clip->at, (size_t)n);
		if (n < 0) {
			return errno == EAGAIN ? 0 : -1;
		}
		clip->at = (clip->at + (size_t)n) % clip->size;
		clip->used -= (size_t)n;
		clip->shown += (uint64_t)n;
	}
	return 1;
}

bool
clip_cut(const struct clip *clip)
{
	return clip->shown < clip->seen;
}
