/* SPDX-License-Identifier: MIT */
/*
 * peer.h - one client's connection to the controller.
 *
 * Hostile until proven otherwise: only our own uid gets in, and whatever it
 * sends can end only its own connection.  When it goes, its jobs end.
 */
#ifndef PEER_H
#define PEER_H

#include <sys/types.h>

#include "env.h"
#include "hub.h"
#include "plain.h"
#include "seal.h"
#include "target.h"
#include "transport.h"

#define PEER_HELLO_MS 10000u	/* from accept to HELLO */

struct peer {
	struct list link;		/* in hub->peers */
	struct hub *hub;
	struct plain *plain;
	struct session *session;
	struct env *env;		/* NULL before HELLO */
	struct target target;
	struct sandbox *sandbox;	/* held: whose bare name was given */
	const struct transport *transport;	/* NULL: no target */
	struct error error;		/* why its requests fail */
	uint8_t alias[SEAL_KEY];	/* names the link it wants */
	uint64_t hello_by;
	uint64_t moved;			/* bytes in all, at the last look */
	bool dirty;			/* they moved since memory was freed */
	int fd;				/* plain's */
	pid_t pid;
	uint16_t version;		/* the common one, 0: none */
	bool greeted, strict, refused, closing;
	bool aimed;			/* HELLO named a target */
	bool same_program;		/* HELLO named this version */
};

/* Take over an accepted descriptor; on failure it is closed and logged. */
void peer_accept(struct hub *hub, int fd);

/*
 * Where its requests go, from its environment and this word; why they do not
 * is peer->error, transport is NULL then.
 */
void peer_take_target(struct peer *peer, struct wire_bytes text);

/*
 * For hub->successor: hand over if nothing is under way any more, or if it
 * has waited long enough for what is; or say why not.
 */
void peer_make_way(struct hub *hub);

void peer_interest(struct peer *peer, struct pollset *set);
void peer_run(struct peer *peer, const struct pollset *set);
/* Give memory back if nothing moved since the last call; true: call again. */
bool peer_trim(struct peer *peer);
/* Whether it is gone or done with. */
bool peer_over(const struct peer *peer);
/* Abandon its requests and free it. */
void peer_free(struct peer *peer);

#endif
