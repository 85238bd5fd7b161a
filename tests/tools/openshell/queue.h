/* SPDX-License-Identifier: MIT */
/*
 * queue.h - one direction of a link, paced like the real relay.
 *
 * Frames wait in it until the pace lets them go: a fixed delay each and a
 * rate that falls when the other direction is busy too.  Only the gateway
 * uses it.  It never waits itself: it says when it wants to be called.
 */
#ifndef QUEUE_H
#define QUEUE_H

#include "wire.h"

struct queue_pace {
	int64_t delay_ns;	/* of every frame */
	int64_t alone_ps;	/* picoseconds a byte, one direction busy */
	int64_t both_ps;	/* the same with both busy */
};

struct queue_piece;

/* Starts as {0}. */
struct queue {
	struct queue_piece *head;
	struct queue_piece *tail;
	size_t bytes;		/* payload waiting */
	int64_t next_ns;	/* when the bytes paid for so far are over */
	int64_t wake_ns;	/* 0 nothing to wait for */
	int blocked;		/* the socket is full */
	int resting;
	int64_t window_ns;
	size_t window[2];	/* bytes of this and of the last window */
};

void queue_push(struct queue *q, enum wire_type t, const void *p, size_t n,
    int64_t now);
/*
 * Sends what the pace allows.  budget, when not NULL, is how many payload
 * bytes may still pass: the frame that reaches 0 is cut short and 1 is
 * returned.  0 is well, -1 + errno the peer is gone.
 */
int queue_send(struct queue *q, int fd, const struct queue_pace *pace,
    int other_busy, int64_t *budget);
int queue_busy(const struct queue *q, int64_t now);
void queue_clear(struct queue *q);

#endif
