/* SPDX-License-Identifier: MIT */
/*
 * target_relink.c - a session without a link: how it gets another one, and
 * what is said when it does not.
 *
 * An attempt is the way of a further stub to the core (PROTOCOL.md, "Moving a
 * session").  After one that failed the transport is asked what became of the
 * place, so that each outcome has its own error.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "target_link.h"
#include "target_link_private.h"

#define DELAY_FIRST (100u * CLOCK_MS)
#define DELAY_QUICK (1000u * CLOCK_MS)	/* at most, after a link that worked */
#define DELAY_MOST (5000u * CLOCK_MS)
#define STEADY (10000u * CLOCK_MS)	/* a link that lived so long is good */

static uint64_t
linger(const struct target_link *link)
{
	return link->hub->options->linger_ms * (uint64_t)CLOCK_MS;
}

/* From then on the core has surely given up, however late it noticed. */
static uint64_t
give_up_at(const struct target_link *link)
{
	const struct controller_options *options = link->hub->options;
	uint64_t dead = options->dead_ms != 0 ? options->dead_ms :
	    LINK_DEAD_MS;

	return link->ending ? link->relink.until :
	    link->relink.since + linger(link) + dead * CLOCK_MS;
}

/* ---- the beginning -------------------------------------------------------- */

static uint64_t
longer(uint64_t delay, uint64_t most)
{
	return delay == 0 ? DELAY_FIRST : delay * 2 < most ? delay * 2 : most;
}

/*
 * A link that moves nothing before it dies is no new start; one that does,
 * over and over, may be somebody's doing and must not keep us busy.
 */
static void
note_loss(struct target_link *link, uint64_t now)
{
	struct relink *r = &link->relink;
	uint64_t progress = session_progress(link->session);
	bool moved = progress != r->progress;
	bool steady = link->carrier.up_at != 0 &&
	    now - link->carrier.up_at >= STEADY;

	if (r->since == 0 || steady) {
		r->delay = 0;
	} else {
		r->delay = longer(r->delay, moved ? DELAY_QUICK : DELAY_MOST);
	}
	if (r->since == 0 || steady || moved) {
		r->since = now;
		r->attempts = 0;
	}
	r->progress = progress;
	r->next_at = now + r->delay;
	r->lost_at = now;
	r->unreachable = false;
	r->phase = RELINK_WAITING;
	r->failure = (struct error){ .step = WIRE_STEP_NONE };
}

/* Whether something there goes on, or a new agent would be worth less. */
static bool
matters(const struct target_link *link)
{
	return session_count(link->session) > 0 ||
	    !list_empty(&link->relays) || link->left ||
	    target_link_prized(link);
}

void
target_relink_lost(struct target_link *link, const struct error *cause)
{
	link->relink.cause = *cause;
	note_loss(link, clock_now());
	link->idle_since = 0;
	link->state = TARGET_LINK_RELINKING;
	if (!matters(link)) {
		/* The next request will find out whether it is still there. */
		link->state = TARGET_LINK_PARKED;
		link->relink.until = give_up_at(link);
	}
}

void
target_relink_wake(struct target_link *link)
{
	uint64_t now = clock_now();

	link->relink.since = 0;
	note_loss(link, now);
	carrier_kill(&link->carrier);
	link->parking = false;
	link->state = TARGET_LINK_RELINKING;
}

/* ---- the end ---------------------------------------------------------------- */

static void
healed(struct target_link *link)
{
	struct relink *r = &link->relink;
	uint64_t now = clock_now();

	log_write(LOG_NOTE, "%s: linked again after %llu ms, link %u, attempt "
	    "%u", target_link_name(link),
	    (unsigned long long)((now - r->lost_at) / CLOCK_MS),
	    (unsigned)link->number, r->attempts);
	r->healed++;
	link->state = TARGET_LINK_UP;
	link->left_at = link->left ? now : 0;
	if (link->stays) {
		target_start_remove(link);
	}
	if (link->ending) {
		target_link_close(link, &r->cause);
		return;
	}
	target_start_begin_all(link);
}

/* In words: for the one who asked, and for the log. */
static void
give_up(struct target_link *link, enum wire_step step, const char *what)
{
	struct relink *r = &link->relink;
	uint64_t s = (clock_now() - r->since) / (1000 * CLOCK_MS);
	struct error error;

	if (step == WIRE_STEP_UNREACHABLE || step == WIRE_STEP_LINGER) {
		error_set(&error, step, 0, "%s: tried for %llu s, %u times; "
		    "%.600s", target_link_name(link), (unsigned long long)s,
		    r->attempts, what);
	} else {
		error_set(&error, step, 0, "%.900s", what);
	}
	target_link_log(link, LOG_ERROR, "the session is lost: ", &error);
	target_link_abandon(link, &error);
}

static void
out_of_time(struct target_link *link)
{
	struct relink *r = &link->relink;

	give_up(link, r->unreachable ? WIRE_STEP_UNREACHABLE :
	    WIRE_STEP_LINGER,
	    r->failure.step != WIRE_STEP_NONE ? r->failure.text :
	    r->cause.text);
}

/* ---- an attempt -------------------------------------------------------------- */

static void
failed(struct target_link *link, const struct error *why)
{
	struct relink *r = &link->relink;

	target_link_log(link, LOG_DEBUG, "no link yet: ", why);
	r->failure = *why;
	if (link->injected && link->carrier.up_at == 0) {
		target_start_remove(link);
	}
	if (link->transport->look == NULL) {
		r->phase = RELINK_WAITING;
	} else {
		r->phase = RELINK_LOOKING;
		starter_begin(&link->starter, STARTER_LOOK, link->transport,
		    &link->place);
	}
	r->delay = longer(r->delay, DELAY_MOST);
	r->next_at = clock_now() + r->delay;
}

static void
dial(struct target_link *link)
{
	struct carrier_spec spec;
	struct error error;

	link->number++;
	target_start_spec(link, &spec);
	link->relink.phase = RELINK_DIALLING;
	if (carrier_start(&link->carrier, &spec, &error) < 0) {
		failed(link, &error);
	}
}

static void
attempt(struct target_link *link)
{
	link->relink.attempts++;
	carrier_clear(&link->carrier);
	if (!link->injected) {
		dial(link);
		return;
	}
	/* The agent's file is gone since it runs: the stub needs one. */
	link->relink.phase = RELINK_INJECTING;
	if (!link->stuck) {
		link->place.facts.agent[0] = '\0';
	}
	starter_begin(&link->starter, STARTER_INJECT, link->transport,
	    &link->place);
}

static void
attempt_ended(struct target_link *link)
{
	const struct carrier *c = &link->carrier;
	char text[256];
	struct error error;

	if (carrier_no_session(c)) {
		snprintf(text, sizeof(text), "%s: nobody there has its "
		    "session any more; before that %.120s",
		    target_link_name(link), link->relink.cause.text);
		give_up(link, WIRE_STEP_AGENT, text);
		return;
	}
	carrier_blame(c, target_link_name(link), &error);
	if (c->error.step != WIRE_STEP_LINK && c->up_at != 0) {
		target_link_log(link, LOG_ERROR, "the session is lost: ",
		    &error);
		target_link_abandon(link, &error);
		return;
	}
	failed(link, &error);
}

static void
injected(struct target_link *link)
{
	struct starter *s = &link->starter;
	bool done = s->state == STARTER_DONE;

	s->state = STARTER_IDLE;
	if (done) {
		link->place.facts = s->answer.facts;
		dial(link);
	} else {
		strcpy(link->place.facts.agent, s->answer.facts.agent);
		link->stuck = link->place.facts.agent[0] != '\0';
		failed(link, &s->answer.error);
	}
}

static void
looked(struct target_link *link)
{
	struct relink *r = &link->relink;
	const struct error *error = &link->starter.answer.error;
	bool there = link->starter.state == STARTER_DONE;

	link->starter.state = STARTER_IDLE;
	r->phase = RELINK_WAITING;
	r->unreachable = !there;
	if (there) {
		return;
	}
	if (error->step == WIRE_STEP_SANDBOX) {
		give_up(link, WIRE_STEP_SANDBOX, error->text);
	} else {
		r->failure = *error;
	}
}

/* ---- the loop ------------------------------------------------------------------ */

void
target_relink_interest(const struct target_link *link, struct pollset *set)
{
	const struct relink *r = &link->relink;

	if (link->state == TARGET_LINK_PARKED) {
		pollset_wake(set, link->parking ? CLOCK_NEVER : r->until);
	} else if (link->state == TARGET_LINK_RELINKING) {
		pollset_wake(set, give_up_at(link));
		if (r->phase == RELINK_WAITING &&
		    link->carrier.state == CARRIER_NONE && !link->removing) {
			pollset_wake(set, r->next_at);
		}
	}
}

static void
relink(struct target_link *link)
{
	struct relink *r = &link->relink;
	uint64_t now = clock_now();

	if (r->phase == RELINK_DIALLING &&
	    carrier_has_session(&link->carrier)) {
		healed(link);
	} else if (now >= give_up_at(link)) {
		out_of_time(link);
	} else if (r->phase == RELINK_WAITING) {
		/* Not beside an old child: it could hold the next one up. */
		if (now >= r->next_at && !link->removing &&
		    link->carrier.state == CARRIER_NONE) {
			attempt(link);
		}
	} else if (r->phase == RELINK_DIALLING) {
		if (link->carrier.state == CARRIER_NONE) {
			attempt_ended(link);
		}
	} else if (link->starter.state != STARTER_BUSY) {
		if (r->phase == RELINK_INJECTING) {
			injected(link);
		} else {
			looked(link);
		}
	}
}

static void
parked(struct target_link *link)
{
	struct relink *r = &link->relink;
	struct error none;

	if (link->parking) {
		if (link->carrier.state != CARRIER_NONE) {
			return;
		}
		link->parking = false;
		if (link->carrier.error.step != WIRE_STEP_SHUTDOWN) {
			/* It did not say that it waits: then not for long. */
			target_relink_lost(link, &link->carrier.error);
			return;
		}
		log_write(LOG_NOTE, "%s: parked", target_link_name(link));
	}
	if (r->until != CLOCK_NEVER && clock_now() >= r->until) {
		error_set(&none, WIRE_STEP_SHUTDOWN, 0, "parked too long");
		target_link_abandon(link, &none);
	}
}

void
target_relink_run(struct target_link *link)
{
	if (link->state == TARGET_LINK_RELINKING) {
		relink(link);
	} else if (link->state == TARGET_LINK_PARKED) {
		parked(link);
	}
}
