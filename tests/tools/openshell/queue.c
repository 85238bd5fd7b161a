/* SPDX-License-Identifier: MIT */
/* queue.c - the frames of one direction and when they may go. */
#include "queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define QUEUE_IOV 32
#define QUEUE_HIGH_NS 500000	/* bytes this far ahead of time may go */
#define QUEUE_LOW_NS 100000	/* then rest until only this is left */
#define QUEUE_CREDIT_NS 2000000	/* lateness that may be made good */
#define QUEUE_WINDOW_NS 4000000
#define QUEUE_BUSY 32768	/* bytes in two windows */

struct queue_piece {
	struct queue_piece *next;
	int64_t at;
	size_t payload;
	size_t off;		/* sent of head and payload */
	int paid;
	uint8_t frame[];
};

void
queue_push(struct queue *q, enum wire_type t, const void *p, size_t n,
    int64_t now)
{
	struct queue_piece *e = malloc(sizeof(*e) + WIRE_HEAD + n);
	uint32_t len = (uint32_t)n;

	if (e == NULL) {
		abort();
	}
	e->next = NULL;
	e->at = now;
	e->payload = n;
	e->off = 0;
	e->paid = 0;
	memset(e->frame, 0, WIRE_HEAD);
	memcpy(e->frame, &len, sizeof(len));
	e->frame[4] = (uint8_t)t;
	if (n > 0) {
		memcpy(e->frame + WIRE_HEAD, p, n);
	}
	if (q->tail != NULL) {
		q->tail->next = e;
	} else {
		q->head = e;
	}
	q->tail = e;
	q->bytes += n;
}

static void
count(struct queue *q, size_t n, int64_t now)
{
	int64_t gone = (now - q->window_ns) / QUEUE_WINDOW_NS;

	if (gone > 0) {
		q->window[1] = gone == 1 ? q->window[0] : 0;
		q->window[0] = 0;
		q->window_ns = now;
	}
	q->window[0] += n;
}

int
queue_busy(const struct queue *q, int64_t now)
{
	return now - q->window_ns < 2 * QUEUE_WINDOW_NS &&
	    q->window[0] + q->window[1] > QUEUE_BUSY;
}

/* 1 when the piece may go now; else wake_ns is set. */
static int
pay(struct queue *q, struct queue_piece *e, const struct queue_pace *pace,
    int both, int64_t now)
{
	int64_t ps = both ? pace->both_ps : pace->alone_ps;
	int64_t ahead = q->resting ? QUEUE_LOW_NS : QUEUE_HIGH_NS;

	if (e->paid) {
		return 1;
	}
	if (e->at + pace->delay_ns > now) {
		q->wake_ns = e->at + pace->delay_ns;
		return 0;
	}
	if (q->next_ns > now + ahead) {
		q->resting = 1;
		q->wake_ns = q->next_ns - QUEUE_LOW_NS;
		return 0;
	}
	q->resting = 0;
	if (q->next_ns < now - QUEUE_CREDIT_NS) {
		q->next_ns = now - QUEUE_CREDIT_NS;
	}
	q->next_ns += (int64_t)e->payload * ps / 1000;
	count(q, e->payload, now);
	e->paid = 1;
	return 1;
}

static int
shorten(struct queue *q, struct queue_piece *e, int64_t *budget)
{
	uint32_t len;

	if (budget == NULL || *budget < 0 || e->off > 0) {
		return 0;
	}
	if ((int64_t)e->payload < *budget) {
		*budget -= (int64_t)e->payload;
		return 0;
	}
	q->bytes -= e->payload - (size_t)*budget;
	e->payload = (size_t)*budget;
	*budget = 0;
	len = (uint32_t)e->payload;
	memcpy(e->frame, &len, sizeof(len));
	return 1;
}

static void
consume(struct queue *q, size_t n)
{
	while (n > 0) {
		struct queue_piece *e = q->head;
		size_t left = WIRE_HEAD + e->payload - e->off;

		if (n < left) {
			e->off += n;
			return;
		}
		n -= left;
		q->bytes -= e->payload;
		q->head = e->next;
		if (q->head == NULL) {
			q->tail = NULL;
		}
		free(e);
	}
}

/* Bytes that may go in one call, in iov; *cut when the budget ends in it. */
static int
gather(struct queue *q, struct iovec *iov, const struct queue_pace *pace,
    int both, int64_t *budget, int *cut)
{
	struct queue_piece *e;
	int64_t now = wire_now_ns();
	int n = 0;

	for (e = q->head; e != NULL && n < QUEUE_IOV && !*cut; e = e->next) {
		int fresh = !e->paid;

		if (!pay(q, e, pace, both, now)) {
			break;
		}
		if (fresh) {
			*cut = shorten(q, e, budget);
		}
		iov[n].iov_base = e->frame + e->off;
		iov[n].iov_len = WIRE_HEAD + e->payload - e->off;
		n++;
	}
	return n;
}

int
queue_send(struct queue *q, int fd, const struct queue_pace *pace,
    int other_busy, int64_t *budget)
{
	struct iovec iov[QUEUE_IOV];
	struct msghdr mh;
	ssize_t w;
	int cut = 0;

	for (;;) {
		q->wake_ns = 0;
		q->blocked = 0;
		memset(&mh, 0, sizeof(mh));
		mh.msg_iov = iov;
		mh.msg_iovlen = (size_t)gather(q, iov, pace, other_busy,
		    budget, &cut);
		if (mh.msg_iovlen == 0) {
			return 0;
		}
		w = sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (w < 0 && errno == EAGAIN && !cut) {
			q->blocked = 1;
			return 0;
		}
		if (cut) {
			return 1;
		}
		if (w < 0 && errno != EINTR) {
			return -1;
		}
		if (w > 0) {
			consume(q, (size_t)w);
		}
	}
}

void
queue_clear(struct queue *q)
{
	while (q->head != NULL) {
		struct queue_piece *e = q->head;

		q->head = e->next;
		free(e);
	}
	memset(q, 0, sizeof(*q));
}
