/* SPDX-License-Identifier: MIT */
/*
 * link.h - one CLI's connection inside the gateway.
 *
 * First an unknown client, then one exec: CLI on one side, supervisor on
 * the other, a paced queue each way between them.  All of it is driven by
 * the gateway's one poll; nothing here blocks.
 */
#ifndef LINK_H
#define LINK_H

#include "queue.h"
#include "wire.h"

#include <poll.h>

struct link_config {
	struct queue_pace pace;
	size_t up_max;		/* bytes swallowed before back-pressure */
	size_t down_max;
	int64_t exec_ns;	/* from the request to the start */
	int64_t keepalive_ns;	/* silence before each ping; 0 is never */
};

struct link;

/* Takes the connected client. */
struct link *link_new(int fd, const struct link_config *cf);
/* Closes both ends; takes NULL. */
void link_free(struct link *l);

/* Fills two entries; returns when it wants to run at the latest, or 0. */
int64_t link_poll(struct link *l, struct pollfd p[2]);
/* After poll; 1 when the link is over and must be freed. */
int link_run(struct link *l, const struct pollfd p[2]);

/* For the commands of a test. */
const char *link_name(const struct link *l);
void link_set_budget(struct link *l, int64_t bytes);
void link_set_frozen(struct link *l, int frozen);
/* A request that is not an exec: its type and payload, once. */
int link_take_request(struct link *l, enum wire_type *t, struct wire_buf *b);
/* Answers it; the client is closed once it has the answer. */
void link_answer(struct link *l, enum wire_type t, const void *p, size_t n);
/* The client's socket, for a child that answers by itself. */
int link_client(const struct link *l);

#endif
