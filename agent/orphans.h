/* SPDX-License-Identifier: MIT */
/*
 * orphans.h - what inits that died have left: children of the core that it
 * did not fork.  They are stopped, then killed, level by level, while more
 * of them come up.
 */
#ifndef ORPHANS_H
#define ORPHANS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pollset.h"

/* There may be some from now on. */
void orphans_expect(void);
/* No more are looked for: none is left, or the effort was in vain. */
bool orphans_over(void);
/* Whether pid is the helper that stops them. */
bool orphans_know(pid_t pid);
/* pid was reaped: whether it was that helper. */
bool orphans_reaped(pid_t pid);

void orphans_interest(struct pollset *set, uint64_t now);
void orphans_run(uint64_t now);

#endif
