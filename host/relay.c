/* SPDX-License-Identifier: MIT */
/* relay.c - a request between a client's session and an agent's. */
#include "relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "peer.h"
#include "status.h"
#include "target_link.h"
#include "terminal.h"
#include "trust.h"

#define LOG_PERIOD (60000u * CLOCK_MS)

/* The agent's part is over for us: it finishes alone, if it still must. */
static void
part(struct relay *relay)
{
	if (relay->agent == NULL) {
		return;
	}
	relay->agent->app = NULL;
	if (relay->done) {
		session_forget(relay->agent);
	} else {
		session_abandon(relay->agent);
	}
	relay->agent = NULL;
}

static void
unlink_all(struct relay *relay)
{
	list_remove(&relay->link);
	list_remove(&relay->settle);
	relay->target = NULL;
	free(relay->body);
	relay->body = NULL;
	terminal_release(relay->terminal);
}

void
relay_free(struct relay *relay)
{
	part(relay);
	unlink_all(relay);
	relay->client->app = NULL;
	free(relay->reply);
	free(relay);
}

void
relay_answer(struct relay *relay, const struct wire_result *result)
{
	if (relay->answered) {
		return;
	}
	relay->answered = true;
	session_result(relay->client, result);
	part(relay);
	unlink_all(relay);
}

void
relay_fail(struct relay *relay, const struct error *error)
{
	struct wire_result result = {
		.outcome = WIRE_FAILED, .step = (uint8_t)error->step,
		.error = (uint32_t)error->number,
		.text = wire_string(error->text)
	};

	if (relay->target != NULL) {
		result.new_agent = relay->target->new_agent;
	}
	relay_answer(relay, &result);
}

void
relay_reply(struct relay *relay, char *text, size_t len)
{
	struct error error;

	if (text == NULL) {
		error_set(&error, WIRE_STEP_BUSY, ENOMEM, "the answer");
		relay_fail(relay, &error);
		return;
	}
	list_remove(&relay->link);
	relay->target = NULL;
	relay->reply = text;
	relay->reply_len = len;
	session_ready(relay->client, 0);
}

void
relay_finish(struct relay *relay)
{
	static const struct wire_result ok = { .outcome = WIRE_EXITED };

	relay_answer(relay, &ok);
}

static bool
ours_alone(uint8_t step)
{
	return step == WIRE_STEP_LINK || step == WIRE_STEP_START ||
	    step == WIRE_STEP_TARGET || step == WIRE_STEP_UNTRUSTED ||
	    step == WIRE_STEP_SHUTDOWN || step == WIRE_STEP_AGENT ||
	    step == WIRE_STEP_SANDBOX || step == WIRE_STEP_UNREACHABLE ||
	    step == WIRE_STEP_LINGER;
}

/* A detached job, or one whose descendants hold its output, lives on. */
static bool
leaves_some(const struct wire_result *result)
{
	struct wire info;

	return result->detached || (result->info.len > 0 &&
	    wire_decode(result->info.at, result->info.len, &info) == WIRE_OK &&
	    info.type == WIRE_EXEC_INFO &&
	    (info.u.exec_info.flags & WIRE_EXEC_RUNNING) != 0);
}

void
relay_pass_result(struct relay *relay)
{
	struct wire_result result;

	if (relay->agent == NULL) {
		return;
	}
	result = relay->agent->result;
	/*
	 * What only we can know is not an agent's to say: a caller would
	 * take it for a command that never ran, and run it again.
	 */
	if (result.outcome == WIRE_FAILED && ours_alone(result.step)) {
		result.step = WIRE_STEP_PROTOCOL;
	}
	result.new_agent = relay->target != NULL && relay->target->new_agent;
	if (relay->terminal != NULL) {
		result.in = relay->typed;
		result.detached = relay->held;
	}
	if (relay->target != NULL && leaves_some(&result)) {
		relay->target->left_at = clock_now();
	}
	relay_answer(relay, &result);
}

bool
relay_settle(struct hub *hub)
{
	bool any = false;
	struct relay *relay;

	while (!list_empty(&hub->settle)) {
		relay = LIST_OF(hub->settle.next, struct relay, settle);
		list_remove(&relay->settle);
		any = true;
		if (relay->done) {
			relay_pass_result(relay);
		} else {
			relay_finish(relay);
		}
	}
	return any;
}

void
relay_lost(struct relay *relay, const struct error *error)
{
	if (relay->done) {
		relay_pass_result(relay);
		return;
	}
	if (relay->agent != NULL) {
		/* Its session is freed as a whole, without events. */
		relay->agent->app = NULL;
		relay->agent = NULL;
		relay->hub->lost++;
	}
	relay_fail(relay, error);
}

/* ---- the start -------------------------------------------------------- */

static bool
runs_code(uint8_t kind)
{
	return kind == WIRE_EXEC || kind == WIRE_PUT ||
	    kind == WIRE_TREE_PUT || kind == WIRE_FS;
}

static const char *
name(const struct target_link *link)
{
	static char text[TARGET_TEXT_MAX];

	target_format(&link->target, text);
	return text;
}

/*
 * Whether the job could have the agent's uid and so prepare the next agent's
 * start.  Only what cannot be otherwise is ruled out: a root agent and a
 * user given as a number.  Names count as root, and so does what is not
 * understood: the agent will refuse it, or read it as we do not.
 */
static bool
shares_uid(const struct relay *relay)
{
	const struct target_link *link = relay->target;
	struct wire_bytes user = { 0 };
	const char *own = transport_default_user(&link->place);
	struct wire msg;

	if (link->state != TARGET_LINK_UP ||
	    wire_decode(relay->body, relay->body_len, &msg) != WIRE_OK) {
		return true;
	}
	if (msg.type == WIRE_FS && msg.u.fs.op <= WIRE_FS_LIST) {
		return false;		/* it only looks */
	}
	if (link->carrier.ready.uid != 0) {
		return true;
	}
	if (msg.type == WIRE_EXEC) {
		user = msg.u.exec.user;
	} else if (msg.type == WIRE_PUT) {
		user = msg.u.put.user;
	} else if (msg.type == WIRE_FS) {
		user = msg.u.fs.user;
	} else if (msg.type == WIRE_TREE_PUT) {
		user = msg.u.tree_put.user;
	}
	if (user.len == 0 && own != NULL) {
		user = wire_string(own);
	}
	return !trust_is_not_root((const char *)user.at, user.len);
}

/* The client's rules and the sandbox's record come before the first byte. */
static bool
allowed(struct relay *relay, struct error *error)
{
	struct target_link *link = relay->target;

	if (relay->peer->strict && link->new_agent) {
		error_set(error, WIRE_STEP_UNTRUSTED, 0, "%s: its agent was "
		    "started after a job could have prepared the start, or "
		    "its past is unknown", name(link));
		return false;
	}
	if (!link->used && runs_code(relay->kind) &&
	    (link->transport->traits & TRANSPORT_SHARED_UID) != 0 &&
	    shares_uid(relay)) {
		if (trust_use(link->target.scheme,
		    link->place.facts.id) < 0) {
			error_set(error, WIRE_STEP_START, errno, "the record "
			    "of what ran in %s", name(link));
			return false;
		}
		link->used = true;
	}
	return true;
}

/* What the client did while the link was starting. */
static void
catch_up(struct relay *relay)
{
	struct session_request *agent = relay->agent;
	const uint8_t *data;
	unsigned i;
	int number;

	if (relay->terminal == NULL &&
	    session_peek(relay->client, 1, &data) > 0) {
		session_ready(agent, 1);
	}
	if (relay->terminal == NULL && relay->client->in[1].ended) {
		session_end(agent, 1);
	}
	for (number = 1; number < 64; number++) {
		if (relay->signals >> number & 1) {
			session_signal(agent, number);
		}
	}
	if (relay->resized) {
		session_resize(agent, relay->rows, relay->columns);
	}
	for (i = 0; i < 2; i++) {
		if (relay->unread[i] && relay->terminal == NULL) {
			session_drop(agent, i);
		}
	}
}

void
relay_begin(struct relay *relay)
{
	struct target_link *link = relay->target;
	struct error error;

	if (relay->agent != NULL || relay->terminal != NULL ||
	    terminal_undecided(relay)) {
		return;
	}
	if (relay->kind == WIRE_LINKINFO) {
		if (link->state == TARGET_LINK_UP) {
			size_t len = 0;
			char *text = status_link(link, &len);

			relay_reply(relay, text, len);
		}
		return;
	}
	if (!allowed(relay, &error)) {
		relay_fail(relay, &error);
	} else if (terminal_needed(relay)) {
		terminal_begin(relay);
	} else {
		relay_open(relay);
	}
}

void
relay_open(struct relay *relay)
{
	struct target_link *link = relay->target;
	struct error error;

	relay->agent = session_open(link->session, relay->kind, relay->body,
	    relay->body_len, relay);
	if (relay->agent == NULL) {
		error_set(&error, WIRE_STEP_BUSY, errno == EBUSY ? 0 : errno,
		    "%u requests run in %s already", SESSION_REQUESTS,
		    name(link));
		relay_fail(relay, &error);
		return;
	}
	relay->body = NULL;
	link->requests++;
	catch_up(relay);
}

/* ---- the bytes and the agent's session -------------------------------- */

/* Copy what is queued on from, as much as fits. */
size_t
relay_move(struct session_request *from, unsigned index, uint8_t *buf, size_t max)
{
	const uint8_t *data;
	size_t n, done = 0;

	while (done < max && (n = session_peek(from, index, &data)) > 0) {
		if (n > max - done) {
			n = max - done;
		}
		memcpy(buf + done, data, n);
		done += n;
		session_consume(from, index, n);
	}
	return done;
}

static size_t
agent_data(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	struct relay *relay = req->app;
	size_t n;

	(void)ctx;
	if (relay == NULL) {
		return len;
	}
	n = session_push(relay->client, index, data, len);
	if (n < len) {
		session_ready(relay->client, index);
	}
	return n;
}

static void
agent_ended(void *ctx, struct session_request *req, unsigned index)
{
	struct relay *relay = req->app;

	(void)ctx;
	if (relay != NULL && relay->terminal == NULL) {
		session_end(relay->client, index);
	}
}

static size_t
agent_pull(void *ctx, struct session_request *req, unsigned index,
    uint8_t *buf, size_t max)
{
	struct relay *relay = req->app;

	(void)ctx;
	(void)index;
	return relay == NULL ? 0 : relay_move(relay->client, 1, buf, max);
}

static void
agent_unwanted(void *ctx, struct session_request *req, unsigned index)
{
	struct relay *relay = req->app;

	(void)ctx;
	if (relay != NULL && index == 1) {
		session_drop(relay->client, 1);
	}
}

static void
agent_result(void *ctx, struct session_request *req,
    const struct wire_result *result)
{
	struct relay *relay = req->app;

	(void)ctx;
	(void)result;
	if (relay == NULL) {
		session_forget(req);
		return;
	}
	relay->done = true;
	if (relay->terminal != NULL) {
		return;			/* its bytes come another way */
	}
	if (relay->pulling) {
		list_append(&relay->hub->settle, &relay->settle);
	} else {
		relay_pass_result(relay);
	}
}

/* A minute's share of lines: an agent must not fill the log. */
static bool
may_log(struct target_link *link)
{
	uint64_t now = clock_now();

	if (now - link->log_since >= LOG_PERIOD) {
		link->log_since = now;
		link->log_lines = 0;
	}
	link->log_lines++;
	if (link->log_lines == TARGET_LINK_LOG_LINES) {
		log_write(LOG_WARNING, "%s: the agent says too much, the "
		    "rest of this minute is left out", name(link));
	}
	return link->log_lines < TARGET_LINK_LOG_LINES;
}

static void
agent_log(void *ctx, const struct wire_log *log)
{
	struct target_link *link = ctx;

	if (may_log(link)) {
		log_write(log->level > LOG_DEBUG ? LOG_DEBUG :
		    (enum log_level)log->level, "%s: agent: %.*s", name(link),
		    (int)log->text.len, (const char *)log->text.at);
	}
}

const struct session_events relay_agent_events = {
	.data = agent_data,
	.ended = agent_ended,
	.pull = agent_pull,
	.unwanted = agent_unwanted,
	.result = agent_result,
	.log = agent_log,
};
