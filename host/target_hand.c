/* SPDX-License-Identifier: MIT */
/* target_hand.c - a link's session as another controller can go on with it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "items.h"
#include "log.h"
#include "target_link.h"
#include "target_link_private.h"

bool
target_link_can_go(const struct target_link *link)
{
	struct session_rest rest;

	return link->state >= TARGET_LINK_UP &&
	    link->state <= TARGET_LINK_PARKED && !link->ending &&
	    !link->parking && list_empty(&link->relays) && list_empty(&link->terminals) &&
	    session_rest(link->session, &rest) == 0;
}

static uint32_t
flags_of(const struct target_link *link)
{
	return (link->new_agent ? WIRE_LIVE_NEW_AGENT : 0u) |
	    (link->injected ? WIRE_LIVE_INJECTED : 0u) |
	    (link->stays ? WIRE_LIVE_STAYS : 0u) |
	    (link->place.as_image ? WIRE_LIVE_AS_IMAGE : 0u) |
	    (link->used ? WIRE_LIVE_USED : 0u) |
	    (target_link_left(link) ? WIRE_LIVE_LEFT : 0u) |
	    (link->state == TARGET_LINK_PARKED ? WIRE_LIVE_PARKED : 0u);
}

/* Until a parked core's end, in whole seconds. */
static uint32_t
wait_of(const struct target_link *link)
{
	uint64_t now = clock_now(), until = link->relink.until;

	if (until == CLOCK_NEVER) {
		return WIRE_PARK_EVER;
	}
	return until <= now ? 0 : (uint32_t)((until - now) /
	    (1000u * CLOCK_MS));
}

void
target_link_describe(struct target_link *link, struct wire_live *live,
    uint8_t secret[SEAL_KEY])
{
	struct session_rest rest;
	struct items env = { 0 };
	char *const *entry;

	session_rest(link->session, &rest);
	seal_secret_get(link->secret, secret);
	for (entry = link->env->all; *entry != NULL; entry++) {
		items_text(&env, *entry);
	}
	*live = (struct wire_live){
		.flags = flags_of(link), .number = link->number,
		.last = rest.last, .next = rest.next,
		.expected = rest.expected, .wait_s = wait_of(link),
		.session = wire_string(link->session_id),
		.secret = { secret, SEAL_KEY },
		.target = wire_string(link->sandbox != NULL ?
		    link->sandbox->name : target_link_name(link)),
		.place = wire_string(link->place.facts.id),
		.env = items_list(&env)
	};
}

void
target_link_undescribe(struct wire_live *live)
{
	free((void *)(uintptr_t)live->env.raw.at);
	live->env = (struct wire_list){ 0 };
}

void
target_link_let_go(struct target_link *link)
{
	struct error error;

	log_write(LOG_NOTE, "%s: handed over", target_link_name(link));
	error_set(&error, WIRE_STEP_SHUTDOWN, 0, "handed over");
	target_link_abandon(link, &error);
}

static int
text(struct wire_bytes from, char *out, size_t cap)
{
	if (from.len >= cap || memchr(from.at, '\0', from.len) != NULL) {
		return -1;
	}
	memcpy(out, from.at, from.len);
	out[from.len] = '\0';
	return 0;
}

static bool
have_session(const struct hub *hub, const char *id)
{
	const struct list *l;

	for (l = hub->links.next; l != &hub->links; l = l->next) {
		if (strcmp(LIST_OF(l, const struct target_link, link)->
		    session_id, id) == 0) {
			return true;
		}
	}
	return false;
}

/* A link for it, whose place is not known again yet; NULL with *error. */
static struct target_link *
new_link(struct hub *hub, const struct wire_live *live, struct error *error)
{
	struct peer peer = { .hub = hub, .env = env_new(live->env, error) };
	struct target_link *link = NULL;
	char name[TARGET_TEXT_MAX];

	if (peer.env == NULL) {
		return NULL;
	}
	peer_take_target(&peer, live->target);
	if (peer.transport == NULL) {
		*error = peer.error;
	} else if (hub->link_count >= HUB_LINKS ||
	    (link = target_link_new(&peer)) == NULL) {
		target_format(&peer.target, name);
		error_set(error, WIRE_STEP_BUSY, 0, "%s: no room for it",
		    name);
	}
	env_release(peer.env);
	sandbox_release(peer.sandbox);
	return link;
}

static void
fill(struct target_link *link, const struct wire_live *live)
{
	const struct session_rest rest = { live->next, live->expected,
	    live->last };
	uint32_t flags = live->flags;

	session_adopt(link->session, &rest);
	seal_secret_set(link->secret, live->secret.at);
	link->number = live->number;
	link->new_agent = (flags & WIRE_LIVE_NEW_AGENT) != 0;
	link->injected = (flags & WIRE_LIVE_INJECTED) != 0;
	link->stays = (flags & WIRE_LIVE_STAYS) != 0;
	link->place.as_image = (flags & WIRE_LIVE_AS_IMAGE) != 0;
	link->used = (flags & WIRE_LIVE_USED) != 0;
	link->left = (flags & WIRE_LIVE_LEFT) != 0;
	if ((flags & WIRE_LIVE_PARKED) != 0) {
		link->relink.until = live->wait_s == WIRE_PARK_EVER ?
		    CLOCK_NEVER : clock_now() + live->wait_s *
		    UINT64_C(1000) * CLOCK_MS;
	}
	link->adopted = true;
}

int
target_link_adopt(struct hub *hub, const struct wire_live *live,
    struct error *error)
{
	char id[TRANSPORT_ID_MAX], session[LINK_SESSION + 1];
	uint8_t scratch[LINK_SESSION / 2];
	struct target_link *link;

	error_set(error, WIRE_STEP_PROTOCOL, 0, "it cannot be read");
	if (live->secret.len != SEAL_KEY || live->number == 0 ||
	    live->session.len != LINK_SESSION ||
	    text(live->session, session, sizeof(session)) < 0 ||
	    seal_unhex(session, scratch, sizeof(scratch)) < 0 ||
	    text(live->place, id, sizeof(id)) < 0 ||
	    have_session(hub, session)) {
		return -1;
	}
	link = new_link(hub, live, error);
	if (link == NULL) {
		return -1;
	}
	strcpy(link->session_id, session);
	strcpy(link->place.facts.id, id);
	fill(link, live);
	starter_begin(&link->starter, STARTER_RESOLVE, link->transport,
	    &link->place);
	return 0;
}
