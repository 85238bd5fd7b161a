/* SPDX-License-Identifier: MIT */
/* target_link.c - a link's life: requests, loss, idleness, its end. */
#include "target_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "target_link_private.h"
#include "terminal.h"

#define BLOCKED_TICK (50u * CLOCK_MS)

static const char *const words[] = {
	[TARGET_LINK_RESOLVING] = "resolving",
	[TARGET_LINK_BLOCKED] = "waiting",
	[TARGET_LINK_STARTING] = "starting",
	[TARGET_LINK_INJECTING] = "injecting",
	[TARGET_LINK_UP] = "up",
	[TARGET_LINK_RELINKING] = "re-linking",
	[TARGET_LINK_PARKED] = "parked",
	[TARGET_LINK_CLOSING] = "closing",
	[TARGET_LINK_DYING] = "ending",
	[TARGET_LINK_GONE] = "gone"
};

const char *
target_link_words(enum target_link_state state)
{
	return words[state];
}

const char *
target_link_name(const struct target_link *link)
{
	static char text[TARGET_TEXT_MAX];

	target_format(&link->target, text);
	return text;
}

bool
target_link_takes(const struct target_link *link)
{
	return link->state < TARGET_LINK_CLOSING && !link->ending;
}

/* ---- finding ---------------------------------------------------------- */

static struct target_link *
by_alias(struct hub *hub, const uint8_t *alias)
{
	struct target_link *link;
	struct list *l;
	unsigned i;

	for (l = hub->links.next; l != &hub->links; l = l->next) {
		link = LIST_OF(l, struct target_link, link);
		for (i = 0; target_link_takes(link) && i < link->alias_count;
		    i++) {
			if (memcmp(link->aliases[i], alias, SEAL_KEY) == 0) {
				return link;
			}
		}
	}
	return NULL;
}

void
target_link_add_alias(struct target_link *link, const uint8_t *alias)
{
	unsigned at = link->alias_count;

	/* Forgetting one only means that it is resolved once more. */
	if (at == TARGET_LINK_ALIASES) {
		at = 1;
	} else {
		link->alias_count++;
	}
	memcpy(link->aliases[at], alias, SEAL_KEY);
}

int
target_link_renew(struct target_link *link)
{
	struct session_config config = {
		.events = &relay_agent_events, .ctx = link,
		.budget = &link->budget, .server = false, .stored = true
	};

	session_free(link->session);
	session_budget_free(&link->budget);
	seal_secret_free(link->secret);
	link->session = NULL;
	link->secret = NULL;
	if (session_budget_init(&link->budget, SESSION_REQUESTS) == 0) {
		link->session = session_new(&config);
		link->secret = seal_secret_new();
	}
	return link->session == NULL || link->secret == NULL ? -1 : 0;
}

struct target_link *
target_link_new(struct peer *peer)
{
	struct target_link *link = calloc(1, sizeof(*link));

	if (link == NULL) {
		return NULL;
	}
	list_init(&link->link);
	list_init(&link->relays);
	list_init(&link->terminals);
	list_init(&link->closers);
	starter_clear(&link->starter);
	carrier_clear(&link->carrier);
	starter_clear(&link->remover);
	link->hub = peer->hub;
	link->target = peer->target;
	link->transport = peer->transport;
	link->env = env_hold(peer->env);
	link->place.transport = peer->transport;
	link->place.target = peer->target;
	link->place.env = link->env->all;
	link->place.child_env = link->env->child;
	link->place.runtime = peer->hub->options->directory;
	link->sandbox = sandbox_hold(peer->sandbox);
	link->place.sandbox = link->sandbox;
	link->state = TARGET_LINK_RESOLVING;
	link->begun = clock_now();
	if (target_link_renew(link) == -1) {
		target_link_free(link);
		return NULL;
	}
	list_append(&peer->hub->links, &link->link);
	peer->hub->link_count++;
	return link;
}

struct target_link *
target_link_find(struct peer *peer, struct error *error)
{
	struct target_link *link;

	if (peer->transport == NULL) {
		*error = peer->error;
		return NULL;
	}
	link = by_alias(peer->hub, peer->alias);
	if (link != NULL) {
		return link;
	}
	if (peer->hub->link_count >= HUB_LINKS) {
		error_set(error, WIRE_STEP_BUSY, 0, "%u links are open "
		    "already", HUB_LINKS);
		return NULL;
	}
	link = target_link_new(peer);
	if (link == NULL) {
		error_set(error, WIRE_STEP_START, errno, "a link");
		return NULL;
	}
	target_link_add_alias(link, peer->alias);
	starter_begin(&link->starter, STARTER_RESOLVE, link->transport,
	    &link->place);
	log_write(LOG_DEBUG, "%s: looking it up", target_link_name(link));
	return link;
}

void
target_link_submit(struct target_link *link, struct relay *relay)
{
	relay->target = link;
	list_append(&link->relays, &relay->link);
	link->idle_since = 0;
	if (link->state == TARGET_LINK_PARKED) {
		target_relink_wake(link);
	} else if (target_start_ready(link)) {
		relay_begin(relay);
	}
}

/* ---- the end ---------------------------------------------------------- */

static void
fail_all(struct target_link *link, const struct error *error)
{
	while (!list_empty(&link->relays)) {
		relay_lost(LIST_OF(link->relays.next, struct relay, link),
		    error);
	}
}

/* Without a child that must be reaped there is nothing to wait for. */
static void
die(struct target_link *link, const struct error *error)
{
	link->hub->sessions_changed = true;
	fail_all(link, error);
	/* An injection ends by itself: only then is its file's name known. */
	if (link->state != TARGET_LINK_INJECTING ||
	    link->starter.state != STARTER_BUSY) {
		starter_stop(&link->starter);
	}
	carrier_kill(&link->carrier);
	link->state = TARGET_LINK_DYING;
}

/* It was never in the session that is over. */
static bool
unopened(const struct relay *relay)
{
	return relay->agent == NULL && relay->terminal == NULL &&
	    !relay->done && !relay->answered;
}

void
target_link_abandon(struct target_link *link, const struct error *error)
{
	struct list *l, *next, rest;
	struct target_link *other;
	struct relay *relay;
	struct error why;

	list_init(&rest);
	for (l = link->relays.next; l != &link->relays; l = next) {
		next = l->next;
		if (unopened(LIST_OF(l, struct relay, link))) {
			list_remove(l);
			list_append(&rest, l);
		}
	}
	die(link, error);
	while (!list_empty(&rest)) {
		relay = LIST_OF(rest.next, struct relay, link);
		list_remove(&relay->link);
		relay->target = NULL;
		other = link->hub->stopping ? NULL :
		    target_link_find(relay->peer, &why);
		if (other != NULL) {
			target_link_submit(other, relay);
		} else {
			relay_fail(relay, link->hub->stopping ? error : &why);
		}
	}
}

/* The way from DYING to GONE: child reaped, no file of ours left. */
static void
clear_away(struct target_link *link)
{
	if (link->starter.state == STARTER_BUSY || link->removing ||
	    link->carrier.state != CARRIER_NONE ||
	    !list_empty(&link->terminals)) {
		return;
	}
	if (link->starter.state == STARTER_DONE) {
		link->place.facts = link->starter.answer.facts;
		link->starter.state = STARTER_IDLE;
	}
	if (link->injected && link->carrier.up_at == 0) {
		/* It never ran, so it could not remove itself. */
		link->injected = false;
		target_start_remove(link);
	}
	if (!link->removing) {
		link->state = TARGET_LINK_GONE;
	}
}

void
target_link_log(const struct target_link *link, enum log_level level,
    const char *what, const struct error *error)
{
	const char *target = target_link_name(link);
	bool named = strncmp(error->text, target, strlen(target)) == 0;

	log_write(level, "%s%s%s%s%s%s", named ? "" : target,
	    named ? "" : ": ", what, error->text,
	    error->number != 0 ? ": " : "",
	    error->number != 0 ? strerror(error->number) : "");
}

void
target_link_give_up(struct target_link *link, const struct error *error)
{
	target_link_log(link, LOG_ERROR, "", error);
	die(link, error);
}

/* ---- being up --------------------------------------------------------- */

static void
lost(struct target_link *link)
{
	struct error error;

	carrier_blame(&link->carrier, target_link_name(link), &error);
	target_link_log(link, LOG_WARNING, "link lost: ", &error);
	/* What broke the session itself, another link does not mend. */
	if (link->carrier.error.step == WIRE_STEP_LINK &&
	    link->hub->options->linger_ms != 0) {
		target_relink_lost(link, &error);
	} else {
		die(link, &error);
	}
}

bool
target_link_prized(const struct target_link *link)
{
	return (link->transport->traits & TRANSPORT_SHARED_UID) != 0 &&
	    !link->new_agent;
}

/* For how long the core is to wait once its unused link is closed. */
static uint32_t
park_time(const struct target_link *link)
{
	uint32_t park_s = link->hub->options->park_s;

	if (park_s != CONTROLLER_PARK_TRUST) {
		return park_s;
	}
	return target_link_prized(link) ? WIRE_PARK_EVER : 0;
}

/* Whether an unused link may be closed, with its session or without. */
static bool
may_idle(const struct target_link *link)
{
	return park_time(link) != 0 || !target_link_prized(link);
}

bool
target_link_left(const struct target_link *link)
{
	const struct link *at = link->carrier.link;

	if (link->state != TARGET_LINK_UP || at == NULL) {
		return target_link_takes(link) && link->left;
	}
	return link_peer_busy(at) || link->left_at > link_pong_at(at);
}

static void
park(struct target_link *link)
{
	uint32_t park_s = park_time(link);
	uint64_t now = clock_now();

	carrier_park(&link->carrier, park_s, now +
	    TARGET_LINK_CLOSE_MS * (uint64_t)CLOCK_MS);
	link->relink.until = park_s == WIRE_PARK_EVER ? CLOCK_NEVER :
	    now + park_s * UINT64_C(1000) * CLOCK_MS;
	link->parking = true;
	link->state = TARGET_LINK_PARKED;
}

static void
look_idle(struct target_link *link, uint64_t now)
{
	uint64_t ms = link->hub->options->idle_link_ms;
	struct error none;
	int idle;

	if (session_count(link->session) > 0 || !list_empty(&link->relays)) {
		link->idle_since = 0;
		return;
	}
	if (link->idle_since == 0) {
		link->idle_since = now;
	}
	if (ms == 0 || !may_idle(link) ||
	    now - link->idle_since < ms * CLOCK_MS) {
		return;
	}
	idle = carrier_idle(&link->carrier, link->idle_since);
	if (idle == 0) {
		link->idle_since = 0;
	} else if (idle == 1) {
		log_write(LOG_NOTE, "%s: unused, closing", target_link_name(link));
		if (park_time(link) != 0) {
			park(link);
			return;
		}
		error_set(&none, WIRE_STEP_SHUTDOWN, 0, "idle");
		target_link_close(link, &none);
	}
}

bool
target_link_trim(struct target_link *link)
{
	struct session_figures figures;

	session_figures(link->session, &figures);
	if (figures.sent + figures.received != link->moved) {
		link->moved = figures.sent + figures.received;
		link->dirty = true;
	} else if (link->dirty) {
		link->dirty = false;
		session_trim(link->session);
	}
	return link->dirty;
}

void
target_link_close(struct target_link *link, const struct error *error)
{
	if (link->state == TARGET_LINK_PARKED) {
		/* Only over a link can it be told. */
		target_relink_wake(link);
	}
	if (link->state == TARGET_LINK_RELINKING) {
		fail_all(link, error);
		link->relink.cause = *error;
		link->relink.until = clock_now() +
		    TARGET_LINK_LAST_MS * (uint64_t)CLOCK_MS;
		link->ending = true;
		return;
	}
	if (link->state != TARGET_LINK_UP) {
		if (target_link_takes(link)) {
			die(link, error);
		}
		return;
	}
	fail_all(link, error);
	carrier_close(&link->carrier, clock_now() +
	    TARGET_LINK_CLOSE_MS * (uint64_t)CLOCK_MS);
	link->hub->sessions_changed = true;
	link->state = TARGET_LINK_CLOSING;
}

/* Whether it leads where the client's target is. */
static bool
leads_to(const struct target_link *link, const struct peer *peer)
{
	return strcmp(link->target.scheme, peer->target.scheme) == 0 &&
	    strcmp(link->target.name, peer->target.name) == 0 &&
	    (link->sandbox == NULL) == (peer->sandbox == NULL);
}

void
target_link_stop(struct peer *peer, struct relay *relay)
{
	struct target_link *link, *last = NULL;
	struct list *l, *next;
	struct error error;

	error_set(&error, WIRE_STEP_SHUTDOWN, 0, "`sandmux down`");
	for (l = peer->hub->links.next; l != &peer->hub->links; l = next) {
		link = LIST_OF(l, struct target_link, link);
		next = l->next;
		if (leads_to(link, peer) && link->state != TARGET_LINK_GONE) {
			target_link_close(link, &error);
			last = link;
		}
	}
	if (last == NULL) {
		relay_finish(relay);
	} else {
		list_append(&last->closers, &relay->link);
	}
}

void
target_link_interest(struct target_link *link, struct pollset *set)
{
	uint64_t ms = link->hub->options->idle_link_ms;

	starter_interest(&link->starter, set);
	starter_interest(&link->remover, set);
	carrier_interest(&link->carrier, set);
	terminals_interest(&link->terminals, set);
	if (link->state == TARGET_LINK_BLOCKED) {
		pollset_wake(set, clock_now() + BLOCKED_TICK);
	}
	target_relink_interest(link, set);
	if (link->state == TARGET_LINK_UP && link->idle_since != 0 &&
	    ms != 0 && may_idle(link) && link->carrier.asked <=
	    link->idle_since) {
		pollset_wake(set, link->idle_since + ms * CLOCK_MS);
	}
}

void
target_link_run(struct target_link *link, const struct pollset *set)
{
	starter_run(&link->starter, set);
	starter_run(&link->remover, set);
	carrier_run(&link->carrier, set);
	terminals_run(&link->terminals, set);
	target_start_check_removal(link);
	if (link->state < TARGET_LINK_UP) {
		target_start_run(link);
	}
	target_relink_run(link);
	if (link->state == TARGET_LINK_UP) {
		if (link->carrier.state != CARRIER_UP) {
			lost(link);
		} else {
			link->left = target_link_left(link);
			look_idle(link, clock_now());
		}
	}
	if (link->state == TARGET_LINK_CLOSING ||
	    link->state == TARGET_LINK_DYING) {
		clear_away(link);
	}
}

void
target_link_kill(struct target_link *link)
{
	struct error error;

	error_set(&error, WIRE_STEP_SHUTDOWN, 0, "the controller ended");
	die(link, &error);
	terminals_kill(&link->terminals);
	child_drop(&link->carrier.child);
	starter_stop(&link->remover);
	link->carrier.state = CARRIER_NONE;
	link->state = TARGET_LINK_GONE;
}

void
target_link_free(struct target_link *link)
{
	if (!list_empty(&link->link)) {
		list_remove(&link->link);
		link->hub->link_count--;
	}
	starter_stop(&link->starter);
	starter_stop(&link->remover);
	session_free(link->session);
	session_budget_free(&link->budget);
	seal_secret_free(link->secret);
	env_release(link->env);
	sandbox_release(link->sandbox);
	while (!list_empty(&link->closers)) {
		relay_finish(LIST_OF(link->closers.next, struct relay, link));
	}
	free(link);
}
