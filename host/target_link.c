/* SPDX-License-Identifier: MIT */
#include "target_link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "clock.h"
#include "log.h"
#include "trust.h"

#define BLOCKED_TICK (50u * CLOCK_MS)
#define BLOCKED_MAX (60000u * CLOCK_MS)

static const char *const words[] = {
	[TARGET_LINK_RESOLVING] = "resolving",
	[TARGET_LINK_BLOCKED] = "waiting",
	[TARGET_LINK_STARTING] = "starting",
	[TARGET_LINK_INJECTING] = "injecting",
	[TARGET_LINK_UP] = "up",
	[TARGET_LINK_CLOSING] = "closing",
	[TARGET_LINK_DYING] = "ending",
	[TARGET_LINK_GONE] = "gone"
};

const char *
target_link_words(enum target_link_state state)
{
	return words[state];
}

/* "docker:web", for messages. */
static const char *
name(const struct target_link *link)
{
	static char text[TARGET_TEXT_MAX];

	target_format(&link->target, text);
	return text;
}

static bool
takes_requests(const struct target_link *link)
{
	return link->state < TARGET_LINK_CLOSING;
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
		for (i = 0; takes_requests(link) && i < link->alias_count;
		    i++) {
			if (memcmp(link->aliases[i], alias, SEAL_KEY) == 0) {
				return link;
			}
		}
	}
	return NULL;
}

static void
add_alias(struct target_link *link, const uint8_t *alias)
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

/* Where jobs run, and by whose will: two identities never share an agent. */
static void
identify(struct target_link *link)
{
	const struct transport_facts *facts = &link->place.facts;
	uint8_t all[SEAL_KEY], item[SEAL_KEY], both[2 * SEAL_KEY];
	const char *parts[] = { link->target.scheme, facts->id,
	    facts->program };
	size_t i;

	memset(all, 0, sizeof(all));
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]) ||
	    link->env->all[i - 3] != NULL; i++) {
		const char *part = i < 3 ? parts[i] : link->env->all[i - 3];

		if (i >= 3 && !transport_identity_env(part)) {
			continue;
		}
		seal_hash(part, strlen(part), item);
		memcpy(both, all, SEAL_KEY);
		memcpy(both + SEAL_KEY, item, SEAL_KEY);
		seal_hash(both, sizeof(both), all);
	}
	memcpy(link->identity, all, SEAL_KEY);
}

static struct target_link *
target_link_new(struct peer *peer)
{
	struct target_link *link = calloc(1, sizeof(*link));
	struct session_config config = {
		.events = &relay_agent_events, .ctx = link,
		.server = false, .stored = true
	};

	if (link == NULL) {
		return NULL;
	}
	list_init(&link->link);
	list_init(&link->relays);
	starter_clear(&link->starter);
	carrier_clear(&link->carrier);
	child_clear(&link->remover);
	link->hub = peer->hub;
	link->target = peer->target;
	link->transport = peer->transport;
	link->env = env_hold(peer->env);
	link->place.target = peer->target;
	link->place.env = link->env->all;
	link->place.child_env = link->env->child;
	link->place.runtime = peer->hub->options->directory;
	link->state = TARGET_LINK_RESOLVING;
	link->begun = clock_now();
	config.budget = &link->budget;
	if (session_budget_init(&link->budget, SESSION_REQUESTS) == 0) {
		link->session = session_new(&config);
		link->secret = seal_secret_new();
	}
	if (link->session == NULL || link->secret == NULL) {
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
	add_alias(link, peer->alias);
	starter_begin(&link->starter, STARTER_RESOLVE, link->transport,
	    &link->place);
	log_write(LOG_DEBUG, "%s: looking it up", name(link));
	return link;
}

void
target_link_submit(struct target_link *link, struct relay *relay)
{
	relay->target = link;
	list_append(&link->relays, &relay->link);
	link->idle_since = 0;
	if (link->state == TARGET_LINK_STARTING ||
	    link->state == TARGET_LINK_INJECTING ||
	    link->state == TARGET_LINK_UP) {
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
	fail_all(link, error);
	starter_stop(&link->starter);
	carrier_kill(&link->carrier);
	link->state = TARGET_LINK_DYING;
}

/* A log line about a failure, whose text may name the target already. */
static void
log_error(const struct target_link *link, enum log_level level,
    const char *what, const struct error *error)
{
	const char *target = name(link);
	bool named = strncmp(error->text, target, strlen(target)) == 0;

	log_write(level, "%s%s%s%s%s%s", named ? "" : target,
	    named ? "" : ": ", what, error->text,
	    error->number != 0 ? ": " : "",
	    error->number != 0 ? strerror(error->number) : "");
}

/* Fail everything with an error that is worth a line in the log. */
static void
give_up(struct target_link *link, const struct error *error)
{
	log_error(link, LOG_ERROR, "", error);
	die(link, error);
}

/* Have an agent's file removed by whoever may; nobody waits for it. */
static void
remove_agent(struct target_link *link)
{
	const struct transport_facts *facts = &link->place.facts;
	struct argv *argv;
	struct child_spec spec = {
		.path = facts->program, .env = link->env->child,
		.in = -1, .out = -1, .err = -1
	};

	if (facts->agent[0] == '\0' || (facts->flags & TRANSPORT_KEEP) != 0 ||
	    link->transport->remove == NULL || link->removing) {
		return;
	}
	argv = malloc(sizeof(*argv));
	if (argv == NULL) {
		return;
	}
	argv_init(argv);
	link->transport->remove(&link->place, argv);
	argv_add(argv, facts->agent);
	argv_add(argv, "remove");
	spec.argv = argv_words(argv);
	link->removing = spec.argv != NULL &&
	    child_spawn(&link->remover, &spec) == 0;
	free(argv);
}

static void
check_removal(struct target_link *link)
{
	char ended[64];

	if (!link->removing || !link->remover.exited) {
		return;
	}
	link->removing = false;
	child_words(&link->remover, ended, sizeof(ended));
	log_write(link->remover.status == 0 ? LOG_NOTE : LOG_WARNING,
	    "%s: removal of %s %s", name(link), link->place.facts.agent,
	    ended);
}

/* ---- bring-up --------------------------------------------------------- */

static void
start(struct target_link *link)
{
	const struct controller_options *options = link->hub->options;
	const struct transport_facts *facts = &link->place.facts;
	bool baked = facts->agent[0] == '\0';
	uint8_t random[LINK_SESSION / 2];
	struct error error;
	struct carrier_spec spec = {
		.transport = link->transport, .place = &link->place,
		.agent = baked ? TRANSPORT_BAKED : facts->agent,
		.hash = baked || (facts->flags & TRANSPORT_KEEP) != 0 ?
		    NULL : facts->hash,
		.session = link->session, .secret = link->secret,
		.number = 1, .id = link->session_id,
		.ping_ms = options->ping_ms, .dead_ms = options->dead_ms,
		.hello_ms = options->hello_ms
	};

	seal_random(random, sizeof(random));
	seal_hex(random, sizeof(random), link->session_id);
	if (carrier_start(&link->carrier, &spec, &error) < 0) {
		give_up(link, &error);
		return;
	}
	log_write(LOG_DEBUG, "%s: starting %s, process %ld", name(link),
	    spec.agent, (long)link->carrier.child.pid);
	link->state = TARGET_LINK_STARTING;
}

/* Requests may go as soon as it is known where they would go. */
static void
begin_all(struct target_link *link)
{
	struct list *l, *next;

	for (l = link->relays.next; l != &link->relays; l = next) {
		next = l->next;
		relay_begin(LIST_OF(l, struct relay, link));
	}
}

static struct target_link *
twin(struct target_link *link)
{
	struct target_link *other;
	struct list *l;

	for (l = link->hub->links.next; l != &link->hub->links; l = l->next) {
		other = LIST_OF(l, struct target_link, link);
		if (other != link && other->state > TARGET_LINK_RESOLVING &&
		    memcmp(other->identity, link->identity, SEAL_KEY) == 0) {
			return other;
		}
	}
	return NULL;
}

/* It turned out to be one that we have: its requests move over. */
static void
merge(struct target_link *link, struct target_link *into)
{
	struct relay *relay;

	log_write(LOG_DEBUG, "%s: is the one that is %s", name(link),
	    words[into->state]);
	add_alias(into, link->aliases[0]);
	while (!list_empty(&link->relays)) {
		relay = LIST_OF(link->relays.next, struct relay, link);
		list_remove(&relay->link);
		target_link_submit(into, relay);
	}
	link->state = TARGET_LINK_GONE;
}

/* The container is known: join another link, wait for its end, or start. */
static void
locate(struct target_link *link)
{
	struct target_link *other = twin(link);
	struct error error;

	if (other != NULL && takes_requests(other) &&
	    link->state == TARGET_LINK_RESOLVING) {
		merge(link, other);
		return;
	}
	if (other != NULL && other->state >= TARGET_LINK_CLOSING) {
		link->state = TARGET_LINK_BLOCKED;
		if (clock_now() - link->begun > BLOCKED_MAX) {
			error_set(&error, WIRE_STEP_START, 0, "%s: the last "
			    "link's process %ld does not end, though it was "
			    "killed", name(link),
			    (long)other->carrier.child.pid);
			give_up(link, &error);
		}
		return;
	}
	start(link);
	if (link->state == TARGET_LINK_STARTING) {
		begin_all(link);
	}
}

static void
resolved(struct target_link *link)
{
	struct transport_facts *facts = &link->place.facts;
	bool shared = (link->transport->traits & TRANSPORT_SHARED_UID) != 0;

	*facts = link->starter.answer.facts;
	if (link->transport->learn != NULL) {
		link->transport->learn(facts);
	}
	identify(link);
	link->new_agent = shared &&
	    !trust_is_fresh(link->target.scheme, facts->id);
	locate(link);
}

static void
up(struct target_link *link)
{
	const struct carrier *c = &link->carrier;

	link->state = TARGET_LINK_UP;
	log_write(LOG_NOTE, "%s: up after %llu ms, uid %u, %s%s%s", name(link),
	    (unsigned long long)((c->up_at - link->begun) / CLOCK_MS),
	    (unsigned)c->ready.uid, link->injected ? "agent injected as " :
	    "agent ", link->place.facts.agent[0] != '\0' ?
	    link->place.facts.agent : TRANSPORT_BAKED,
	    link->new_agent ? ", new-agent" : "");
	if (c->ready.unlinked == WIRE_UNLINK_FAILED) {
		remove_agent(link);
	}
	begin_all(link);	/* those that only wait for the link */
}

/* No agent answered: put ours there, once, or say why that is no help. */
static void
attempt_failed(struct target_link *link)
{
	struct error error;

	carrier_blame(&link->carrier, name(link), &error);
	if (!link->injected && link->transport->inject != NULL &&
	    carrier_may_inject(&link->carrier)) {
		log_error(link, LOG_NOTE, "injecting, since ", &error);
		snprintf(link->failed, sizeof(link->failed), "%.255s",
		    error.text);
		link->injected = true;
		link->state = TARGET_LINK_INJECTING;
		starter_begin(&link->starter, STARTER_INJECT,
		    link->transport, &link->place);
		return;
	}
	give_up(link, &error);
	if (link->injected) {
		remove_agent(link);
	}
}

static void
injected(struct target_link *link)
{
	link->place.facts = link->starter.answer.facts;
	start(link);
}

/* ---- being up --------------------------------------------------------- */

static void
lost(struct target_link *link)
{
	struct error error;

	carrier_blame(&link->carrier, name(link), &error);
	log_error(link, LOG_WARNING, "link lost: ", &error);
	die(link, &error);
}

/*
 * Whether an unused link may be closed: where a later agent would be
 * trusted less than this one, it stays.
 */
static bool
may_idle(const struct target_link *link)
{
	return (link->transport->traits & TRANSPORT_SHARED_UID) == 0 ||
	    link->new_agent;
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
		log_write(LOG_NOTE, "%s: unused, closing", name(link));
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
	if (link->state != TARGET_LINK_UP) {
		if (takes_requests(link)) {
			die(link, error);
		}
		return;
	}
	fail_all(link, error);
	carrier_close(&link->carrier, clock_now() +
	    TARGET_LINK_CLOSE_MS * (uint64_t)CLOCK_MS);
	link->state = TARGET_LINK_CLOSING;
}

void
target_link_interest(struct target_link *link, struct pollset *set)
{
	uint64_t ms = link->hub->options->idle_link_ms;

	starter_interest(&link->starter, set);
	carrier_interest(&link->carrier, set);
	if (link->state == TARGET_LINK_BLOCKED) {
		pollset_wake(set, clock_now() + BLOCKED_TICK);
	}
	if (link->state == TARGET_LINK_UP && link->idle_since != 0 &&
	    ms != 0 && may_idle(link) && link->carrier.asked <=
	    link->idle_since) {
		pollset_wake(set, link->idle_since + ms * CLOCK_MS);
	}
}

static void
run_start(struct target_link *link)
{
	if (link->state == TARGET_LINK_BLOCKED) {
		locate(link);
		return;
	}
	if (link->state == TARGET_LINK_STARTING) {
		if (link->carrier.state == CARRIER_UP) {
			up(link);
		} else if (link->carrier.state == CARRIER_NONE) {
			attempt_failed(link);
		}
		return;
	}
	if (link->starter.state == STARTER_FAILED) {
		give_up(link, &link->starter.answer.error);
	} else if (link->starter.state == STARTER_DONE) {
		link->starter.state = STARTER_IDLE;
		if (link->state == TARGET_LINK_RESOLVING) {
			resolved(link);
		} else {
			injected(link);
		}
	}
}

void
target_link_run(struct target_link *link, const struct pollset *set)
{
	starter_run(&link->starter, set);
	carrier_run(&link->carrier, set);
	check_removal(link);
	if (link->state < TARGET_LINK_UP) {
		run_start(link);
	}
	if (link->state == TARGET_LINK_UP) {
		if (link->carrier.state != CARRIER_UP) {
			lost(link);
		} else {
			look_idle(link, clock_now());
		}
	}
	if (link->state >= TARGET_LINK_CLOSING && !link->removing &&
	    link->carrier.state == CARRIER_NONE) {
		link->state = TARGET_LINK_GONE;
	}
}

void
target_link_kill(struct target_link *link)
{
	struct error error;

	error_set(&error, WIRE_STEP_SHUTDOWN, 0, "the controller ended");
	die(link, &error);
	child_drop(&link->carrier.child);
	child_drop(&link->remover);
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
	child_drop(&link->remover);
	session_free(link->session);
	session_budget_free(&link->budget);
	seal_secret_free(link->secret);
	env_release(link->env);
	free(link);
}
