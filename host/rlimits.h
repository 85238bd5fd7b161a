/* SPDX-License-Identifier: MIT */
/*
 * rlimits.h - resource limits as exec's --limit gives them.
 *
 * The names and numbers are Linux's, wherever the host runs.
 */
#ifndef RLIMITS_H
#define RLIMITS_H

#include <stdbool.h>

#include "error.h"
#include "items.h"

struct limits {
	struct {
		bool given;
		uint64_t soft, hard;	/* UINT64_MAX: unlimited */
	} of[WIRE_LIMITS_MAX];		/* by Linux's number */
};

/*
 * NAME=SOFT[:HARD]; each a number (K, M and G behind it count), "unlimited"
 * or -1; HARD alone missing is SOFT.  The last one of a name counts.  0, or
 * -1 with *error.
 */
int limits_add(struct limits *limits, const char *text, struct error *error);

/* Those given, as items of exec.limits. */
void limits_items(const struct limits *limits, struct items *items);

#endif
