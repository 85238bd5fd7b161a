/* SPDX-License-Identifier: MIT */
/*
 * terminal.h - a job's terminal by hand-off: a transport process of its own,
 * whose stub proves itself and then gives its terminal to the job.
 *
 * For targets whose agent cannot open terminals, reached by a transport that
 * gives its processes one.  Only the terminal's bytes go here, unsealed; all
 * else of the request stays on the link.  A terminal belongs to its relay,
 * but outlives it until its process is reaped and no file of ours is left.
 */
#ifndef TERMINAL_H
#define TERMINAL_H

#include "pollset.h"
#include "relay.h"

/* Whether its job needs one; or its link must be up to tell. */
bool terminal_needed(const struct relay *relay);
bool terminal_undecided(const struct relay *relay);

/* Get one for relay, open its request then, and serve its flows. */
void terminal_begin(struct relay *relay);

/* The client's side: as the session events of these names. */
size_t terminal_data(struct terminal *terminal, const uint8_t *data,
    size_t len);
size_t terminal_pull(struct terminal *terminal, uint8_t *buf, size_t max);

/* The relay is answered or gone; NULL is fine. */
void terminal_release(struct terminal *terminal);

/* All of a link's: one turn of the loop. */
void terminals_interest(struct list *all, struct pollset *set);
void terminals_run(struct list *all, const struct pollset *set);
/* The controller ends: everything at once. */
void terminals_kill(struct list *all);

#endif
