/* SPDX-License-Identifier: MIT */
/*
 * lifecycle.h - making and removing one sandbox, whatever its transport.
 *
 * The order is what keeps anything from being lost: record, sandbox, trust,
 * proof that it is ready, record again; and back: record, links, sandbox,
 * record gone.  All of it blocks, for the commands' own processes.
 */
#ifndef LIFECYCLE_H
#define LIFECYCLE_H

#include "json.h"
#include "record.h"
#include "transport.h"

struct lifecycle {
	struct record_store store;
	char owner[RECORD_OWNER + 1];
};

/* Once in a process; 0, or -1 with *error. */
int lifecycle_init(struct lifecycle *life, struct error *error);

/* Build its image, if it says how; 0, or -1 with *error. */
int lifecycle_build(const struct lifecycle *life, struct sandbox *sandbox,
    struct error *error);

/*
 * Give it a name (NULL: a new one) and a record; *lock is the caller's, for
 * record_unlock().  Nothing else is there yet.  0, or -1 with *error.
 */
int lifecycle_plan(const struct lifecycle *life, struct sandbox *sandbox,
    const char *name, int *lock, struct error *error);

/* Make it ready; its record says so then.  0, or -1 with *error. */
int lifecycle_make(const struct lifecycle *life, struct sandbox *sandbox,
    struct error *error);

enum lifecycle_flags {
	LIFECYCLE_LOCKED = 1,		/* the caller holds its lock */
	LIFECYCLE_SETTLED = 2		/* its transport's CLI is not at work */
};

/* Remove it and its record.  0, 1: there was none, or -1 with *error. */
int lifecycle_remove(const struct lifecycle *life, const char *name,
    unsigned flags, struct error *error);

/* One that has our label and no record; 0, 1 or -1 with *error. */
int lifecycle_remove_orphan(const struct lifecycle *life,
    const struct transport *transport, const char *name, const char *id,
    struct error *error);

/*
 * What transport has of ours, as of the environment that select's K=V are
 * laid over.  0, or -1 with *error.
 */
int lifecycle_list(const struct lifecycle *life,
    const struct transport *transport, const struct items *select,
    void (*found)(void *ctx, const struct transport_found *found), void *ctx,
    struct error *error);

/* The values here that say where transport's sandboxes are, as K=V. */
void lifecycle_select(const struct transport *transport,
    struct items *select);

/* Members that tell programs of it, into an object that is open. */
void lifecycle_json(struct json *json, const struct sandbox *sandbox);

#endif
