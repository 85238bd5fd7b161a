/* SPDX-License-Identifier: MIT */
/* terminal.c - a transport process whose terminal becomes a job's. */
#include "terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "target_link.h"
#include "target_link_private.h"

#define ORDERLY_MS 5000u		/* from a good end to its RESULT */
#define HANGUP_MS 2000u			/* from the hang-up to the cancel */
#define DRAIN_MS 5000u			/* of silence, after RESULT */
#define END_OF_FILE 0x04		/* what types it: Ctrl-D */

enum state {
	INJECTING,
	CONNECTING,			/* the process runs, no terminal yet */
	CLEARING,			/* an injected file that did not run */
	OPEN,
	ENDING				/* nobody wants it: to be reaped */
};

struct terminal {
	struct list link;		/* in target_link->terminals */
	enum state state;
	struct relay *relay;		/* NULL: answered or gone */
	struct target_link *target;
	struct transport_place place;	/* with an agent's file of its own */
	bool injected;
	struct starter starter;
	struct carrier carrier;
	struct error error;		/* CLEARING: what to answer then */
	uint32_t number;		/* of its link */
	int in, out;			/* owned: its output, its keyboard */
	size_t slot_in, slot_out;
	uint64_t quiet;			/* since then nothing came */
	uint64_t hang_up, cancel;	/* when; CLOCK_NEVER */
	bool ended;			/* end of file is typed */
	bool lost;
};

bool
terminal_undecided(const struct relay *relay)
{
	const struct target_link *link = relay->target;
	struct wire msg;

	return relay->kind == WIRE_EXEC && link->state != TARGET_LINK_UP &&
	    (link->transport->traits & TRANSPORT_PTY) != 0 &&
	    wire_decode(relay->body, relay->body_len, &msg) == WIRE_OK &&
	    (msg.u.exec.flags & WIRE_EXEC_TTY) != 0;
}

bool
terminal_needed(const struct relay *relay)
{
	const struct target_link *link = relay->target;
	struct wire msg;

	return relay->kind == WIRE_EXEC && !link->carrier.ready.terminals &&
	    (link->transport->traits & TRANSPORT_PTY) != 0 &&
	    wire_decode(relay->body, relay->body_len, &msg) == WIRE_OK &&
	    (msg.u.exec.flags & (WIRE_EXEC_TTY | WIRE_EXEC_DETACH)) ==
	    WIRE_EXEC_TTY;
}

/* ---- its life --------------------------------------------------------- */

static void
close_ends(struct terminal *t)
{
	if (t->in != -1) {
		close(t->in);
	}
	if (t->out != -1) {
		close(t->out);
	}
	t->in = t->out = -1;
}

static void
free_terminal(struct terminal *t)
{
	list_remove(&t->link);
	starter_stop(&t->starter);
	close_ends(t);
	carrier_kill(&t->carrier);
	child_drop(&t->carrier.child);
	if (t->carrier.err >= 0) {
		close(t->carrier.err);
	}
	free(t);
}

/* A file that never ran could not remove itself. */
static void
clear(struct terminal *t)
{
	t->state = CLEARING;
	starter_begin(&t->starter, STARTER_REMOVE, t->target->transport,
	    &t->place);
}

static void
fail(struct terminal *t)
{
	if (t->relay != NULL) {
		relay_fail(t->relay, &t->error);
	}
}

/* It came to nothing. */
static void
give_up(struct terminal *t)
{
	if (t->relay != NULL) {
		target_link_log(t->target, LOG_WARNING, "no terminal: ",
		    &t->error);
	}
	if (t->injected && t->place.facts.agent[0] != '\0') {
		clear(t);
	} else {
		t->state = ENDING;
		fail(t);
	}
}

void
terminal_release(struct terminal *t)
{
	if (t == NULL) {
		return;
	}
	t->relay->terminal = NULL;
	t->relay = NULL;
	close_ends(t);
	carrier_kill(&t->carrier);
	if (t->state == OPEN) {
		t->state = ENDING;
	}
}

/* ---- the way up ------------------------------------------------------- */

static void
connect_it(struct terminal *t)
{
	struct target_link *link = t->target;
	const struct controller_options *options = link->hub->options;
	struct carrier_spec spec = {
		.transport = link->transport, .place = &t->place,
		.agent = t->injected ? t->place.facts.agent :
		    transport_baked(&t->place),
		.hash = t->injected ? t->place.facts.hash : NULL,
		.hands_over = true,
		.session = link->session, .secret = link->secret,
		.number = t->number, .id = link->session_id,
		.hello_ms = options->hello_ms
	};

	t->state = CONNECTING;
	if (carrier_start(&t->carrier, &spec, &t->error) < 0) {
		give_up(t);
	}
}

void
terminal_begin(struct relay *relay)
{
	struct target_link *link = relay->target;
	struct terminal *t = calloc(1, sizeof(*t));
	struct error error;

	if (t == NULL) {
		error_set(&error, WIRE_STEP_PTY, errno, "memory for it");
		relay_fail(relay, &error);
		return;
	}
	t->relay = relay;
	t->target = link;
	t->place = link->place;
	t->in = t->out = -1;
	t->hang_up = t->cancel = CLOCK_NEVER;
	t->number = ++link->number;
	t->injected = t->place.facts.agent[0] != '\0';
	t->place.facts.agent[0] = '\0';
	starter_clear(&t->starter);
	carrier_clear(&t->carrier);
	relay->terminal = t;
	list_append(&link->terminals, &t->link);
	if (t->injected) {
		/* The link's agent has removed its own file. */
		t->state = INJECTING;
		starter_begin(&t->starter, STARTER_INJECT, link->transport,
		    &t->place);
	} else {
		connect_it(t);
	}
}

static void
run_starter(struct terminal *t)
{
	if (t->starter.state == STARTER_FAILED) {
		t->error = t->starter.answer.error;
		give_up(t);
	} else if (t->starter.state == STARTER_DONE) {
		t->place.facts = t->starter.answer.facts;
		if (t->relay == NULL) {
			clear(t);
		} else {
			connect_it(t);
		}
	}
}

/* EXEC as the client sent it, and whose terminal it gets. */
static int
name_link(struct relay *relay, uint32_t number)
{
	struct wire msg;
	uint8_t *body;
	size_t len;

	if (wire_decode(relay->body, relay->body_len, &msg) != WIRE_OK) {
		return -1;
	}
	msg.u.exec.terminal = number;
	body = malloc(relay->body_len);
	if (body == NULL) {
		return -1;
	}
	if (wire_encode(&msg, body, relay->body_len, &len) != WIRE_OK) {
		free(body);
		return -1;
	}
	free(relay->body);
	relay->body = body;
	return 0;
}

static void
opened(struct terminal *t)
{
	struct relay *relay = t->relay;

	carrier_take_terminal(&t->carrier, &t->in, &t->out);
	t->state = OPEN;
	t->quiet = clock_now();
	log_write(LOG_DEBUG, "%s: a terminal is handed over, process %ld",
	    target_link_name(t->target), (long)t->carrier.child.pid);
	if (name_link(relay, t->number) == -1) {
		error_set(&t->error, WIRE_STEP_PTY, ENOMEM, "the request");
		fail(t);
		return;
	}
	relay_open(relay);
}

static void
run_attempt(struct terminal *t)
{
	const struct carrier *c = &t->carrier;

	if (c->state == CARRIER_UP && t->relay != NULL) {
		opened(t);
	} else if (c->state == CARRIER_NONE) {
		if (c->error.step == WIRE_STEP_PTY) {
			error_set(&t->error, WIRE_STEP_PTY, c->error.number,
			    "%s: %s%s", target_link_name(t->target),
			    c->error.text, c->error.number == EBUSY ?
			    "; its session is led by a shell, so a login "
			    "file may have set a trap or `exec` there" : "");
		} else {
			carrier_blame(c, target_link_name(t->target),
			    &t->error);
		}
		give_up(t);
	}
}

static void
run_removal(struct terminal *t)
{
	size_t used = strlen(t->error.text);

	if (t->starter.state != STARTER_BUSY) {
		if (t->starter.state == STARTER_FAILED) {
			target_link_log(t->target, LOG_WARNING, "",
			    &t->starter.answer.error);
			snprintf(t->error.text + used,
			    sizeof(t->error.text) - used, "; and %.400s",
			    t->starter.answer.error.text);
		}
		t->state = ENDING;
		fail(t);
	}
}

/* ---- its bytes -------------------------------------------------------- */

size_t
terminal_data(struct terminal *t, const uint8_t *data, size_t len)
{
	ssize_t n;

	if (t->state != OPEN) {
		return 0;
	}
	do {
		n = write(t->out, data, len);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		return 0;
	}
	if (n < 0) {
		/* Its process ends, which is noticed by itself. */
		session_drop(t->relay->client, 1);
		return len;
	}
	t->relay->typed += (size_t)n;
	return (size_t)n;
}

/* A terminal has no end: what types it is the best that can be done. */
static void
type_end(struct terminal *t)
{
	static const uint8_t end = END_OF_FILE;

	t->ended = write(t->out, &end, 1) != -1 || errno != EAGAIN;
}

static void
write_queued(struct terminal *t)
{
	struct session_request *client = t->relay->client;
	const uint8_t *data;
	size_t len, n;

	while ((len = session_peek(client, 1, &data)) > 0) {
		n = terminal_data(t, data, len);
		if (n == 0 || client->in[1].drop) {
			return;
		}
		session_consume(client, 1, n);
	}
	if (client->in[1].ended && !t->ended) {
		type_end(t);
	}
}

size_t
terminal_pull(struct terminal *t, uint8_t *buf, size_t max)
{
	ssize_t n;

	if (t->in == -1) {
		return 0;
	}
	do {
		n = read(t->in, buf, max);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		t->quiet = clock_now();
		return (size_t)n;
	}
	if (n == 0 || errno != EAGAIN) {
		close(t->in);
		t->in = -1;
	}
	return 0;
}

static bool
wants(const struct terminal *t)
{
	return t->relay->unread[0] || session_hungry(t->relay->client, 0);
}

static void
move(struct terminal *t, const struct pollset *set)
{
	static uint8_t nowhere[16384];
	short ready = pollset_ready(set, t->slot_in);

	if (pollset_ready(set, t->slot_out) != 0) {
		write_queued(t);
	}
	if (ready != 0 && t->relay->unread[0]) {
		terminal_pull(t, nowhere, sizeof(nowhere));
	} else if ((ready & POLLIN) != 0) {
		session_ready(t->relay->client, 0);
	} else if (ready != 0) {
		close(t->in);
		t->in = -1;
	}
	if (!wants(t)) {
		t->quiet = clock_now();
	}
}

/* ---- its end ---------------------------------------------------------- */

/* The job has ended and nothing more of its output will come. */
static bool
drained(const struct terminal *t)
{
	return t->relay->done && (t->in == -1 || clock_now() >= t->quiet +
	    DRAIN_MS * (uint64_t)CLOCK_MS);
}

static void
finish(struct terminal *t)
{
	char ended[64];

	if (!t->lost) {
		t->relay->held = t->in != -1;
		relay_pass_result(t->relay);
		return;
	}
	child_words(&t->carrier.child, ended, sizeof(ended));
	error_set(&t->error, WIRE_STEP_LINK, 0, "%s: the terminal was lost, "
	    "its process %s; its job was hung up and has ended",
	    target_link_name(t->target), ended);
	fail(t);
}

/*
 * Its process ended before the job did: hang up, as a terminal does.  A stub
 * that was let go of ends well, and RESULT is on its way.
 */
static void
look_for_loss(struct terminal *t, uint64_t now)
{
	const struct child *child = &t->carrier.child;

	if (t->relay->done || t->relay->agent == NULL) {
		return;
	}
	if (t->hang_up == CLOCK_NEVER && child->exited) {
		t->hang_up = child->status != 0 ? now : now +
		    ORDERLY_MS * (uint64_t)CLOCK_MS;
	}
	if (now >= t->hang_up && !t->lost) {
		t->lost = true;
		t->cancel = now + HANGUP_MS * (uint64_t)CLOCK_MS;
		session_signal(t->relay->agent, SIGHUP);
		session_signal(t->relay->agent, SIGCONT);
	}
	if (now >= t->cancel) {
		t->cancel = CLOCK_NEVER;
		session_cancel(t->relay->agent);
	}
}

/* ---- the loop --------------------------------------------------------- */

static void
interest(struct terminal *t, struct pollset *set)
{
	const struct session_in *in;

	t->slot_in = t->slot_out = POLLSET_NONE;
	starter_interest(&t->starter, set);
	carrier_interest(&t->carrier, set);
	if (t->state == CLEARING && t->starter.state != STARTER_BUSY) {
		pollset_wake(set, 0);
	}
	if (t->state != OPEN) {
		return;
	}
	in = &t->relay->client->in[1];
	if (wants(t)) {
		t->slot_in = pollset_add(set, t->in, POLLIN);
	}
	if (in->queue.length > 0 || (in->ended && !t->ended)) {
		t->slot_out = pollset_add(set, t->out, POLLOUT);
	}
	if (!t->relay->done) {
		pollset_wake(set, t->lost ? t->cancel : t->hang_up);
	} else if (t->in == -1 || wants(t)) {
		pollset_wake(set, t->in == -1 ? 0 : t->quiet + DRAIN_MS *
		    (uint64_t)CLOCK_MS);
	}
}

void
terminals_interest(struct list *all, struct pollset *set)
{
	struct list *l;

	for (l = all->next; l != all; l = l->next) {
		interest(LIST_OF(l, struct terminal, link), set);
	}
}

static void
run(struct terminal *t, const struct pollset *set)
{
	starter_run(&t->starter, set);
	carrier_run(&t->carrier, set);
	switch (t->state) {
	case INJECTING:
		run_starter(t);
		break;
	case CONNECTING:
		run_attempt(t);
		break;
	case CLEARING:
		run_removal(t);
		break;
	case OPEN:
		move(t, set);
		look_for_loss(t, clock_now());
		if (drained(t)) {
			finish(t);
		}
		break;
	case ENDING:
		if (t->carrier.state == CARRIER_NONE) {
			free_terminal(t);
		}
		break;
	}
}

void
terminals_run(struct list *all, const struct pollset *set)
{
	struct list *l, *next;

	for (l = all->next; l != all; l = next) {
		next = l->next;
		run(LIST_OF(l, struct terminal, link), set);
	}
}

void
terminals_kill(struct list *all)
{
	while (!list_empty(all)) {
		free_terminal(LIST_OF(all->next, struct terminal, link));
	}
}
