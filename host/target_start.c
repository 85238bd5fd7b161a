/* SPDX-License-Identifier: MIT */
/*
 * target_start.c - a link's bring-up: find the container, try the image's
 * agent, inject ours, and clear away its file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "target_link.h"
#include "target_link_private.h"
#include "trust.h"

#define BLOCKED_MAX (60000u * CLOCK_MS)

/* Where jobs run, and by whose will: two identities never share an agent. */
static void
identify(struct target_link *link)
{
	const struct transport_facts *facts = &link->place.facts;
	uint8_t all[SEAL_KEY], item[SEAL_KEY], both[2 * SEAL_KEY];
	const char *parts[] = { link->target.scheme, facts->id,
	    facts->program, link->sandbox != NULL ? link->sandbox->name : "" };
	const size_t fixed = sizeof(parts) / sizeof(parts[0]);
	size_t i;

	memset(all, 0, sizeof(all));
	for (i = 0; i < fixed || link->env->all[i - fixed] != NULL; i++) {
		const char *part = i < fixed ? parts[i] :
		    link->env->all[i - fixed];

		/* A sandbox is itself, from whatever terminal it is named. */
		if (i >= fixed && (!transport_identity_env(part) ||
		    (link->sandbox != NULL && (strncmp(part,
		    TRANSPORT_AGENT_USER_IS, strlen(TRANSPORT_AGENT_USER_IS))
		    != 0 || link->sandbox->agent_user != NULL)))) {
			continue;
		}
		seal_hash(part, strlen(part), item);
		memcpy(both, all, SEAL_KEY);
		memcpy(both + SEAL_KEY, item, SEAL_KEY);
		seal_hash(both, sizeof(both), all);
	}
	memcpy(link->identity, all, SEAL_KEY);
}

void
target_start_remove(struct target_link *link)
{
	const struct transport_facts *facts = &link->place.facts;

	if (facts->agent[0] == '\0' || (facts->flags & TRANSPORT_KEEP) != 0 ||
	    link->transport->remove == NULL || link->removing) {
		return;
	}
	starter_begin(&link->remover, STARTER_REMOVE, link->transport,
	    &link->place);
	link->removing = link->remover.state == STARTER_BUSY;
	link->stuck = !link->removing;
}

void
target_start_check_removal(struct target_link *link)
{
	if (!link->removing || link->remover.state == STARTER_BUSY) {
		return;
	}
	link->removing = false;
	link->removed = link->remover.state == STARTER_DONE;
	link->stuck = !link->removed;
	if (link->removed) {
		log_write(LOG_NOTE, "%s: %s is removed",
		    target_link_name(link), link->place.facts.agent);
	} else {
		target_link_log(link, LOG_WARNING, "",
		    &link->remover.answer.error);
	}
}

/* ---- bring-up --------------------------------------------------------- */

void
target_start_spec(struct target_link *link, struct carrier_spec *spec)
{
	const struct controller_options *options = link->hub->options;
	const struct transport_facts *facts = &link->place.facts;
	bool baked = facts->agent[0] == '\0';

	*spec = (struct carrier_spec){
		.transport = link->transport, .place = &link->place,
		.agent = baked ? transport_baked(&link->place) : facts->agent,
		.hash = baked || (facts->flags & TRANSPORT_KEEP) != 0 ?
		    NULL : facts->hash,
		.user = transport_default_user(&link->place),
		.groups = facts->groups,
		.keep_home = (facts->flags & TRANSPORT_HOME_SET) != 0,
		.session = link->session, .secret = link->secret,
		.number = link->number, .id = link->session_id,
		.ping_ms = options->ping_ms, .dead_ms = options->dead_ms,
		.hello_ms = options->hello_ms,
		.linger_ms = options->linger_ms
	};
}

static void
start(struct target_link *link)
{
	uint8_t random[LINK_SESSION / 2];
	struct carrier_spec spec;
	struct error error;

	link->number = 1;
	seal_random(random, sizeof(random));
	seal_hex(random, sizeof(random), link->session_id);
	target_start_spec(link, &spec);
	if (carrier_start(&link->carrier, &spec, &error) < 0) {
		target_link_give_up(link, &error);
		return;
	}
	log_write(LOG_DEBUG, "%s: starting %s, process %ld", target_link_name(link),
	    spec.agent, (long)link->carrier.child.pid);
	link->state = TARGET_LINK_STARTING;
}

/*
 * Requests may go as soon as it is known where they would go: with an agent
 * that starts as root that is when it has said what it can do.
 */
bool
target_start_ready(const struct target_link *link)
{
	return link->state == TARGET_LINK_UP ||
	    ((link->transport->traits & TRANSPORT_ROOT) == 0 &&
	    (link->state == TARGET_LINK_STARTING ||
	    link->state == TARGET_LINK_INJECTING));
}

void
target_start_begin_all(struct target_link *link)
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

/* One that may turn out to be it was handed over and is being looked up. */
static bool
adoption(const struct target_link *link)
{
	const struct list *l;

	for (l = link->hub->links.next; l != &link->hub->links; l = l->next) {
		const struct target_link *other = LIST_OF(l,
		    const struct target_link, link);

		if (other->adopted && other->transport == link->transport &&
		    other->state == TARGET_LINK_RESOLVING) {
			return true;
		}
	}
	return false;
}

/* It turned out to be one that we have: its requests move over. */
static void
merge(struct target_link *link, struct target_link *into)
{
	struct relay *relay;

	log_write(LOG_DEBUG, "%s: is the one that is %s", target_link_name(link),
	    target_link_words(into->state));
	target_link_add_alias(into, link->aliases[0]);
	while (!list_empty(&link->relays)) {
		relay = LIST_OF(link->relays.next, struct relay, link);
		list_remove(&relay->link);
		target_link_submit(into, relay);
	}
	link->state = TARGET_LINK_GONE;
}

static void
inject(struct target_link *link)
{
	link->injected = true;
	link->state = TARGET_LINK_INJECTING;
	link->place.facts.agent[0] = '\0';
	starter_begin(&link->starter, STARTER_INJECT, link->transport,
	    &link->place);
}

/* The container is known: join another link, wait for its end, or start. */
static void
locate(struct target_link *link)
{
	struct target_link *other = twin(link);
	struct error error;

	if (other != NULL && target_link_takes(other)) {
		merge(link, other);
		return;
	}
	if (other == NULL && adoption(link)) {
		link->state = TARGET_LINK_BLOCKED;
		return;
	}
	if (other != NULL) {
		link->state = TARGET_LINK_BLOCKED;
		if (clock_now() - link->begun > BLOCKED_MAX) {
			error_set(&error, WIRE_STEP_START, 0, "%s: the last "
			    "link's process %ld does not end, though it was "
			    "killed", target_link_name(link),
			    (long)other->carrier.child.pid);
			target_link_give_up(link, &error);
		}
		return;
	}
	if (transport_injects_first(&link->place) && !link->injected &&
	    link->transport->inject != NULL) {
		inject(link);
	} else {
		start(link);
	}
	if (target_start_ready(link)) {
		target_start_begin_all(link);
	}
}

/* The place of a session that another controller had. */
static void
found_again(struct target_link *link, const char *id)
{
	struct error error;

	link->adopted = false;
	link->hub->sessions_changed = true;
	if (strcmp(id, link->place.facts.id) != 0) {
		error_set(&error, WIRE_STEP_SANDBOX, 0, "%s: it is another "
		    "by now", target_link_name(link));
		target_link_log(link, LOG_ERROR, "", &error);
		target_link_abandon(link, &error);
		return;
	}
	if (link->relink.until != 0) {
		link->state = TARGET_LINK_PARKED;
		return;
	}
	error_set(&error, WIRE_STEP_LINK, 0, "%s: another controller had it",
	    target_link_name(link));
	target_relink_lost(link, &error);
}

static void
resolved(struct target_link *link)
{
	struct transport_facts *facts = &link->place.facts;
	bool shared = (link->transport->traits & TRANSPORT_SHARED_UID) != 0;
	char id[TRANSPORT_ID_MAX];

	memcpy(id, facts->id, sizeof(id));
	*facts = link->starter.answer.facts;
	if (link->transport->learn != NULL) {
		link->transport->learn(facts);
	}
	identify(link);
	if (link->adopted) {
		found_again(link, id);
		return;
	}
	link->place.as_image =
	    (link->transport->traits & TRANSPORT_ROOT) == 0 ||
	    (facts->flags & TRANSPORT_FORCE_IMAGE) != 0;
	link->new_agent = shared &&
	    !trust_is_fresh(link->target.scheme, facts->id);
	locate(link);
}

/* Whether the image's user could serve where root cannot. */
static bool
may_retreat(const struct target_link *link)
{
	return !link->place.as_image &&
	    (link->place.facts.flags & TRANSPORT_FORCE_ROOT) == 0 &&
	    transport_default_user(&link->place) != NULL;
}

static void
as_image(struct target_link *link, const struct error *why)
{
	target_link_log(link, LOG_NOTE, "starting again as the image's user, "
	    "since ", why);
	link->place.as_image = true;
}

/*
 * Root that cannot become the user that jobs are to have is no use: that
 * user's own agent takes its place.  No request has gone to this one.
 */
static void
retreat(struct target_link *link)
{
	log_write(LOG_NOTE, "%s: root cannot become other users there, so "
	    "the agent starts again as %s", target_link_name(link),
	    link->place.facts.user);
	carrier_close(&link->carrier, clock_now() +
	    TARGET_LINK_CLOSE_MS * (uint64_t)CLOCK_MS);
	link->retreating = true;
}

/* The root agent's process is reaped. */
static void
retreated(struct target_link *link)
{
	struct error error;

	link->retreating = false;
	link->place.as_image = true;
	if (target_link_renew(link) == -1) {
		error_set(&error, WIRE_STEP_START, errno, "a session");
		target_link_give_up(link, &error);
	} else if (link->carrier.ready.unlinked == WIRE_UNLINK_DONE) {
		/* It has removed what we had injected. */
		inject(link);
	} else {
		start(link);
	}
}

static void
up(struct target_link *link)
{
	const struct carrier *c = &link->carrier;

	if (!c->ready.switches && may_retreat(link)) {
		retreat(link);
		return;
	}
	link->state = TARGET_LINK_UP;
	link->hub->sessions_changed = true;
	log_write(LOG_NOTE, "%s: up after %llu ms, uid %u, %s%s%s", target_link_name(link),
	    (unsigned long long)((c->up_at - link->begun) / CLOCK_MS),
	    (unsigned)c->ready.uid, link->injected ? "agent injected as " :
	    "agent ", link->place.facts.agent[0] != '\0' ?
	    link->place.facts.agent : transport_baked(&link->place),
	    link->new_agent ? ", new-agent" : "");
	link->stays = c->ready.unlinked == WIRE_UNLINK_FAILED;
	if (link->stays) {
		target_start_remove(link);
	}
	target_start_begin_all(link);	/* those that only wait for the link */
}

/* Ours did not run: it goes before the reason is told, or is named there. */
static void
take_back(struct target_link *link, const struct error *why)
{
	link->injected = false;
	target_start_remove(link);
	link->clearing = link->removing;
	link->relink.cause = *why;
	if (!link->clearing) {
		target_link_give_up(link, why);
	}
}

static void
taken_back(struct target_link *link)
{
	struct error *why = &link->relink.cause;
	size_t used = strlen(why->text);

	link->clearing = false;
	if (link->stuck) {
		snprintf(why->text + used, sizeof(why->text) - used, "; and "
		    "%.400s", link->remover.answer.error.text);
	}
	target_link_give_up(link, why);
}

/* No agent answered: put ours there, once, or say why that is no help. */
static void
attempt_failed(struct target_link *link)
{
	struct error error;

	carrier_blame(&link->carrier, target_link_name(link), &error);
	if (!link->injected && link->transport->inject != NULL &&
	    transport_may_inject(&link->place) &&
	    carrier_may_inject(&link->carrier)) {
		target_link_log(link, LOG_NOTE, "injecting, since ", &error);
		snprintf(link->failed, sizeof(link->failed), "%.255s",
		    error.text);
		inject(link);
		return;
	}
	if (may_retreat(link) && carrier_may_inject(&link->carrier)) {
		/* Root without privilege may not even enter the directory. */
		as_image(link, &error);
		start(link);
		return;
	}
	if (link->injected) {
		take_back(link, &error);
	} else {
		target_link_give_up(link, &error);
	}
}

/* No container found, or no agent put there. */
static void
not_put(struct target_link *link)
{
	const struct error *error = &link->starter.answer.error;

	if (link->state == TARGET_LINK_INJECTING && may_retreat(link)) {
		/* The image may have one that only root could not start. */
		as_image(link, error);
		link->injected = false;
		link->starter.state = STARTER_IDLE;
		start(link);
		return;
	}
	target_link_give_up(link, error);
}

static void
injected(struct target_link *link)
{
	link->place.facts = link->starter.answer.facts;
	start(link);
}

void
target_start_run(struct target_link *link)
{
	if (link->state == TARGET_LINK_BLOCKED) {
		locate(link);
		return;
	}
	if (link->state == TARGET_LINK_STARTING) {
		if (link->clearing) {
			if (!link->removing) {
				taken_back(link);
			}
		} else if (link->retreating) {
			if (link->carrier.state == CARRIER_NONE) {
				retreated(link);
			}
		} else if (link->carrier.state == CARRIER_UP) {
			up(link);
		} else if (link->carrier.state == CARRIER_NONE) {
			attempt_failed(link);
		}
		return;
	}
	if (link->starter.state == STARTER_FAILED) {
		not_put(link);
	} else if (link->starter.state == STARTER_DONE) {
		link->starter.state = STARTER_IDLE;
		if (link->state == TARGET_LINK_RESOLVING) {
			resolved(link);
		} else {
			injected(link);
		}
	}
}
