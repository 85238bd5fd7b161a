/* SPDX-License-Identifier: MIT */
/*
 * progress.h - shows on a terminal, and tells a program, how far a copy is.
 *
 * One line on stderr, redrawn a few times a second, only where stderr is a
 * terminal; an event (events.h) as often, where a program listens.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "events.h"
#include "pollset.h"

struct progress {
	const char *name;		/* borrowed; quoted when shown */
	uint64_t done, total;		/* bytes; total 0: not known */
	uint64_t base;			/* of done: there before the start */
	uint64_t start, next;		/* clock.h */
	struct events *events;		/* borrowed, NULL: nobody listens */
	bool shown, active;		/* on a terminal */
};

/*
 * Start with {0}, name, and total if it is known.  enabled: besides that,
 * stderr must be a terminal.
 */
void progress_start(struct progress *progress, bool enabled);

/* So many bytes are there already, of so many: they are no work. */
void progress_resume(struct progress *progress, uint64_t done,
    uint64_t total);

/* Show and tell if it is time, and wake the loop for the next time. */
void progress_turn(struct progress *progress, struct pollset *set);

/* The last line: all of it, or where it broke off. */
void progress_end(struct progress *progress);

/* "1.5 GiB" into out[16]. */
void progress_bytes(uint64_t bytes, char out[16]);

#endif
