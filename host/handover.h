/* SPDX-License-Identifier: MIT */
/*
 * handover.h - a controller makes way for another program's: lock, socket and
 * the sessions in which nothing is under way go over the client socket.
 *
 * The one that goes takes no new clients, waits a little for the requests
 * that are under way, and then does it in one piece, blocking, at a moment
 * when no client waits for anything; nothing is changed before the other one
 * has said that it has all of it.  Secrets go from memory to memory.
 */
#ifndef HANDOVER_H
#define HANDOVER_H

#include "hub.h"
#include "listener.h"

#define HANDOVER_MS 5000u		/* for all of it, on either side */
#define HANDOVER_DRAIN_MS 5000u		/* before, for what is under way */
#define HANDOVER_QUIET_MS 500u		/* for a client's next request */
#define HANDOVER_BUSY "under way"	/* words of the error that stays */

struct handover {
	int lock, fd;			/* owned, -1: none */
	unsigned count;
	uint8_t *frames[HUB_LINKS];	/* owned: LIVE, as they came */
	size_t lens[HUB_LINKS];
};

/*
 * Sessions that cannot be handed over just now and must not be ended for it:
 * jobs go on there, or a new agent would be trusted less.
 */
unsigned handover_held(const struct hub *hub);
/* All that cannot be handed over yet, and may soon be. */
unsigned handover_unsettled(const struct hub *hub);

/*
 * The old one: give fd's peer everything.  0: it has it, and what it has is
 * no longer ours; -1 with *error: all is as it was.
 */
int handover_give(struct hub *hub, struct listener *listener, int fd,
    struct error *error);

/*
 * The new one, before it has a loop: 0 with *handover, or -1 with *error: the
 * one there has requests under way, or is gone, or does not hand over, or has
 * not this pid (0: any).
 */
int handover_take(const char *directory, pid_t from,
    struct handover *handover, struct error *error);

/*
 * The same over fd, connected and borrowed, for this runtime directory.
 * Nothing of what the peer sends is believed: sizes and counts are checked
 * before memory, both descriptors before the answer.
 */
int handover_receive(int fd, const char *directory, pid_t from,
    struct handover *handover, struct error *error);
/* Close and wipe what was taken; safe on an empty one. */
void handover_free(struct handover *handover);

/*
 * Make links of what was taken; *handover is empty then, its descriptors are
 * the listener's.
 */
void handover_adopt(struct hub *hub, struct handover *handover);

#endif
