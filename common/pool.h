/* SPDX-License-Identifier: MIT */
/*
 * pool.h - a fixed number of equal memory slots that children do not inherit.
 *
 * Stream data lives here: the region is reserved once (nothing is touched),
 * so memory is bounded by construction, and MADV_DONTFORK keeps one request's
 * bytes out of another's processes.  Freed slots stay resident for the next
 * use (giving each back at once halves the speed of a copy) until the owner
 * is idle and calls pool_trim().
 */
#ifndef POOL_H
#define POOL_H

#include <stddef.h>

struct pool {
	unsigned char *base;		/* owned mapping, NULL when empty */
	void *free;			/* touched slots, newest first */
	size_t slot;			/* bytes in each */
	size_t count;			/* slots in all */
	size_t fresh;			/* slots never used yet */
	size_t used;			/* slots given out */
};

/* Reserve count slots of slot bytes each; 0, or -1 with errno. */
int pool_init(struct pool *pool, size_t slot, size_t count);
void pool_free(struct pool *pool);

/* A slot with unspecified contents, or NULL when all are in use. */
void *pool_get(struct pool *pool);

/* Give a slot back; NULL does nothing. */
void pool_put(struct pool *pool, void *slot);

/* Give the memory of all free slots back to the kernel; for idle times. */
void pool_trim(struct pool *pool);

/* Slots that can still be had. */
size_t pool_left(const struct pool *pool);

#endif
