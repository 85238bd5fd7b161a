/* SPDX-License-Identifier: MIT */
/*
 * target_link_private.h - what the target_*.c files of a link share.
 *
 * target_link.c owns a link's life, target_start.c the way up to READY,
 * target_relink.c a session between two links.
 */
#ifndef TARGET_LINK_PRIVATE_H
#define TARGET_LINK_PRIVATE_H

#include "log.h"
#include "target_link.h"

/* target_link.c */

/* "docker:web"; valid until the next call. */
const char *target_link_name(const struct target_link *link);
/* A session of which nothing is used, for another start; 0 or -1+errno. */
int target_link_renew(struct target_link *link);
/* Another name leads here. */
void target_link_add_alias(struct target_link *link, const uint8_t *alias);
/* A log line about a failure, whose text may name the target already. */
void target_link_log(const struct target_link *link, enum log_level level,
    const char *what, const struct error *error);
/* Fail everything, kill what runs, with a line in the log. */
void target_link_give_up(struct target_link *link,
    const struct error *error);

/*
 * The session is over: what may have begun fails, what has not begins anew on
 * another link.
 */
void target_link_abandon(struct target_link *link,
    const struct error *error);

/* A link of what this peer wants, in state RESOLVING; NULL with errno. */
struct target_link *target_link_new(struct peer *peer);

/* target_start.c */

/* What its number and agent make of an attempt at a link. */
void target_start_spec(struct target_link *link, struct carrier_spec *spec);
/* The link is up: what waited for it goes on. */
void target_start_begin_all(struct target_link *link);

/* Whether requests may be put into the session already. */
bool target_start_ready(const struct target_link *link);
/* One step of the bring-up, in any state before TARGET_LINK_UP. */
void target_start_run(struct target_link *link);
/*
 * Have an injected agent's file removed by whoever may; nobody waits, but
 * link->removing stays set until it is done.
 */
void target_start_remove(struct target_link *link);
/* Log the end of the removal of an agent's file. */
void target_start_check_removal(struct target_link *link);

/* target_relink.c */

/* The link of a session that can be mended is lost. */
void target_relink_lost(struct target_link *link,
    const struct error *cause);
/* A request for a parked session, or its end: it needs a link. */
void target_relink_wake(struct target_link *link);
void target_relink_interest(const struct target_link *link,
    struct pollset *set);
/* One step, in states TARGET_LINK_RELINKING and _PARKED. */
void target_relink_run(struct target_link *link);

#endif
