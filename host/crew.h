/* SPDX-License-Identifier: MIT */
/*
 * crew.h - blocking work on several things side by side, a process for each.
 *
 * For up, down and cleanup.  A signal ends all of it; a worker dies with us.
 */
#ifndef CREW_H
#define CREW_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

#define CREW_MAX 64u			/* things at once */

struct crew_answer {
	int rc;				/* work()'s; -1 also: it was killed */
	struct error error;		/* where rc is negative */
};

/*
 * Call work(ctx, i, &error) for i < count, at most `most` at once, each in a
 * process of its own: its rc and error come back in answers[count].  once:
 * the first failure ends all others.  Whoever takes longer than ms (0: any
 * time) is killed, which is a failure too.  Returns 0, or the number of the signal
 * that ended it (interrupt.h, which this installs).
 */
int crew_run(unsigned count, unsigned most, bool once, uint64_t ms,
    int (*work)(void *ctx, unsigned index, struct error *error), void *ctx,
    struct crew_answer *answers);

#endif
