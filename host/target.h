/* SPDX-License-Identifier: MIT */
/*
 * target.h - reads the names of targets and the operands of cp.
 *
 * Used by the client, to refuse a bad word before anything starts, and by the
 * controller on what a client sent.  The words are hostile: a parsed name has
 * only letters, digits and ". _ - / @ +", and never begins with "-" or ".".
 */
#ifndef TARGET_H
#define TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

#define TARGET_SCHEME_MAX 16
#define TARGET_NAME_MAX 256
#define TARGET_TEXT_MAX (TARGET_SCHEME_MAX + TARGET_NAME_MAX)

#define TARGET_SANDBOX_MAX 19		/* of a bare name, as OpenShell's */

struct target {
	char scheme[TARGET_SCHEME_MAX];	/* "local", "docker", "openshell";
					 * empty: the bare name of a sandbox
					 * that `up` made */
	char name[TARGET_NAME_MAX];	/* empty for local */
};

/* Whether name[len] can be a sandbox's: [a-z0-9-], no scheme. */
bool target_sandbox_name(const char *name, size_t len);

/*
 * Parse TARGET.  0, or -1 with *error (WIRE_STEP_TARGET): an unknown scheme,
 * one that this version does not reach yet, no name or a bad one.
 */
int target_parse(const char *text, struct target *target,
    struct error *error);

/* The canonical text, into out[TARGET_TEXT_MAX]. */
void target_format(const struct target *target, char *out);

/* One operand of cp. */
struct target_operand {
	bool local;
	struct target target;		/* unless local */
	const char *path;		/* borrowed from the text; local "-" too */
};

/*
 * SRC or DST: local if it is "-", begins with "/", "./" or "../" or has no
 * ":"; else a target, then ":" and its path.  0, or -1 with *error.
 */
int target_operand(const char *text, struct target_operand *operand,
    struct error *error);

#endif
