/* SPDX-License-Identifier: MIT */
/*
 * client.h - a client's connection to the controller, up to WELCOME.
 *
 * Finds the controller, or starts it, or replaces an idle one of another
 * version, says HELLO for a target, and then carries an opener session.  A
 * command builds its loop from client_interest() and client_run().
 */
#ifndef CLIENT_H
#define CLIENT_H

#include "error.h"
#include "pollset.h"
#include "session.h"

#define CLIENT_WELCOME_MS 20000u	/* for the controller to answer */

enum client_flags {
	CLIENT_START = 1,		/* start a controller if none runs */
	CLIENT_SAME_AGENT = 2,		/* refuse a new, unproven agent */
	CLIENT_ANY_PROGRAM = 4		/* another version is fine too */
};

struct client_config {
	const char *target;		/* "": the controller itself */
	unsigned flags;			/* enum client_flags */
	const struct session_events *events;	/* borrowed */
	void *ctx;
};

/* What WELCOME said. */
struct client_peer {
	uint32_t pid;
	uint32_t busy;
	uint16_t version;		/* 0: no common one */
	char program[65];		/* printable */
};

struct client;

/*
 * A connection after WELCOME; the caller owns it.  NULL with *error; its step
 * is WIRE_STEP_NONE if no controller runs and CLIENT_START is not set.
 * Blocks, within bounds.
 */
struct client *client_open(const struct client_config *config,
    struct error *error);
void client_close(struct client *client);

const struct client_peer *client_peer(const struct client *client);

/* Open a request; the body is msg's. NULL with *error. */
struct session_request *client_request(struct client *client,
    const struct wire *msg, struct error *error);

/* One turn of a loop. */
void client_interest(struct client *client, struct pollset *set);
void client_run(struct client *client, const struct pollset *set);

/* Why the connection ended, NULL while it lives. */
const struct error *client_error(const struct client *client);

#endif
