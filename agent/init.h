/* SPDX-License-Identifier: MIT */
/*
 * init.h - a job's init: the process between the core and the job's leader.
 *
 * It becomes the job's user, makes its stdio, starts the leader and then
 * reaps whatever of the job's tree comes up to it (it is a subreaper).  When
 * told to, or when the core is gone, it ends that tree.  It keeps no end of
 * the job's stdio.  It and the core speak in the messages below, over a
 * seqpacket socket of which nobody else has an end.
 *
 * The first message to it, the job's body or one byte in its place, is left
 * in the socket until the very moment before the leader is started.  An init
 * that dies with it unread, which the kernel tells the core by ECONNRESET,
 * has run nothing of the job: another init may have it.
 */
#ifndef INIT_H
#define INIT_H

#include "child.h"

#define INIT_EFFORT_MS 4000u		/* to kill a tree, then survivors */
#define INIT_TEXT 1024u

/* What the job's reaped descendants have used; sums but for the peak. */
struct init_usage {
	uint64_t user_us, system_us;
	uint64_t read_blocks, written_blocks;	/* of 512 bytes */
	uint64_t peak_kib;		/* of the largest process */
};

enum init_word {
	/* init -> core */
	INIT_START = 1,			/* number: the leader; text: where it
					 * runs, if it fell back; comes with
					 * the core's ends of stdio */
	INIT_FAIL,			/* step, number: errno, text: of what */
	INIT_END,			/* over: the leader is, with number
					 * as its status; gone: all the tree
					 * is, or else text has survivors,
					 * each with its NUL, if it gave up */
	INIT_HELP,			/* number: a child it may not kill */
	INIT_ALIVE,			/* it has read INIT_STOP */
	/* core -> init */
	INIT_STOP,			/* end the tree; number: ms from TERM
					 * to KILL, 0: KILL at once */
	INIT_SIGNAL,			/* number: to the leader's group */
	INIT_HELPED
};

struct init_msg {
	uint8_t word;			/* enum init_word */
	uint8_t step;			/* enum wire_step */
	uint8_t over, gone;
	int32_t number;
	uint32_t uid;			/* START */
	uint32_t len;			/* of text */
	struct init_usage usage;	/* END */
	char text[INIT_TEXT];		/* only len bytes are sent */
};

/*
 * In the new process, keys wiped: close all but core, its socket, and a
 * terminal that was handed over (-1: none), and be the init of the job that
 * the EXEC body[len] asks for; NULL: that body is the first message to come,
 * and the end of the socket ends a life without a job.
 */
void init_run(int core, int terminal, const uint8_t *body, uint32_t len,
    const struct agent_start *start) __attribute__((noreturn));
#define INIT_BODY_MAX 32768u		/* that a waiting init takes */

/* Send *msg with fds[count]; 0, or -1 with errno.  Used by both ends. */
int init_send(int fd, struct init_msg *msg, const int *fds, unsigned count);

#endif
