/* SPDX-License-Identifier: MIT */
/*
 * pollset.h - one turn's interest in descriptors and the nearest deadline.
 *
 * The loop clears it, everything with state adds what it waits for, the loop
 * polls, everything asks for its own result by the slot it was given.
 */
#ifndef POLLSET_H
#define POLLSET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define POLLSET_NONE ((size_t)-1)	/* a slot that is never ready */
/* Of one carrier in one turn; then others get the loop. */
#define POLLSET_READS 4u
#define POLLSET_WRITES 8u

struct pollset {
	struct pollfd *fds;		/* owned */
	size_t count, size;
	uint64_t deadline;		/* clock.h, nearest of the turn */
};

void pollset_clear(struct pollset *set);
void pollset_free(struct pollset *set);

/*
 * Wait for events (POLLIN, POLLOUT) on fd; returns the slot.  With fd -1, no
 * events wanted, or no memory it returns POLLSET_NONE (no memory also makes
 * the turn's deadline 10 ms, so that the loop tries again).
 */
size_t pollset_add(struct pollset *set, int fd, short events);

/* Wake up by then at the latest. */
void pollset_wake(struct pollset *set, uint64_t deadline);

/* Block until something is ready; 0, or -1 with errno (never EINTR). */
int pollset_wait(struct pollset *set);

/* What is ready in slot, 0 for POLLSET_NONE. */
short pollset_ready(const struct pollset *set, size_t slot);

#endif
