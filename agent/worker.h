/* SPDX-License-Identifier: MIT */
/*
 * worker.h - a request that a short-lived process of the agent's serves.
 *
 * Whatever could block (files, look-ups, /proc) happens in a worker.  Beside
 * its pipes there is the note: a socket on which it says what it found or
 * why it failed.  It ends when its process is reaped, its pipes are dry and
 * the note is closed.
 */
#ifndef WORKER_H
#define WORKER_H

#include "agent.h"
#include "pollset.h"

/* What a worker writes first on its note; then info bytes. */
struct worker_note {
	uint8_t step;			/* WIRE_STEP_NONE: all went well */
	int number;			/* errno */
	char text[256];			/* names the thing; NUL-terminated */
};

/* core -> worker on the note: the file is complete at this length. */
struct worker_commit {
	uint64_t total;
};

/* What a worker gets; all descriptors are its own by then. */
struct worker_child {
	int in, out;			/* -1: none */
	int note;
};

enum worker_flags {
	WORKER_IN = 1,
	WORKER_OUT = 2,
	WORKER_TIDIES = 4		/* it may take long to end by TERM */
};

/*
 * Start child(arg) in a new process with the pipes that flags ask for, and
 * serve req with it.  On failure req has been answered.  child never
 * returns; before it runs, keys are wiped and all other descriptors closed.
 */
void worker_start(struct session_request *req, unsigned flags,
    void (*child)(const struct worker_child *, void *arg), void *arg);

/* In a worker: say why it failed, or that all went well and what it found. */
void worker_fail(int note, enum wire_step step, int number,
    const char *text) __attribute__((noreturn));
void worker_done(int note, const uint8_t *info, size_t len)
    __attribute__((noreturn));
/* In a worker: keep only these (-1: none) and fds 0 to 2. */
void worker_close_others(int a, int b, int c);

void workers_interest(struct pollset *set);
void workers_run(const struct pollset *set);
/* pid was reaped: whether it was a worker. */
bool workers_reaped(pid_t pid);
/* Whether pid is a worker that is not reaped yet. */
bool workers_know(pid_t pid);
/* Ask all to tidy up and end; whether any is left. */
bool workers_stop(int number);

#endif
