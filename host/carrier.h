/* SPDX-License-Identifier: MIT */
/*
 * carrier.h - one transport child with the sealed link over its stdio.
 *
 * Made for one attempt to reach an agent, used by target_link.c, or to get a
 * terminal from one, used by terminal.c.  It ends
 * when the link or the child does; then the child is killed, and only once
 * it is reaped may another be started into the same container.
 */
#ifndef CARRIER_H
#define CARRIER_H

#include "child.h"
#include "error.h"
#include "link.h"
#include "transport.h"

#define CARRIER_TAIL 1024u	/* kept of the child's stderr */

enum carrier_state {
	CARRIER_NONE,		/* nothing there, or all reaped */
	CARRIER_STARTING,	/* no READY yet */
	CARRIER_UP,		/* READY has opened: requests may be sent;
				 * hands_over: the terminal can be taken */
	CARRIER_ENDED		/* over; the child is being reaped */
};

struct carrier {
	enum carrier_state state;
	struct child child;
	struct link *link;		/* owned, NULL once ended */
	struct session *session;	/* borrowed; NULL: hands_over */
	int err;			/* owned: its stderr */
	size_t slot;
	uint64_t deadline;		/* STARTING: of the hello */
	uint64_t end_by;		/* CLOCK_NEVER, or the kill */
	bool timed_out, closing, login;
	bool wrong_version;
	char versions[LINK_VERSIONS + 1];	/* of the wrong agent */
	uint64_t started, up_at, asked;
	struct wire_ready ready;	/* UP: what the agent said */
	struct error error;		/* ENDED: what the link says */
	uint8_t tail[CARRIER_TAIL];
	size_t tail_len;
	uint8_t noise_head[LINK_QUOTE], noise_tail[LINK_QUOTE];
	size_t noise, head_len, noise_tail_len;
};

struct carrier_spec {
	const struct transport *transport;
	const struct transport_place *place;
	const char *agent;		/* its path in the target */
	const char *hash;		/* with it: hash= and unlink */
	const char *user;		/* of jobs that name none, or NULL */
	const char *groups;		/* that any user gets; NULL or "": none */
	bool keep_home;
	bool hands_over;		/* get its terminal: no session's link */
	struct session *session;
	struct seal_secret *secret;
	uint32_t number;		/* of the link; above 1: attach */
	const char *id;			/* session id, LINK_SESSION digits */
	uint32_t ping_ms, dead_ms, hello_ms, linger_ms;
};

void carrier_clear(struct carrier *carrier);

/* Start the child; 0, or -1 with *error and the carrier cleared. */
int carrier_start(struct carrier *carrier, const struct carrier_spec *spec,
    struct error *error);

void carrier_interest(struct carrier *carrier, struct pollset *set);
void carrier_run(struct carrier *carrier, const struct pollset *set);
void carrier_flush(struct carrier *carrier);

/* Say CLOSE for the session, and kill the child by then at the latest. */
void carrier_close(struct carrier *carrier, uint64_t deadline);
/*
 * In CARRIER_UP: say CLOSE for the link alone; the core waits park_s for
 * another.  It has heard if the carrier ends with error.step SHUTDOWN.
 */
void carrier_park(struct carrier *carrier, uint32_t park_s,
    uint64_t deadline);
/* Whether the session goes over it by now: on a later link after RESUME. */
bool carrier_has_session(const struct carrier *carrier);
/* Once it ended: its stub found nobody who has the session. */
bool carrier_no_session(const struct carrier *carrier);
/*
 * In CARRIER_UP, once: the terminal's descriptors become the caller's; the
 * child goes on until it ends by itself.
 */
void carrier_take_terminal(struct carrier *carrier, int *in, int *out);
/* Kill the child now. */
void carrier_kill(struct carrier *carrier);

/* Before READY: whether another agent at another place could help. */
bool carrier_may_inject(const struct carrier *carrier);

/*
 * Why it ended, for the one who asked: how the child ended, what it said on
 * stderr, the noise before the hello, what to try.
 */
void carrier_blame(const struct carrier *carrier, const char *target,
    struct error *error);

/*
 * 1 or 0: the agent has said after since (clock.h) that no job and nothing a
 * job left behind lives there, or that something does.  -1: it is asked.
 */
int carrier_idle(struct carrier *carrier, uint64_t since);

#endif
