/* SPDX-License-Identifier: MIT */
/*
 * pipes.h - the core's ends of a process's stdio, and a request's flows.
 *
 * Bytes go from IN to the process and from the process to OUT and ERR, each
 * only as fast as the other side takes them.  A terminal's master is both
 * in and out[0].
 */
#ifndef PIPES_H
#define PIPES_H

#include "pollset.h"
#include "session.h"

#define PIPES_DRAIN_MS 200u		/* a held pipe is quiet this long */
#define PIPES_HELD_MS 800u		/* at most, though it is not quiet */
#define PIPES_EOF_MS 5u			/* from a pipe's end to its EOF frame */
#define PIPES_DRAINS 1024u		/* pipes of detached children */

struct pipes {
	struct session_request *req;	/* NULL: nobody reads or writes */
	int in, out[2];			/* owned, -1: closed or not yet there */
	bool awaited;			/* they are not there yet */
	bool terminal;
	uint64_t quiet, eof_at, in_bytes;
	uint64_t over_at;		/* of the process, 0: it lives */
	uint64_t owed[2];		/* what it left in out[] then */
	size_t slot_in, slot_out[2];
};

void pipes_init(struct pipes *p, struct session_request *req);
/* The ends have come; owned from now on, -1 where there is none. */
void pipes_take(struct pipes *p, int in, int out, int err);
/* From now on req's flows, or nobody's (NULL). */
void pipes_serve(struct pipes *p, struct session_request *req);
/* Close all; what background children still hold is read to nowhere. */
void pipes_close(struct pipes *p);

/* Session events of the request. */
size_t pipes_data(struct pipes *p, const uint8_t *data, size_t len);
/* IN's end was reached and passed on: true once. */
bool pipes_ended(struct pipes *p);
size_t pipes_pull(struct pipes *p, unsigned index, uint8_t *buf, size_t max);
/* The same without a request: read out[index]; it is closed at its end. */
size_t pipes_read(struct pipes *p, unsigned index, uint8_t *buf, size_t max);
void pipes_unwanted(struct pipes *p, unsigned index);

void pipes_interest(struct pipes *p, struct pollset *set);
/* Move what is ready; true if IN's end was passed on now. */
bool pipes_run(struct pipes *p, const struct pollset *set);
/* Tell the ends of flows that outlive their pipe. */
void pipes_tell(struct pipes *p, uint64_t now);
/* The process is over: what it wrote and is still in its pipes is owed. */
void pipes_over(struct pipes *p);
/*
 * After that: whether everything it wrote itself has gone out, that
 * is both ends are closed, or someone else holds one and what was owed has
 * been read, and it has been empty for a while or that is long ago.  If not,
 * *wake says when to ask again.
 */
bool pipes_dry(struct pipes *p, uint64_t now, uint64_t *wake);

/* Pipes that nobody listens to any more. */
void drains_interest(struct pollset *set);
void drains_run(const struct pollset *set);

/* Close *fd and make it -1; errno is kept. */
void close_fd(int *fd);

#endif
