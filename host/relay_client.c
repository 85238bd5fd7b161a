/* SPDX-License-Identifier: MIT */
/*
 * relay_client.c - the client's side of a relay: what its session says.
 */
#include "relay.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "overlay.h"
#include "peer.h"
#include "status.h"
#include "target_link.h"
#include "terminal.h"

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

/* The body as the client sent it, or as its sandbox's settings make it. */
static int
take_body(struct relay *relay, const struct wire *msg, const uint8_t *body,
    uint32_t len, struct error *error)
{
	if (relay->peer->sandbox != NULL && overlay_request(
	    relay->peer->sandbox, msg, &relay->body, &relay->body_len,
	    error) < 0) {
		return -1;
	}
	if (relay->body == NULL) {
		relay->body = malloc(len);
		if (relay->body == NULL) {
			return -1;
		}
		memcpy(relay->body, body, len);
		relay->body_len = len;
	}
	return 0;
}

static struct relay *
relay_new(struct peer *peer, struct session_request *req)
{
	struct relay *relay = calloc(1, sizeof(*relay));

	if (relay == NULL) {
		return NULL;
	}
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
	} else if (msg->type == WIRE_STOP &&
	    (relay->peer->transport != NULL ||
	    relay->peer->sandbox != NULL)) {
		target_link_stop(relay->peer, relay);
	} else if (msg->type == WIRE_STOP && relay->peer->aimed) {
		/* It would be the end of all others' links. */
		relay_fail(relay, &relay->peer->error);
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
	    wire_class(kind) != WIRE_CLASS_BODY || kind >= WIRE_PROBE_INFO) {
		error_set(error, WIRE_STEP_USAGE, 0, "%s request: %s",
		    wire_name(kind), wire_err_text(err));
	} else if (msg->type == WIRE_EXEC && msg->u.exec.terminal != 0) {
		error_set(error, WIRE_STEP_USAGE, 0, "a terminal is not a "
		    "client's to hand over");
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
		relay = relay_new(peer, req);
	}
	if (relay == NULL) {
		session_fail(req, &error);
		return;
	}
	if (take_body(relay, &msg, body, len, &error) < 0) {
		relay_fail(relay, &error);
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
	if (relay->terminal != NULL) {
		return terminal_data(relay->terminal, data, len);
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
	if (relay != NULL && relay->agent != NULL &&
	    relay->terminal == NULL) {
		session_end(relay->agent, 1);
	}
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
	if (relay->terminal != NULL) {
		return index == 0 ? terminal_pull(relay->terminal, buf, max) :
		    0;
	}
	if (relay->agent != NULL && !relay->done) {
		/* The last byte brings the result, before it is counted. */
		relay->pulling = true;
		n = relay_move(relay->agent, index, buf, max);
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
	} else if (relay->agent != NULL && relay->terminal == NULL) {
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
	} else if (relay != NULL) {
		relay->rows = (uint16_t)rows;
		relay->columns = (uint16_t)columns;
		relay->resized = true;
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
		relay_answer(relay, &cancelled);
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
