/* SPDX-License-Identifier: MIT */
/*
 * link_private.h - what the link's files share.
 *
 * link.c owns what is sent, keepalive and the end, link_input.c what arrives,
 * link_hello.c what comes before the first record: argv's words, hello,
 * READY, noise.
 */
#ifndef LINK_PRIVATE_H
#define LINK_PRIVATE_H

#include "link.h"

#define LINK_RECORD 4u			/* a record's length field */
#define LINK_PAGE 4096
#define LINK_IN 196608u			/* input buffer */
#define LINK_OUT 131072u		/* output buffer */
#define LINK_RECORD_MAX (SEAL_OVERHEAD + WIRE_RECORD_PLAIN)
_Static_assert(LINK_RECORD + LINK_RECORD_MAX == 32768, "half a pipe");
#define LINK_READY_RECORD \
	(LINK_RECORD + SEAL_OVERHEAD + WIRE_NUMBER + WIRE_READY_BYTES)
#define LINK_PREAMBLE (LINK_HELLO + SEAL_HEADER + LINK_READY_RECORD)

/* Mapped, zeroed, one per link. */
struct link {
	enum seal_role role;
	enum link_state state;
	struct error error;
	struct link_terms terms;
	struct session *session;	/* borrowed */
	uint64_t attachment;		/* ours of the session, 0: not yet */
	struct seal_secret *secret;	/* borrowed */
	struct seal *seal;		/* owned */
	int in, out;			/* owned */
	bool terminal;			/* in is one: short reads mean little */
	bool hands_over;		/* as in link_config */
	uint32_t linger_ms;		/* likewise */
	uint32_t *committed;		/* likewise */
	uint8_t hello[LINK_HELLO];	/* the one that T is made of */
	struct wire_ready ready;
	char wrong_version[LINK_VERSIONS + 1];
	bool accepted, session_closed, out_dead, newest;

	/* what is due in the next write */
	bool resume_due, pong_due, ping_due, ack_due, more;
	unsigned close_due;		/* 1: link, 2: session */
	uint32_t park_s;		/* with 1 */
	uint64_t pong_id, ping_id;
	bool busy, peer_busy;		/* in PONG */
	size_t unacked;			/* bytes of session frames */

	/* clock.h times */
	uint64_t ping, dead;		/* intervals */
	uint64_t stay;			/* see link_stay() */
	uint64_t turn, heard, pinged, deadline, ack_at, rtt, pong_at;

	size_t in_slot, out_slot;	/* of this turn's pollset */
	size_t in_start, in_end, out_start, out_end;

	/* noise before the hello */
	size_t noise;			/* bytes in all */
	unsigned candidates;
	size_t head_len, tail_len;
	uint8_t head[LINK_QUOTE], tail[LINK_QUOTE];

	/* from here on not inherited by children: on pages of their own */
	uint8_t plain[WIRE_RECORD_PLAIN] __attribute__((aligned(LINK_PAGE)));
	uint8_t out_buf[LINK_OUT];
	uint8_t in_buf[LINK_IN];
};

/* link.c */
/* Another link has the session now: this one is over. */
bool link_replaced(struct link *link);
void link_end(struct link *link, enum link_state state);
void link_fail(struct link *link, enum wire_step step, int number,
    const char *what);
void link_seal(struct link *link, const uint8_t *plain, size_t len);
void link_seal_message(struct link *link, const struct wire *msg);
void link_trim(struct link *link);
/* Write what is sealed: 0 all of it, 1 the descriptor is full, -1 no more. */
int link_drain(struct link *link);
/* Give the session to this link; 0, or -1 with *error. */
int link_attach(struct link *link, uint64_t next, struct error *error);

/* link_input.c: read what is there and act on it. */
void link_receive(struct link *link);

/* link_hello.c */
void link_bind(const struct link *link, struct seal_binding *binding);
void link_hello_send(struct link *link, const struct link_config *config);
/* Look for the hello in the input; moves on to LINK_RESUME_WAIT. */
void link_hello_search(struct link *link);

#endif
