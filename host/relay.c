/* SPDX-License-Identifier: MIT */
#include "relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "peer.h"
#include "status.h"
#include "target_link.h"
#include "trust.h"

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
}

static void
relay_free(struct relay *relay)
{
	part(relay);
	unlink_all(relay);
	relay->client->app = NULL;
	free(relay->reply);
	free(relay);
}

/* The answer is given; what is left is the client's session's business. */
static void
answer(struct relay *relay, const struct wire_result *result)
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
	answer(relay, &result);
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

	answer(relay, &ok);
}

/* The agent's own result, as it is but for what only we know. */
static void
pass_result(struct relay *relay)
{
	struct wire_result result = relay->agent->result;

	result.new_agent = relay->target != NULL && relay->target->new_agent;
	answer(relay, &result);
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
			pass_result(relay);
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
		pass_result(relay);
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

void
relay_orphan(struct relay *relay)
{
	relay_free(relay);
}

/* ---- the start -------------------------------------------------------- */

static bool
runs_code(uint8_t kind)
{
	return kind == WIRE_EXEC || kind == WIRE_PUT;
}

static const char *
name(const struct target_link *link)
{
	static char text[TARGET_TEXT_MAX];

	target_format(&link->target, text);
	return text;
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
	    (link->transport->traits & TRANSPORT_SHARED_UID) != 0) {
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

	if (session_peek(relay->client, 1, &data) > 0) {
		session_ready(agent, 1);
	}
	if (relay->client->in[1].ended) {
		session_end(agent, 1);
	}
	for (number = 1; number < 64; number++) {
		if (relay->signals >> number & 1) {
			session_signal(agent, number);
		}
	}
	for (i = 0; i < 2; i++) {
		if (relay->unread[i]) {
			session_drop(agent, i);
		}
	}
}

void
relay_begin(struct relay *relay)
{
	struct target_link *link = relay->target;
	struct error error;

	if (relay->agent != NULL) {
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
		return;
	}
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

/* ---- the client's session --------------------------------------------- */

/* Bytes of requests that no agent has taken yet. */
static size_t
bodies_held(const struct hub *hub)
{
	const struct list *l, *r;
	const struct relay *relay;
	size_t held = 0;

	for (l = hub->links.next; l != &hub->links; l = l->next) {
		const struct target_link *link = LIST_OF(l,
		    const struct target_link, link);

		for (r = link->relays.next; r != &link->relays; r = r->next) {
			relay = LIST_OF(r, const struct relay, link);
			if (relay->agent == NULL ||
			    !relay->agent->out[0].ended) {
				held += relay->body_len;
			}
		}
	}
	return held;
}

static struct relay *
relay_new(struct peer *peer, struct session_request *req,
    const uint8_t *body, uint32_t len)
{
	struct relay *relay = calloc(1, sizeof(*relay));

	if (relay == NULL) {
		return NULL;
	}
	relay->body = malloc(len);
	if (relay->body == NULL) {
		free(relay);
		return NULL;
	}
	memcpy(relay->body, body, len);
	relay->body_len = len;
	list_init(&relay->link);
	list_init(&relay->settle);
	relay->hub = peer->hub;
	relay->peer = peer;
	relay->client = req;
	relay->kind = req->kind;
	req->app = relay;
	return relay;
}

/* The requests that the controller answers itself. */
static bool
own(struct relay *relay, const struct wire *msg)
{
	struct hub *hub = relay->hub;
	size_t len = 0;
	char *text;

	if (msg->type == WIRE_STATUS) {
		text = status_text(hub, msg->u.status.json != 0, &len);
		relay_reply(relay, text, len);
	} else if (msg->type == WIRE_STOP) {
		log_write(LOG_NOTE, "client %ld asks for the end",
		    (long)relay->peer->pid);
		list_append(&hub->stops, &relay->link);
		hub_stop(hub, "`sandmux stop`");
	} else {
		return false;
	}
	return true;
}

static int
check(struct peer *peer, uint8_t kind, const struct wire *msg,
    enum wire_err err, struct error *error)
{
	if (err != WIRE_OK || msg->type != kind ||
	    wire_class(kind) != WIRE_CLASS_BODY ||
	    kind == WIRE_PROBE_INFO || kind == WIRE_FILE_INFO) {
		error_set(error, WIRE_STEP_USAGE, 0, "%s request: %s",
		    wire_name(kind), wire_err_text(err));
	} else if (peer->refused) {
		error_set(error, WIRE_STEP_BUSY, 0, "%u clients are "
		    "connected already", HUB_PEERS);
	} else if (peer->hub->stopping && kind != WIRE_STATUS &&
	    kind != WIRE_STOP) {
		error_set(error, WIRE_STEP_SHUTDOWN, 0, "the controller is "
		    "ending; try again");
	} else {
		return 0;
	}
	return -1;
}

static void
opened(void *ctx, struct session_request *req, const uint8_t *body,
    uint32_t len)
{
	struct peer *peer = ctx;
	struct target_link *link;
	struct relay *relay = NULL;
	struct error error;
	struct wire msg;
	enum wire_err err = wire_decode(body, len, &msg);

	if (check(peer, req->kind, &msg, err, &error) < 0) {
		session_fail(req, &error);
		return;
	}
	error_set(&error, WIRE_STEP_BUSY, 0, "too many long requests wait");
	if (bodies_held(peer->hub) + len <= HUB_BODIES) {
		relay = relay_new(peer, req, body, len);
	}
	if (relay == NULL) {
		session_fail(req, &error);
		return;
	}
	peer->hub->requests++;
	if (own(relay, &msg)) {
		return;
	}
	link = target_link_find(peer, &error);
	if (link == NULL) {
		relay_fail(relay, &error);
	} else {
		target_link_submit(link, relay);
	}
}

/* Bytes for an agent's part that is not open yet stay where they are. */
static size_t
client_data(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	struct relay *relay = req->app;
	size_t n;

	(void)ctx;
	(void)index;
	if (relay == NULL || relay->reply != NULL) {
		return len;
	}
	if (relay->agent == NULL) {
		return 0;
	}
	n = session_push(relay->agent, 1, data, len);
	if (n < len) {
		session_ready(relay->agent, 1);
	}
	return n;
}

static void
client_ended(void *ctx, struct session_request *req, unsigned index)
{
	struct relay *relay = req->app;

	(void)ctx;
	(void)index;
	if (relay != NULL && relay->agent != NULL) {
		session_end(relay->agent, 1);
	}
}

/* Copy what is queued on from, as much as fits. */
static size_t
move(struct session_request *from, unsigned index, uint8_t *buf, size_t max)
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
pull_reply(struct relay *relay, uint8_t *buf, size_t max)
{
	size_t n = relay->reply_len - relay->reply_sent;

	n = n < max ? n : max;
	memcpy(buf, relay->reply + relay->reply_sent, n);
	relay->reply_sent += n;
	if (relay->reply_sent == relay->reply_len && !relay->answered) {
		list_remove(&relay->settle);
		list_append(&relay->hub->settle, &relay->settle);
	}
	return n;
}

static size_t
client_pull(void *ctx, struct session_request *req, unsigned index,
    uint8_t *buf, size_t max)
{
	struct relay *relay = req->app;
	size_t n = 0;

	(void)ctx;
	if (relay == NULL) {
		return 0;
	}
	if (relay->reply != NULL) {
		return index == 0 ? pull_reply(relay, buf, max) : 0;
	}
	if (relay->agent != NULL && !relay->done) {
		/* The last byte brings the result, before it is counted. */
		relay->pulling = true;
		n = move(relay->agent, index, buf, max);
		relay->pulling = false;
	}
	return n;
}

static void
client_unwanted(void *ctx, struct session_request *req, unsigned index)
{
	struct relay *relay = req->app;

	(void)ctx;
	if (relay == NULL) {
		return;
	}
	relay->unread[index] = true;
	if (relay->reply != NULL && index == 0 && !relay->answered) {
		list_remove(&relay->settle);
		list_append(&relay->hub->settle, &relay->settle);
	} else if (relay->agent != NULL) {
		session_drop(relay->agent, index);
	}
}

static void
client_signal(void *ctx, struct session_request *req, int number)
{
	struct relay *relay = req->app;

	(void)ctx;
	if (relay != NULL && relay->agent != NULL) {
		session_signal(relay->agent, number);
	} else if (relay != NULL) {
		relay->signals |= UINT64_C(1) << number;
	}
}

static void
client_resize(void *ctx, struct session_request *req, unsigned rows,
    unsigned columns)
{
	struct relay *relay = req->app;

	(void)ctx;
	if (relay != NULL && relay->agent != NULL) {
		session_resize(relay->agent, rows, columns);
	}
}

static void
client_cancel(void *ctx, struct session_request *req)
{
	static const struct wire_result cancelled = {
		.outcome = WIRE_CANCELLED
	};
	struct relay *relay = req->app;

	(void)ctx;
	if (relay != NULL && relay->agent != NULL) {
		session_cancel(relay->agent);
	} else if (relay != NULL) {
		answer(relay, &cancelled);
	}
}

static void
client_closed(void *ctx, struct session_request *req)
{
	(void)ctx;
	if (req->app != NULL) {
		relay_free(req->app);
	}
}

const struct session_events relay_client_events = {
	.opened = opened,
	.data = client_data,
	.ended = client_ended,
	.pull = client_pull,
	.unwanted = client_unwanted,
	.signal = client_signal,
	.resize = client_resize,
	.cancel = client_cancel,
	.closed = client_closed,
};

/* ---- the agent's session ---------------------------------------------- */

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
	if (relay != NULL) {
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
	return relay == NULL ? 0 : move(relay->client, 1, buf, max);
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
	if (relay->pulling) {
		list_append(&relay->hub->settle, &relay->settle);
	} else {
		pass_result(relay);
	}
}

static void
agent_log(void *ctx, const struct wire_log *log)
{
	const struct target_link *link = ctx;

	log_write(log->level > LOG_DEBUG ? LOG_DEBUG :
	    (enum log_level)log->level, "%s: agent: %.*s", name(link),
	    (int)log->text.len, (const char *)log->text.at);
}

const struct session_events relay_agent_events = {
	.data = agent_data,
	.ended = agent_ended,
	.pull = agent_pull,
	.unwanted = agent_unwanted,
	.result = agent_result,
	.log = agent_log,
};
