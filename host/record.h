/* SPDX-License-Identifier: MIT */
/*
 * record.h - what is on disk of each sandbox that `up` makes.
 *
 * One file a sandbox in paths_state()/sandboxes, mode 0600, called as the
 * sandbox is.  It is there, on disk, before its transport is asked for
 * anything, and goes last, so that a sandbox is listed whatever dies when.
 * Whoever makes or removes one holds its lock.
 */
#ifndef RECORD_H
#define RECORD_H

#include "paths.h"
#include "sandbox.h"

#define RECORD_OWNER 32			/* hex digits that label what is ours */
#define RECORD_MAX 65536u		/* bytes of a record */

struct record_store {
	char directory[PATHS_MAX];
};

/*
 * The store of whoever has these variables (NULL: not set); made if need be.
 * 0, or -1 with *error.
 */
int record_open(struct record_store *store, const char *xdg_state,
    const char *home, struct error *error);

/*
 * A name for all that this store's sandboxes are labelled with, made once,
 * into out[RECORD_OWNER + 1].  0, or -1 with *error.
 */
int record_owner(const struct record_store *store, char *out,
    struct error *error);

/* Write it, on disk when this returns; 0, or -1 with *error. */
int record_put(const struct record_store *store,
    const struct sandbox *sandbox, struct error *error);

/* NULL with *error; its number is ENOENT if there is none. */
struct sandbox *record_get(const struct record_store *store,
    const char *name, struct error *error);

/* Remove it, on disk when this returns; one that is not there is fine. */
int record_remove(const struct record_store *store, const char *name,
    struct error *error);

/*
 * The names of all records, sorted, each malloc()ed, in a malloc()ed array
 * with NULL behind the last; NULL with *error.
 */
char **record_names(const struct record_store *store, struct error *error);
void record_free_names(char **names);

/* Remove what processes that were killed have left beside the records. */
void record_sweep(const struct record_store *store);

/*
 * Be the only one who makes or removes it: a descriptor (CLOEXEC) for
 * record_unlock(), or -1 with *error, whose number is EWOULDBLOCK if another
 * process holds it.  A process's forks hold it too.
 */
int record_lock(const struct record_store *store, const char *name,
    struct error *error);
void record_unlock(const struct record_store *store, const char *name,
    int fd);

#endif
