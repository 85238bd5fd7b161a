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
#include "json.h"

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

/* The same as members of a JSON object, as limits_add() reads them. */
void limits_write(const struct limits *limits, struct json *json);

/*
 * A request's items with none above these: what it asks for more of is
 * lowered, what it does not speak of is added.
 */
void limits_bound(const struct limits *limits, struct wire_list asked,
    struct items *items);

#endif
