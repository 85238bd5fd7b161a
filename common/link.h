/* SPDX-License-Identifier: MIT */
/*
 * link.h - one sealed link over two descriptors: hello, records, keepalive.
 *
 * The controller and the agent core each have one per transport child; it
 * carries one session and may die without it.  It owns its descriptors
 * (non-blocking here) and never blocks.  Everything that arrives is hostile
 * until it opens.
 */
#ifndef LINK_H
#define LINK_H

#include "error.h"
#include "pollset.h"
#include "seal.h"
#include "session.h"

#define LINK_TOKEN 32			/* hex digits, without NUL */
#define LINK_SESSION 32
#define LINK_VERSIONS 9			/* MMMM-NNNN */
#define LINK_HELLO 122			/* bytes of a hello */
#define LINK_NOISE_MAX 1048576u		/* bytes before READY */
#define LINK_CANDIDATES 64u		/* hello windows tried */
#define LINK_HELLO_MS 20000u		/* from the start to READY */
#define LINK_PING_MS 5000u		/* defaults of the keepalive */
#define LINK_DEAD_MS 20000u
#define LINK_QUOTE 512u			/* noise kept from each end */
#define LINK_LINGER_MS 60000u		/* the controller's default */
#define LINK_NO_SESSION 69		/* exit status: nobody to attach to */

enum link_state {
	LINK_HELLO_WAIT,		/* host: reading noise until READY */
	LINK_RESUME_WAIT,		/* the far end's RESUME is due */
	LINK_UP,
	LINK_TERMINAL,			/* its descriptors are the owner's to
					 * take; agent: TERMINAL opened, host:
					 * the answer did */
	LINK_CLOSED,			/* CLOSE arrived, the end of input, or
					 * another link took over */
	LINK_FAILED			/* link_error() says why */
};

/* argv of the agent, and so what both ends agree on. */
struct link_terms {
	char versions[LINK_VERSIONS + 1];
	char token[LINK_TOKEN + 1];
	char session[LINK_SESSION + 1];
	uint32_t number;
	uint8_t host_key[SEAL_KEY];
};

struct link_config {
	struct link_terms terms;	/* host: versions, session, number */
	struct session *session;	/* borrowed */
	struct seal_secret *secret;	/* borrowed, outlives the link */
	struct seal *seal;		/* host: owned from now on */
	int in, out;			/* owned from now on, may be equal */
	uint32_t ping_ms, dead_ms;	/* host; 0: the defaults */
	uint32_t linger_ms;		/* host: the core's, without a link */
	uint32_t *committed;		/* agent: borrowed, highest number so
					 * far whose RESUME opened */
	uint8_t unlinked;		/* agent: for READY */
	bool switches, terminals;	/* likewise */
	bool hands_over;		/* host: get its terminal, no session;
					 * agent: give that too, if asked */
};

/*
 * Host: fresh token and key pair into config->terms and config->seal, before
 * the transport is started with them.  0, or -1 with errno.
 */
int link_prepare(struct link_config *config);

/* Our range as VERSIONS; the highest version in common with theirs, or 0. */
void link_our_versions(char out[LINK_VERSIONS + 1]);
unsigned link_common_version(const char *theirs);

/* An agent's hello for these terms, with this public key. */
void link_format_hello(const struct link_terms *terms, const uint8_t *key,
    uint8_t out[LINK_HELLO]);

/* Parse argv's five words (agent); 0, or -1: *what names the bad word. */
int link_parse_terms(struct link_terms *terms, char *const words[5],
    const char **what);

/*
 * A link over config->in and ->out, which it owns from now on, also on
 * failure (NULL with errno).  The agent's sends hello and READY at once.
 */
struct link *link_new_host(struct link_config *config);
struct link *link_new_agent(struct link_config *config);
/* Close the descriptors, wipe the keys; NULL is fine. */
void link_free(struct link *link);
/* In a child: wipe the keys and close the descriptors. */
void link_wipe(struct link *link);

/* One turn of a loop: say what to wait for, then act on it. */
void link_interest(struct link *link, struct pollset *set);
void link_run(struct link *link, const struct pollset *set);

/*
 * In LINK_TERMINAL.  Agent: seal the answer, error an errno or 0, and write
 * it; 0, or -1 if it was not written whole.
 */
int link_answer_terminal(struct link *link, uint32_t error);
/*
 * Both: the descriptors become the caller's, and the link is only to be
 * freed.  Nothing of what it has read is theirs.
 */
void link_take_terminal(struct link *link, int *in, int *out);

/* Push out what is ready now; link_run() does it too. */
void link_flush(struct link *link);

/*
 * Send CLOSE with the next write: for the session, or only for the link; the
 * core then waits park_s (WIRE_PARK_EVER: for ever) for another.
 */
void link_close(struct link *link, bool session, uint32_t park_s);
/*
 * Agent, once the link has ended: for how long the session may wait for
 * another (clock.h), CLOCK_NEVER: for ever, 0: it is over.
 */
uint64_t link_stay(const struct link *link);
/* Agent: RESUME opened and was the newest, whatever came of it. */
bool link_committed(const struct link *link);

enum link_state link_state(const struct link *link);
/* Why it is LINK_FAILED or LINK_CLOSED; never NULL. */
const struct error *link_error(const struct link *link);
/* The far end closed the session too. */
bool link_session_closed(const struct link *link);
/* Whether all that was sealed is written; an ACK may still be due. */
bool link_drained(const struct link *link);
/* READY's fields, valid from LINK_RESUME_WAIT on (host). */
const struct wire_ready *link_ready(const struct link *link);
/* Host: an agent with our token answered, but with these versions. */
const char *link_wrong_version(const struct link *link);
/* Bytes before the hello, the first and last of them: for messages. */
size_t link_noise(const struct link *link, const uint8_t **head,
    size_t *head_len, const uint8_t **tail, size_t *tail_len);
/* What the next PONGs say of us, and what the last one said of the far end. */
void link_set_busy(struct link *link, bool busy);
bool link_peer_busy(const struct link *link);
/* Ask now, and when the last PONG came (clock.h, 0: never). */
void link_ping(struct link *link);
uint64_t link_pong_at(const struct link *link);
/* Last measured PING round trip in microseconds, 0: none yet. */
uint64_t link_rtt(const struct link *link);

#endif
