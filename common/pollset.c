/* SPDX-License-Identifier: MIT */
/* pollset.c - a turn's descriptors and nearest deadline, and its poll(). */
#include "pollset.h"

#include <errno.h>
#include <stdlib.h>

#include "clock.h"

#define POLLSET_RETRY (10 * CLOCK_MS)	/* after a failed allocation */

void
pollset_clear(struct pollset *set)
{
	set->count = 0;
	set->deadline = CLOCK_NEVER;
}

void
pollset_free(struct pollset *set)
{
	free(set->fds);
	set->fds = NULL;
	set->count = set->size = 0;
}

size_t
pollset_add(struct pollset *set, int fd, short events)
{
	struct pollfd *fds;
	size_t size;

	if (fd < 0 || events == 0) {
		return POLLSET_NONE;
	}
	if (set->count == set->size) {
		size = set->size == 0 ? 64 : set->size * 2;
		fds = realloc(set->fds, size * sizeof(*fds));
		if (fds == NULL) {
			pollset_wake(set, clock_now() + POLLSET_RETRY);
			return POLLSET_NONE;
		}
		set->fds = fds;
		set->size = size;
	}
	set->fds[set->count] = (struct pollfd){ .fd = fd, .events = events };
	return set->count++;
}

void
pollset_wake(struct pollset *set, uint64_t deadline)
{
	if (deadline < set->deadline) {
		set->deadline = deadline;
	}
}

int
pollset_wait(struct pollset *set)
{
	size_t i;

	if (poll(set->fds, set->count, clock_poll_ms(clock_now(),
	    set->deadline)) >= 0) {
		return 0;
	}
	for (i = 0; i < set->count; i++) {
		set->fds[i].revents = 0;
	}
	return errno == EINTR ? 0 : -1;
}

short
pollset_ready(const struct pollset *set, size_t slot)
{
	return slot == POLLSET_NONE ? 0 : set->fds[slot].revents;
}
