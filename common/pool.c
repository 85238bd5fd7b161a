/* SPDX-License-Identifier: MIT */
/* pool.c - equal slots in one mapping that children do not inherit. */
#include "pool.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_PAGE 4096u

/* What a free slot holds in its first bytes. */
struct pool_link {
	struct pool_link *next;
};

int
pool_init(struct pool *pool, size_t slot, size_t count)
{
	size_t bytes;

	slot = (slot + 63) & ~(size_t)63;
	bytes = (slot * count + POOL_PAGE - 1) & ~(size_t)(POOL_PAGE - 1);
	memset(pool, 0, sizeof(*pool));
	pool->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pool->base == MAP_FAILED) {
		pool->base = NULL;
		return -1;
	}
#ifdef MADV_DONTFORK
	madvise(pool->base, bytes, MADV_DONTFORK);
	madvise(pool->base, bytes, MADV_NOHUGEPAGE);
#endif
	pool->slot = slot;
	pool->count = count;
	return 0;
}

void
pool_free(struct pool *pool)
{
	size_t bytes = (pool->slot * pool->count + POOL_PAGE - 1) &
	    ~(size_t)(POOL_PAGE - 1);

	if (pool->base != NULL) {
		munmap(pool->base, bytes);
	}
	memset(pool, 0, sizeof(*pool));
}

void *
pool_get(struct pool *pool)
{
	struct pool_link *link = pool->free;

	if (link != NULL) {
		pool->free = link->next;
	} else if (pool->fresh < pool->count) {
		link = (void *)(pool->base + pool->slot * pool->fresh++);
	} else {
		return NULL;
	}
	pool->used++;
	return link;
}

/* Return the whole pages inside a slot, but for the one with its link. */
static void
release(const struct pool *pool, unsigned char *slot)
{
	uintptr_t from, to;

	from = ((uintptr_t)slot + sizeof(struct pool_link) + POOL_PAGE - 1) &
	    ~(uintptr_t)(POOL_PAGE - 1);
	to = ((uintptr_t)slot + pool->slot) & ~(uintptr_t)(POOL_PAGE - 1);
	if (to > from) {
		madvise((void *)from, to - from, MADV_DONTNEED);
	}
}

void
pool_put(struct pool *pool, void *slot)
{
	struct pool_link *link = slot;

	if (slot == NULL) {
		return;
	}
	link->next = pool->free;
	pool->free = link;
	pool->used--;
}

void
pool_trim(struct pool *pool)
{
	struct pool_link *link;

	if (pool->used == 0 && pool->fresh > 0) {
		/* Nothing is out: begin again, without a page per slot. */
		madvise(pool->base, (pool->fresh * pool->slot + POOL_PAGE -
		    1) & ~(size_t)(POOL_PAGE - 1), MADV_DONTNEED);
		pool->fresh = 0;
		pool->free = NULL;
		return;
	}
	for (link = pool->free; link != NULL; link = link->next) {
		release(pool, (unsigned char *)link);
	}
}

size_t
pool_left(const struct pool *pool)
{
	return pool->count - pool->used;
}
