/* SPDX-License-Identifier: MIT */
/*
 * hub.h - what the controller's parts share: clients, links, the stop.
 *
 * Owned by controller.c; there is one.
 */
#ifndef HUB_H
#define HUB_H

#include <sys/types.h>

#include "controller.h"
#include "list.h"
#include "session.h"

#define HUB_PEERS 512u		/* clients served at once */
#define HUB_PEERS_REFUSED 32u	/* more that are told so */
#define HUB_LINKS 256u
#define HUB_REQUESTS 512u	/* of all clients together */
#define HUB_BODIES 4194304u	/* bytes of requests not sent on yet */

struct listener;

struct hub {
	const struct controller_options *options;
	struct list peers;		/* struct peer */
	struct list links;		/* struct target_link */
	struct list settle;		/* struct relay: an answer is due */
	struct list stops;		/* struct relay: STOP waits */
	unsigned peer_count, link_count;
	struct session_budget clients;
	uint64_t started;		/* clock.h */
	bool stopping;
	struct listener *listener;	/* borrowed */
	struct peer *successor;		/* waits until nothing is under way */
	uint64_t make_way_by, quiet_since;	/* clock.h */
	bool handed_over;		/* socket and sessions are another's */
	bool sessions_changed;		/* one has begun or ended */
	uint64_t requests, lost;	/* totals, for status */
};

/* End all links, answer, and leave the loop; safe to repeat. */
void hub_stop(struct hub *hub, const char *why);

/*
 * Requests of clients that are not answered yet, and links with jobs that no
 * client waits for: detached ones, and what others left behind.
 */
unsigned hub_busy(const struct hub *hub);

#endif
