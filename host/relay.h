/* SPDX-License-Identifier: MIT */
/*
 * relay.h - one client's request and the agent's request that serves it.
 *
 * Bytes go straight from one session to the other and are taken from a
 * side only as fast as the other accepts them, so a client that stops
 * reading stops its own job and nothing else.  A relay lives as long as the
 * client's request; the agent's part comes later and goes earlier.
 */
#ifndef RELAY_H
#define RELAY_H

#include "hub.h"

struct peer;
struct target_link;
struct terminal;

struct relay {
	struct list link;		/* in its target_link, or stops */
	struct list settle;		/* in hub->settle */
	struct hub *hub;
	struct peer *peer;
	struct target_link *target;	/* NULL: none, or no longer */
	struct session_request *client;
	struct session_request *agent;	/* NULL: not yet, or no longer */
	uint8_t kind;
	uint8_t *body;			/* owned until the agent's opens */
	uint32_t body_len;
	char *reply;			/* owned: the controller's own answer */
	size_t reply_len, reply_sent;
	uint64_t signals;		/* before the agent's opened */
	uint16_t rows, columns;		/* likewise; resized: they count */
	bool resized;
	struct terminal *terminal;	/* its flows go there, or NULL */
	uint64_t typed;			/* bytes of IN that went there */
	bool held;			/* someone still has it */
	bool unread[2];			/* OUT, ERR: nobody reads */
	bool pulling;			/* the client's session is in pull */
	bool done;			/* the agent's result waits */
	bool answered;
};

/* The sessions' events: ctx is the struct peer, the struct target_link. */
extern const struct session_events relay_client_events;
extern const struct session_events relay_agent_events;

/* The link can take requests now: open the agent's part, or get what it
 * needs first. */
void relay_begin(struct relay *relay);
/* Open the agent's part. */
void relay_open(struct relay *relay);
/* The agent's own result, as it is but for what only we know. */
void relay_pass_result(struct relay *relay);

/* Answer with a failure; the agent's part, if any, is given up. */
void relay_fail(struct relay *relay, const struct error *error);

/* Answer with a text on OUT (malloc, owned from now on) and status 0. */
void relay_reply(struct relay *relay, char *text, size_t len);

/* Answer with status 0 and nothing else. */
void relay_finish(struct relay *relay);

/* The link's session is about to go: nothing more will come from it. */
void relay_lost(struct relay *relay, const struct error *error);

/* The client's request is gone, or is about to go: its job ends. */
void relay_free(struct relay *relay);

/* Give an answer, once; what is left is the client's session's business. */
void relay_answer(struct relay *relay, const struct wire_result *result);

/* Take what is queued on from's in[index], as much as fits into buf[max]. */
size_t relay_move(struct session_request *from, unsigned index,
    uint8_t *buf, size_t max);

/* Give the answers that could not be given inside a pull; true if any. */
bool relay_settle(struct hub *hub);

#endif
