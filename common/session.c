/* SPDX-License-Identifier: MIT */
/* session.c - requests: their life, and what each arriving frame means. */
#include "session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "session_private.h"

struct session *
session_new(const struct session_config *config)
{
	struct session *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		return NULL;
	}
	s->config = *config;
	list_init(&s->requests);
	list_init(&s->dirty);
	list_init(&s->small);
	list_init(&s->bulk);
	if (session_store_init(s) == -1) {
		session_free(s);
		return NULL;
	}
	return s;
}

void
session_free(struct session *s)
{
	int saved = errno;

	if (s == NULL) {
		return;
	}
	while (!list_empty(&s->requests)) {
		session_free_request(LIST_OF(s->requests.next,
		    struct session_request, link));
	}
	session_store_free(s);
	free(s);
	errno = saved;
}

void
session_each(struct session *s,
    void (*visit)(void *ctx, struct session_request *req), void *ctx)
{
	struct list *at, *next;

	for (at = s->requests.next; at != &s->requests; at = next) {
		next = at->next;
		visit(ctx, LIST_OF(at, struct session_request, link));
	}
}

unsigned
session_count(const struct session *s)
{
	return s->count;
}

struct session_budget *
session_budget_of(const struct session *s)
{
	return s->config.budget;
}

uint64_t
session_expected(const struct session *s)
{
	return s->expected;
}

int
session_rest(const struct session *s, struct session_rest *rest)
{
	*rest = (struct session_rest){ s->next, s->expected, s->last_id };
	return s->count > 0 || s->first != NULL || s->queue_first != NULL ?
	    -1 : 0;
}

void
session_adopt(struct session *s, const struct session_rest *rest)
{
	s->next = rest->next;
	s->expected = rest->expected;
	s->last_id = rest->last;
}

void
session_mark(struct session_request *req)
{
	if (list_empty(&req->dirty)) {
		list_append(&req->session->dirty, &req->dirty);
	}
}

static struct session_request *
request_new(struct session *s, uint32_t id, uint8_t kind, uint32_t body_len)
{
	struct session_request *req = calloc(1, sizeof(*req));
	unsigned i;

	if (req == NULL) {
		return NULL;
	}
	req->session = s;
	req->id = id;
	req->kind = kind;
	req->body_len = body_len;
	list_init(&req->dirty);
	list_init(&req->body_wait);
	for (i = 0; i < 2; i++) {
		req->out[i].req = req;
		list_init(&req->out[i].link);
	}
	session_in_start(req);
	list_append(&s->requests, &req->link);
	s->count++;
	s->config.budget->requests++;
	return req;
}

void
session_free_request(struct session_request *req)
{
	struct session *s = req->session;

	session_out_stop(req);
	session_in_stop(req);
	list_remove(&req->link);
	list_remove(&req->dirty);
	list_remove(&req->body_wait);
	session_body_turn(s->config.budget);
	s->count--;
	s->config.budget->requests--;
	free(req->body);
	free(req->held);
	free(req);
}

/* ---- the opener's side ------------------------------------------------ */

struct session_request *
session_open(struct session *s, uint8_t kind, uint8_t *body, uint32_t len,
    void *app)
{
	struct session_request *req;

	if (len > WIRE_BODY_MAX || len == 0) {
		errno = EMSGSIZE;
		return NULL;
	}
	if (s->count >= SESSION_REQUESTS || s->last_id == UINT32_MAX ||
	    s->config.budget->requests >= s->config.budget->limit) {
		errno = EBUSY;
		return NULL;
	}
	req = request_new(s, s->last_id + 1, kind, len);
	if (req == NULL) {
		return NULL;
	}
	s->last_id++;
	req->app = app;
	req->body = body;
	req->out[0].limit = req->out[1].limit = SESSION_WINDOW_MIN;
	req->out[0].ready = req->out[0].ending = true;
	session_mark(req);
	return req;
}

void
session_signal(struct session_request *req, int number)
{
	if (number > 0 && number < 64 && req->state < SESSION_DONE) {
		req->signals |= UINT64_C(1) << number;
		session_mark(req);
	}
}

void
session_resize(struct session_request *req, unsigned rows, unsigned columns)
{
	req->rows = (uint16_t)rows;
	req->columns = (uint16_t)columns;
	req->resize_due = true;
	session_mark(req);
}

void
session_cancel(struct session_request *req)
{
	if (!req->cancelled && req->state < SESSION_DONE) {
		req->cancelled = req->cancel_due = true;
		session_mark(req);
	}
}

void
session_abandon(struct session_request *req)
{
	req->app = NULL;
	req->abandoned = true;
	if (req->state == SESSION_OPENING || req->state == SESSION_DONE) {
		session_free_request(req);
		return;
	}
	session_cancel(req);
	session_out_stop(req);
	req->out[1].unwanted = true;
	session_in_drop(req, 0);
	session_in_drop(req, 1);
	session_check_result(req);
}

void
session_forget(struct session_request *req)
{
	session_free_request(req);
}

/* Tell the owner of the end once all bytes are consumed. */
void
session_check_result(struct session_request *req)
{
	struct session *s = req->session;

	if (!req->result_here || req->state == SESSION_DONE ||
	    req->in[0].consumed != req->in[0].total ||
	    req->in[1].consumed != req->in[1].total) {
		return;
	}
	req->state = SESSION_DONE;
	session_out_stop(req);
	list_remove(&req->dirty);
	if (req->abandoned) {
		session_free_request(req);
		return;
	}
	s->config.events->result(s->config.ctx, req, &req->result);
}

/* ---- the server's side ------------------------------------------------ */

void
session_result(struct session_request *req, const struct wire_result *result)
{
	uint32_t text = result->text.len, info = result->info.len;

	if (req->state == SESSION_RESULT_DUE) {
		return;
	}
	list_remove(&req->body_wait);
	session_body_turn(req->session->config.budget);
	req->result = *result;
	req->result.request = req->id;
	req->result.out = req->out[0].sent;
	req->result.err = req->out[1].sent;
	/* Without memory the outcome still arrives, only its words do not. */
	req->held = malloc((size_t)text + info + 1);
	if (req->held == NULL) {
		text = info = 0;
	}
	text = text > WIRE_TEXT_MAX ? WIRE_TEXT_MAX : text;
	info = info > WIRE_INFO_MAX ? 0 : info;
	if (text > 0) {
		memcpy(req->held, result->text.at, text);
	}
	if (info > 0) {
		memcpy(req->held + text, result->info.at, info);
	}
	req->result.text = (struct wire_bytes){ req->held, text };
	req->result.info = (struct wire_bytes){ req->held + text, info };
	req->state = SESSION_RESULT_DUE;
	req->out[0].ready = req->out[1].ready = false;
	list_remove(&req->out[0].link);
	list_remove(&req->out[1].link);
	req->in[0].drop = req->in[1].drop = true;
	req->in[0].credit_due = req->in[1].credit_due = false;
	/* RESULT may wait for long: half a body must not wait with it. */
	free(req->body);
	req->body = NULL;
	session_mark(req);
}

void
session_fail(struct session_request *req, const struct error *error)
{
	struct wire_result result = {
		.outcome = WIRE_FAILED, .step = (uint8_t)error->step,
		.error = (uint32_t)error->number,
		.text = wire_string(error->text)
	};

	session_result(req, &result);
}

void
session_log(struct session *s, int level, const char *text)
{
	if (!s->log_due) {
		s->log_level = (uint8_t)level;
		strncpy(s->log_text, text, WIRE_TEXT_MAX);
		s->log_due = true;
	}
}

/* ---- arriving frames --------------------------------------------------- */

/*
 * What a frame is about: 1 with *req, 0 if the request is over (the frame is
 * dropped), -1 if there never was one.
 */
static int
find(struct session *s, uint32_t id, struct session_request **req,
    struct error *error)
{
	struct list *at;

	for (at = s->requests.prev; at != &s->requests; at = at->prev) {
		*req = LIST_OF(at, struct session_request, link);
		if ((*req)->id == id) {
			if ((*req)->state == SESSION_OPENING) {
				break;
			}
			return (*req)->state != SESSION_DONE;
		}
	}
	if (at == &s->requests && id != 0 && id <= s->last_id) {
		return 0;
	}
	error_set(error, WIRE_STEP_PROTOCOL, 0, "request %u was never opened",
	    (unsigned)id);
	return -1;
}

static int
bad(struct error *error, const char *what)
{
	error_set(error, WIRE_STEP_PROTOCOL, 0, "%s", what);
	return -1;
}

static int
on_open(struct session *s, const struct wire *msg, struct error *error)
{
	const struct wire_open *open = &msg->u.open;
	struct session_request *req;
	bool refused = s->config.budget->requests >= s->config.budget->limit;

	if (open->request <= s->last_id) {
		return bad(error, "request ids must rise");
	}
	if (open->body == 0 || open->body > WIRE_BODY_MAX) {
		return bad(error, "body length out of range");
	}
	if (s->count >= SESSION_REQUESTS) {
		return bad(error, "too many requests");
	}
	req = request_new(s, open->request, open->kind, open->body);
	if (req == NULL) {
		error_set(error, WIRE_STEP_BUSY, ENOMEM, "request");
		return -1;
	}
	s->last_id = open->request;
	if (!session_kind_is_bulk(open->kind)) {
		s->brisk_at = clock_now();
	}
	req->state = SESSION_BODY;
	req->out[0].limit = open->out;
	req->out[1].limit = open->err;
	if (refused) {
		struct error busy;

		error_set(&busy, WIRE_STEP_BUSY, 0, "%u requests at once",
		    s->config.budget->limit);
		session_fail(req, &busy);
		return 0;
	}
	if (list_empty(&s->config.budget->bodies)) {
		list_append(&s->config.budget->bodies, &req->body_wait);
		session_body_turn(s->config.budget);
	}
	return 0;
}

/* What waited for the body; the request may have ended already. */
static void
deliver_waiting(struct session *s, struct session_request *req)
{
	unsigned i;
	int number;

	for (i = 0; i < 2; i++) {
		if (req->out[i].unwanted && req->state == SESSION_RUNNING) {
			s->config.events->unwanted(s->config.ctx, req, i);
		}
	}
	for (number = 1; number < 64 && req->state == SESSION_RUNNING;
	    number++) {
		if (req->signals >> number & 1) {
			s->config.events->signal(s->config.ctx, req, number);
		}
	}
	req->signals = 0;
	if (req->resize_due && req->state == SESSION_RUNNING) {
		s->config.events->resize(s->config.ctx, req, req->rows,
		    req->columns);
	}
	req->resize_due = false;
}

/* Index of a channel that comes towards us, or -1. */
static int
in_index(const struct session *s, uint8_t channel)
{
	int index = s->config.server ? channel : channel - WIRE_CH_OUT;

	return index == 0 || index == 1 ? index : -1;
}

static int
on_data(struct session *s, const struct wire *msg, struct error *error)
{
	int index = in_index(s, msg->u.data.channel), rc;
	struct session_request *req;
	bool body;

	if (index == -1) {
		return bad(error, "data on the wrong channel");
	}
	rc = find(s, msg->u.data.request, &req, error);
	if (rc != 1) {
		return rc;
	}
	body = req->state == SESSION_BODY && index == 0;
	rc = session_in_data(req, (unsigned)index, msg->u.data.offset,
	    msg->u.data.bytes, error);
	if (rc == 0 && body && req->state != SESSION_BODY) {
		deliver_waiting(s, req);
		if (req->in[1].ended && req->state == SESSION_RUNNING) {
			s->config.events->ended(s->config.ctx, req, 1);
		}
	}
	return rc;
}

static int
on_credit(struct session *s, const struct wire *msg, struct error *error)
{
	int index = s->config.server ? msg->u.credit.channel - WIRE_CH_OUT :
	    msg->u.credit.channel;
	struct session_request *req;
	int rc;

	if (index != 0 && index != 1) {
		return bad(error, "credit for the wrong channel");
	}
	rc = find(s, msg->u.credit.request, &req, error);
	if (rc == 1) {
		session_out_limit(req, (unsigned)index, msg->u.credit.limit);
	}
	return rc < 0 ? rc : 0;
}

static int
on_eof(struct session *s, const struct wire *msg, struct error *error)
{
	int index = in_index(s, msg->u.eof.channel), rc;
	struct session_request *req;

	if (index == -1 || (s->config.server && index == 0)) {
		return bad(error, "end of the wrong channel");
	}
	rc = find(s, msg->u.eof.request, &req, error);
	if (rc != 1) {
		return rc;
	}
	if (req->in[index].ended) {
		return bad(error, "a second end of a channel");
	}
	if (msg->u.eof.total != req->in[index].received) {
		return bad(error, "an end that is not where the data ended");
	}
	if (session_in_end(req, (unsigned)index, msg->u.eof.total,
	    error) == -1) {
		return -1;
	}
	if (req->state == SESSION_RUNNING && !req->abandoned) {
		s->config.events->ended(s->config.ctx, req, (unsigned)index);
	}
	return 0;
}

static int
on_signal(struct session *s, const struct wire *msg, struct error *error)
{
	struct session_request *req;
	uint8_t number = msg->u.signal.signal;
	int rc;

	if (number == 0 || number >= 64) {
		return bad(error, "no such signal");
	}
	rc = find(s, msg->u.signal.request, &req, error);
	if (rc == 1 && req->state == SESSION_BODY) {
		req->signals |= UINT64_C(1) << number;
	} else if (rc == 1 && req->state == SESSION_RUNNING) {
		s->config.events->signal(s->config.ctx, req, number);
	}
	return rc < 0 ? rc : 0;
}

static int
on_resize(struct session *s, const struct wire *msg, struct error *error)
{
	struct session_request *req;
	int rc = find(s, msg->u.resize.request, &req, error);

	if (rc == 1 && req->state == SESSION_BODY) {
		req->rows = msg->u.resize.rows;
		req->columns = msg->u.resize.columns;
		req->resize_due = true;
	} else if (rc == 1 && req->state == SESSION_RUNNING) {
		s->config.events->resize(s->config.ctx, req,
		    msg->u.resize.rows, msg->u.resize.columns);
	}
	return rc < 0 ? rc : 0;
}

static int
on_cancel(struct session *s, const struct wire *msg, struct error *error)
{
	static const struct wire_result cancelled = {
		.outcome = WIRE_CANCELLED
	};
	struct session_request *req;
	int rc = find(s, msg->u.cancel.request, &req, error);

	if (rc == 1 && req->state == SESSION_BODY) {
		session_result(req, &cancelled);
	} else if (rc == 1 && req->state == SESSION_RUNNING) {
		s->config.events->cancel(s->config.ctx, req);
	}
	return rc < 0 ? rc : 0;
}

static int
on_result(struct session *s, const struct wire *msg, struct error *error)
{
	const struct wire_result *from = &msg->u.result;
	struct session_request *req;
	int rc = find(s, from->request, &req, error);

	if (rc != 1) {
		return rc;
	}
	if (req->result_here) {
		return bad(error, "a second result");
	}
	if (from->out != req->in[0].received ||
	    from->err != req->in[1].received) {
		return bad(error, "a result whose totals differ from the data");
	}
	if (from->outcome > WIRE_FAILED) {
		return bad(error, "an unknown outcome");
	}
	req->held = malloc((size_t)from->text.len + from->info.len + 1);
	if (req->held == NULL) {
		error_set(error, WIRE_STEP_BUSY, ENOMEM, "result");
		return -1;
	}
	req->result = *from;
	memcpy(req->held, from->text.at, from->text.len);
	memcpy(req->held + from->text.len, from->info.at, from->info.len);
	req->result.text.at = req->held;
	req->result.info.at = req->held + from->text.len;
	req->result_here = true;
	if (session_in_end(req, 0, from->out, error) == -1 ||
	    session_in_end(req, 1, from->err, error) == -1) {
		return -1;
	}
	session_check_result(req);
	return 0;
}

static int
on_log(struct session *s, const struct wire *msg, struct error *error)
{
	(void)error;
	s->config.events->log(s->config.ctx, &msg->u.log);
	return 0;
}

static const struct handler {
	uint8_t type;
	bool server;			/* who receives it */
	bool both;
	int (*on)(struct session *, const struct wire *, struct error *);
} handlers[] = {
	{ WIRE_OPEN, true, false, on_open },
	{ WIRE_DATA, true, true, on_data },
	{ WIRE_CREDIT, true, true, on_credit },
	{ WIRE_EOF, true, true, on_eof },
	{ WIRE_SIGNAL, true, false, on_signal },
	{ WIRE_RESIZE, true, false, on_resize },
	{ WIRE_RESULT, false, false, on_result },
	{ WIRE_CANCEL, true, false, on_cancel },
	{ WIRE_LOG, false, false, on_log },
};

int
session_receive(struct session *s, uint64_t number, const uint8_t *frame,
    size_t len, struct error *error)
{
	struct wire msg;
	enum wire_err err;
	size_t i;

	if (s->config.stored && number != s->expected) {
		error_set(error, WIRE_STEP_PROTOCOL, 0,
		    "frame %llu where %llu was expected",
		    (unsigned long long)number,
		    (unsigned long long)s->expected);
		return -1;
	}
	err = wire_decode(frame, len, &msg);
	if (err != WIRE_OK) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "%s message: %s",
		    len > 0 ? wire_name(frame[0]) : "empty",
		    wire_err_text(err));
		return -1;
	}
	for (i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		if (handlers[i].type == msg.type && (handlers[i].both ||
		    handlers[i].server == s->config.server)) {
			s->expected++;
			return handlers[i].on(s, &msg, error);
		}
	}
	error_set(error, WIRE_STEP_PROTOCOL, 0, "unexpected %s message",
	    wire_name(msg.type));
	return -1;
}
