/* SPDX-License-Identifier: MIT */
/*
 * envlist.h - the environment that exec's options ask for.
 *
 * K=V as it stands, K alone with the value it has here; names that no
 * program could mean are refused.  Values may be any bytes but NUL.
 */
#ifndef ENVLIST_H
#define ENVLIST_H

#include "error.h"
#include "items.h"

#define ENVLIST_FILE_MAX (WIRE_ARGS_MAX + 65536)	/* bytes of a file */

struct envlist {
	struct items set;		/* K=V */
	struct items unset;		/* K */
};

/* Start with {0}. */
void envlist_free(struct envlist *env);

/* -e: K=V, or K: as it is here; not set here = unset there.  0, or -1. */
int envlist_add(struct envlist *env, const char *text, struct error *error);

/* --unset K; likewise. */
int envlist_remove(struct envlist *env, const char *name,
    struct error *error);

/*
 * --env-file: a line each of K=V or K; empty lines and those that begin with
 * "#" are skipped, and K alone is skipped where it is not set here.  An
 * error names the file and the line.
 */
int envlist_file(struct envlist *env, const char *path, struct error *error);

/* Whether it sets or unsets name. */
bool envlist_names(const struct envlist *env, const char *name);

#endif
