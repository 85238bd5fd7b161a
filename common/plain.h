/* SPDX-License-Identifier: MIT */
/*
 * plain.h - the client socket's carrier: f(frame) on a unix socket, unsealed.
 *
 * Used by clients (opener) and by the controller (server) for one connection
 * each.  HELLO and WELCOME go through the greeting event, all else to the
 * session.  Owns its descriptor, never blocks.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include "error.h"
#include "pollset.h"
#include "session.h"

struct plain;

struct plain_config {
	int fd;				/* owned from now on, also on failure */
	struct session *session;	/* borrowed */
	/* HELLO or WELCOME arrived (once, first); -1 with *error ends it. */
	int (*greeting)(void *ctx, const struct wire *message,
	    struct error *error);
	void *ctx;
};

struct plain *plain_new(const struct plain_config *config);	/* NULL+errno */
void plain_free(struct plain *plain);

/* Queue our greeting (HELLO or WELCOME); 0, or -1 with errno. */
int plain_greet(struct plain *plain, const struct wire *message);

void plain_interest(struct plain *plain, struct pollset *set);
void plain_run(struct plain *plain, const struct pollset *set);
void plain_flush(struct plain *plain);

/* The far end is gone or broke the protocol; NULL while it lives. */
const struct error *plain_error(const struct plain *plain);
/* Give the memory of unused buffer space back to the kernel. */
void plain_trim(struct plain *plain);
/* Whether everything that was to be sent is written. */
bool plain_drained(const struct plain *plain);

#endif
