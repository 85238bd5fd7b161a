/* SPDX-License-Identifier: MIT */
/*
 * starter.h - runs a transport's blocking work in a process of its own.
 *
 * The loop never waits: it forks, goes on, and reads one answer of fixed
 * size from a pipe.  A helper past its deadline is killed.
 */
#ifndef STARTER_H
#define STARTER_H

#include "child.h"
#include "error.h"
#include "pollset.h"
#include "transport.h"

enum starter_task {
	STARTER_RESOLVE,
	STARTER_INJECT,
	STARTER_LOOK,
	STARTER_REMOVE
};

enum starter_state {
	STARTER_IDLE,
	STARTER_BUSY,
	STARTER_DONE,		/* answer is here */
	STARTER_FAILED		/* error says why */
};

struct starter_answer {
	uint32_t magic;		/* STARTER_MAGIC: complete and ours */
	int32_t rc;
	struct error error;
	struct transport_facts facts;
};

struct starter {
	struct child child;
	enum starter_state state;
	int fd;
	size_t slot, got;
	uint64_t deadline;
	struct starter_answer answer;
};

void starter_clear(struct starter *starter);

/* Begin; STARTER_BUSY, or STARTER_FAILED at once. */
void starter_begin(struct starter *starter, enum starter_task task,
    const struct transport *transport, const struct transport_place *place);

void starter_interest(struct starter *starter, struct pollset *set);
void starter_run(struct starter *starter, const struct pollset *set);

/* End it whatever it does. */
void starter_stop(struct starter *starter);

#endif
