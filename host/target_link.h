/* SPDX-License-Identifier: MIT */
/*
 * target_link.h - one link identity: bring-up, requests, loss, idleness.
 *
 * The identity is the scheme, the container, the transport's program and the
 * client's variables that select a target.  A link is found by an alias (the
 * target's name as one kind of client gives it), which is resolved once in
 * the link's life.  It starts with the first request, tries the agent in the
 * image and injects ours if that fails.  When its transport is lost it gets
 * another one, with the same session; when that does not work it ends for
 * good, and the next request makes a new one, after the old child has been
 * reaped.
 */
#ifndef TARGET_LINK_H
#define TARGET_LINK_H

#include "carrier.h"
#include "env.h"
#include "hub.h"
#include "peer.h"
#include "relay.h"
#include "starter.h"

#define TARGET_LINK_ALIASES 16u
#define TARGET_LINK_LOG_LINES 100u	/* of an agent's, in a minute */
#define TARGET_LINK_CLOSE_MS 2000u	/* from CLOSE to the kill */
#define TARGET_LINK_LAST_MS 4000u	/* for a link only to say CLOSE */

enum target_link_state {
	TARGET_LINK_RESOLVING,
	TARGET_LINK_BLOCKED,	/* another's child must be reaped first */
	TARGET_LINK_STARTING,	/* a child runs, no READY yet */
	TARGET_LINK_INJECTING,
	TARGET_LINK_UP,
	TARGET_LINK_RELINKING,	/* the session goes on without a link */
	TARGET_LINK_PARKED,	/* the same, until somebody wants one */
	TARGET_LINK_CLOSING,	/* takes no request from here on */
	TARGET_LINK_DYING,
	TARGET_LINK_GONE
};

enum relink_phase {
	RELINK_WAITING,		/* for next_at and the last child's end */
	RELINK_INJECTING,
	RELINK_DIALLING,	/* a stub is on its way to the core */
	RELINK_LOOKING		/* what has become of the place? */
};

/* The way from one link of a session to the next. */
struct relink {
	enum relink_phase phase;
	uint64_t since;			/* lost, and nothing moved since */
	uint64_t lost_at, next_at, delay;
	uint64_t progress;		/* session_progress() then */
	uint64_t until;			/* PARKED: the core's end; ending:
					 * of all attempts */
	unsigned attempts;
	uint64_t healed;		/* links after the first, in all */
	bool unreachable;		/* nobody could say what became of it */
	struct error cause, failure;	/* of the loss, of the last attempt */
};

struct target_link {
	struct list link;		/* in hub->links */
	struct hub *hub;
	enum target_link_state state;
	struct target target;
	const struct transport *transport;
	struct transport_place place;
	struct env *env;
	struct sandbox *sandbox;	/* held; NULL: named by its scheme */
	uint8_t identity[SEAL_KEY];
	uint8_t aliases[TARGET_LINK_ALIASES][SEAL_KEY];
	unsigned alias_count;
	struct list relays;
	struct list terminals;		/* struct terminal */
	struct list closers;		/* struct relay: STOP of this link */
	uint32_t number;		/* of the last attempt at a link */
	struct session *session;
	struct session_budget budget;
	struct seal_secret *secret;
	struct starter starter;
	struct carrier carrier;
	struct starter remover;
	bool removing;			/* remover is at work */
	bool removed;			/* it has done it */
	bool stuck;			/* facts.agent could not be removed */
	bool clearing;			/* it is, before relink.cause is told */
	bool injected;
	bool stays;			/* an agent cannot remove its file */
	bool retreating;		/* from root to the image's user */
	struct relink relink;
	bool adopted;			/* its facts.id is to be found again */
	bool parking;			/* the core has yet to agree */
	bool ending;			/* a link only to say CLOSE */
	bool left;			/* see target_link_left() */
	bool new_agent;			/* for every result of its session */
	bool used;			/* the record on disk says so */
	uint64_t begun, idle_since;
	uint64_t left_at;		/* a job went on without its client */
	uint64_t requests;
	uint64_t moved;			/* bytes in all, at the last look */
	uint64_t log_since;		/* the agent's lines since then */
	unsigned log_lines;
	bool dirty;			/* they moved since memory was freed */
	char session_id[LINK_SESSION + 1];
	char failed[256];		/* why the image's agent did not do */
};

/* The link for what this client wants, made if need be; NULL + *error. */
struct target_link *target_link_find(struct peer *peer, struct error *error);

/* A request for it; answered sooner or later. */
void target_link_submit(struct target_link *link, struct relay *relay);

void target_link_interest(struct target_link *link, struct pollset *set);
void target_link_run(struct target_link *link, const struct pollset *set);

/* Whether jobs live there that no client waits for, as far as is known. */
bool target_link_left(const struct target_link *link);

/* Where a later agent would be trusted less than this one. */
bool target_link_prized(const struct target_link *link);

/* Whether a request may still join. */
bool target_link_takes(const struct target_link *link);

/* Give memory back if nothing moved since the last call; true: call again. */
bool target_link_trim(struct target_link *link);

/*
 * A session that another controller can go on with: as LIVE, whose strings
 * are borrowed but for env's, until target_link_undescribe(); then it is no
 * longer ours.
 */
bool target_link_can_go(const struct target_link *link);
void target_link_describe(struct target_link *link, struct wire_live *live,
    uint8_t secret[SEAL_KEY]);
void target_link_undescribe(struct wire_live *live);
void target_link_let_go(struct target_link *link);
/* Another controller's: 0, or -1 with *error. */
int target_link_adopt(struct hub *hub, const struct wire_live *live,
    struct error *error);

/*
 * For STOP of one target: close the links that this client's target has, and
 * answer relay when they are gone.
 */
void target_link_stop(struct peer *peer, struct relay *relay);

/* Close in good order, for the reason that requests under way are told. */
void target_link_close(struct target_link *link, const struct error *error);
/* Only in state TARGET_LINK_GONE. */
void target_link_free(struct target_link *link);
/* Everything at once, without a wait: the controller ends. */
void target_link_kill(struct target_link *link);

const char *target_link_words(enum target_link_state state);

#endif
