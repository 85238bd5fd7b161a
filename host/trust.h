/* SPDX-License-Identifier: MIT */
/*
 * trust.h - what is known of a sandbox's past, on disk.
 *
 * A job that ran under the agent's own uid may have prepared the next start
 * (a login file, a program on PATH), so an agent started after it proves
 * nothing.  A job of another uid than a root agent's cannot, unless its image
 * lets it become root.  One small file per container in paths_state()/trust holds what
 * we know; no file, or one that cannot be read, counts as used.
 */
#ifndef TRUST_H
#define TRUST_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

/* Find and make the directory; without it all counts as used. */
int trust_open(struct error *error);

/*
 * Whether a job of this user (NAME|UID[:GROUP|GID]) has another uid than 0,
 * whatever the sandbox's files say: only a number tells, for a name is what
 * /etc/passwd makes of it.
 */
bool trust_is_not_root(const char *user, size_t len);

/* Whether no job can have run there under the agent's uid. */
bool trust_is_fresh(const char *scheme, const char *id);

/*
 * Note that a job will run there; a record that said fresh is changed on
 * disk before this returns.  0, or -1 with errno: it may still say fresh, so
 * no job may start.
 */
int trust_use(const char *scheme, const char *id);

/* Note a container that was just made (by `up`); 0, or -1 with errno. */
int trust_make(const char *scheme, const char *id);

/* Forget one that is no more. */
void trust_forget(const char *scheme, const char *id);

#endif
