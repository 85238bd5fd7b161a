/* SPDX-License-Identifier: MIT */
/*
 * progress.h - shows on a terminal how far a copy is.
 *
 * One line on stderr, redrawn a few times a second, only where stderr is a
 * terminal.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "pollset.h"

struct progress {
	const char *name;		/* borrowed; quoted when shown */
	uint64_t done, total;		/* bytes; total 0: not known */
	uint64_t start, next;		/* clock.h */
	bool shown, active;
};

/* enabled: besides that, stderr must be a terminal. */
void progress_start(struct progress *progress, const char *name,
    uint64_t total, bool enabled);

/* Redraw if it is time, and wake the loop for the next time. */
void progress_turn(struct progress *progress, struct pollset *set);

/* The last line: all of it, or where it broke off. */
void progress_end(struct progress *progress);

/* "1.5 GiB" into out[16]. */
void progress_bytes(uint64_t bytes, char out[16]);

#endif
