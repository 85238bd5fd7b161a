/* SPDX-License-Identifier: MIT */
/*
 * keepalive.h - notices a supervisor that answers no more (a paused sandbox).
 *
 * A ping is a connection of its own, so that a command which does not read
 * its input cannot hold it up.  One each per link of the gateway.
 */
#ifndef KEEPALIVE_H
#define KEEPALIVE_H

#include <stdint.h>

/* Starts as {0} with fd -1. */
struct keepalive {
	int fd;			/* the ping that is out; owned */
	int missed;
	int64_t next_ns;	/* when to look again; 0 is never */
};

/* Bytes came from the supervisor: silence begins anew. */
void keepalive_heard(struct keepalive *k, int64_t now, int64_t interval);
/* -1 when the link is to be given up. */
int keepalive_tick(struct keepalive *k, const char *name, int64_t now,
    int64_t interval);
void keepalive_stop(struct keepalive *k);

#endif
