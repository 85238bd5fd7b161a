/* SPDX-License-Identifier: MIT */
/* session_flow.c - received bytes: queues, budgets, and credit for more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "session_private.h"

struct chunk {
	struct chunk *next;
	uint8_t bytes[SESSION_CHUNK];
};

int
session_budget_init(struct session_budget *budget, unsigned limit)
{
	size_t bytes = (size_t)limit * 2 * SESSION_WINDOW_MIN + SESSION_POOL;

	memset(budget, 0, sizeof(*budget));
	list_init(&budget->bodies);
	budget->limit = limit;
	/* A queue may waste most of its first and of its last chunk. */
	return pool_init(&budget->chunks, sizeof(struct chunk),
	    bytes / SESSION_CHUNK + (size_t)limit * 4);
}

void
session_budget_free(struct session_budget *budget)
{
	pool_free(&budget->chunks);
}

/* ---- queue ---------------------------------------------------------- */

static int
queue_add(struct session_budget *budget, struct session_queue *q,
    const uint8_t *data, size_t len)
{
	size_t used, n;
	struct chunk *chunk;

	while (len > 0) {
		used = (q->start + q->length) % SESSION_CHUNK;
		if (used == 0 || q->tail == NULL) {
			chunk = pool_get(&budget->chunks);
			if (chunk == NULL) {
				return -1;
			}
			chunk->next = NULL;
			if (q->tail != NULL) {
				((struct chunk *)q->tail)->next = chunk;
			} else {
				q->head = chunk;
				q->start = 0;
				used = 0;
			}
			q->tail = chunk;
		}
		chunk = q->tail;
		n = SESSION_CHUNK - used < len ? SESSION_CHUNK - used : len;
		memcpy(chunk->bytes + used, data, n);
		q->length += n;
		data += n;
		len -= n;
	}
	return 0;
}

static void
queue_remove(struct session_budget *budget, struct session_queue *q, size_t n)
{
	struct chunk *chunk;
	size_t here;

	while (n > 0) {
		chunk = q->head;
		here = SESSION_CHUNK - q->start;
		here = here < q->length ? here : q->length;
		here = here < n ? here : n;
		q->start += here;
		q->length -= here;
		n -= here;
		if (q->start == SESSION_CHUNK || q->length == 0) {
			q->head = chunk->next;
			q->start = 0;
			pool_put(&budget->chunks, chunk);
		}
	}
	if (q->length == 0) {
		q->head = q->tail = NULL;
		q->start = 0;
	}
}

size_t
session_peek(const struct session_request *req, unsigned index,
    const uint8_t **data)
{
	const struct session_queue *q = &req->in[index].queue;
	const struct chunk *chunk = q->head;
	size_t here = SESSION_CHUNK - q->start;

	if (q->length == 0) {
		return 0;
	}
	*data = chunk->bytes + q->start;
	return here < q->length ? here : q->length;
}

/* ---- credit --------------------------------------------------------- */

/* What a flow holds of the pool: granted and unconsumed beyond its minimum. */
static size_t
extra(const struct session_in *in)
{
	uint64_t held = in->granted - in->consumed;

	return held > SESSION_WINDOW_MIN ?
	    (size_t)(held - SESSION_WINDOW_MIN) : 0;
}

/*
 * Let the flow have more, in steps that are worth a frame.  The window
 * doubles at most each time a whole one was consumed.
 */
static void
grant(struct session_request *req, struct session_in *in)
{
	struct session_budget *budget = req->session->config.budget;
	size_t had = extra(in), free = SESSION_POOL > budget->granted ?
	    SESSION_POOL - budget->granted : 0;
	uint64_t limit, most = SESSION_WINDOW_MIN + had + free / 8;

	if (in->ended || in->drop) {
		return;
	}
	if (in->consumed - in->mark >= in->window) {
		in->mark = in->consumed;
		in->window *= 2;
		if (in->window > SESSION_WINDOW_MAX) {
			in->window = SESSION_WINDOW_MAX;
		}
	}
	limit = in->consumed + (in->window < most ? in->window : most);
	if (limit <= in->granted || (limit - in->granted < in->window / 4 &&
	    in->granted - in->received > in->window / 4)) {
		return;
	}
	in->granted = limit;
	budget->granted += extra(in) - had;
	in->credit_due = true;
	session_mark(req);
}

static void
consume(struct session_request *req, struct session_in *in, size_t n)
{
	size_t had = extra(in);

	in->consumed += n;
	req->session->config.budget->granted -= had - extra(in);
	grant(req, in);
}

/* The final length is known: nothing beyond it needs credit. */
static void
settle(struct session_request *req, struct session_in *in, uint64_t total)
{
	size_t had = extra(in);

	in->total = total;
	in->ended = true;
	in->credit_due = false;
	if (in->granted > total) {
		in->granted = total;
	}
	req->session->config.budget->granted -= had - extra(in);
}

void
session_in_start(struct session_request *req)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		req->in[i].granted = SESSION_WINDOW_MIN;
		req->in[i].window = SESSION_WINDOW_MIN;
	}
}

void
session_in_stop(struct session_request *req)
{
	struct session_budget *budget = req->session->config.budget;
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct session_in *in = &req->in[i];

		queue_remove(budget, &in->queue, in->queue.length);
		/* A body's credit does not come out of the pool. */
		if (!(i == 0 && req->session->config.server)) {
			budget->granted -= extra(in);
		}
		in->granted = in->consumed;
	}
}

void
session_consume(struct session_request *req, unsigned index, size_t n)
{
	struct session_in *in = &req->in[index];

	queue_remove(req->session->config.budget, &in->queue, n);
	consume(req, in, n);
	session_check_result(req);
}

/* The same without a look at the result; for two flows in a row. */
void
session_in_drop(struct session_request *req, unsigned index)
{
	struct session_in *in = &req->in[index];
	size_t n = in->queue.length;

	if (!in->drop && !in->ended) {
		in->credit_due = true;
		session_mark(req);
	}
	in->drop = true;
	queue_remove(req->session->config.budget, &in->queue, n);
	consume(req, in, n);
}

void
session_ignore(struct session_request *req, unsigned index)
{
	req->in[index].drop = true;
}

void
session_drop(struct session_request *req, unsigned index)
{
	session_in_drop(req, index);
	session_check_result(req);
}

/* ---- arrival -------------------------------------------------------- */

static void
refuse(struct error *error, const struct session_request *req,
    const char *what)
{
	error_set(error, WIRE_STEP_PROTOCOL, 0, "request %u: %s",
	    (unsigned)req->id, what);
}

/* Give the first incomplete body that lacks it credit for its whole length. */
void
session_body_turn(struct session_budget *budget)
{
	struct session_request *req;

	if (list_empty(&budget->bodies)) {
		return;
	}
	req = LIST_OF(budget->bodies.next, struct session_request, body_wait);
	if (req->in[0].granted < req->body_len) {
		budget->body_since = clock_now();
		req->in[0].granted = req->body_len;
		req->in[0].credit_due = true;
		session_mark(req);
	}
}

/* All that this session has begun and not finished stands in others' way. */
static void
body_stalled(struct session_budget *budget, struct session *session)
{
	struct session_request *req;
	struct list *at, *next;
	struct error error;

	error_set(&error, WIRE_STEP_BUSY, ETIMEDOUT,
	    "the rest of the request did not come");
	for (at = budget->bodies.next; at != &budget->bodies; at = next) {
		next = at->next;
		req = LIST_OF(at, struct session_request, body_wait);
		if (req->session == session) {
			session_fail(req, &error);
		}
	}
}

uint64_t
session_budget_check(struct session_budget *budget, uint64_t now)
{
	uint64_t end;

	/* With one or none there is nobody to wait. */
	while (budget->bodies.next != budget->bodies.prev) {
		end = budget->body_since + SESSION_BODY_MS * CLOCK_MS;
		if (now < end) {
			return end;
		}
		body_stalled(budget, LIST_OF(budget->bodies.next,
		    struct session_request, body_wait)->session);
	}
	return CLOCK_NEVER;
}

/* A body gets into the line once it has used what each one has. */
static void
body_queue(struct session_request *req, uint64_t have)
{
	struct session_budget *budget = req->session->config.budget;

	if (budget->bodies.next == &req->body_wait) {
		budget->body_since = clock_now();
	} else if (list_empty(&req->body_wait) && have < SESSION_WINDOW_MIN &&
	    req->in[0].received == SESSION_WINDOW_MIN) {
		list_append(&budget->bodies, &req->body_wait);
		session_body_turn(budget);
	}
}

static int
body_data(struct session_request *req, struct wire_bytes bytes,
    struct error *error)
{
	struct session *s = req->session;
	struct session_in *in = &req->in[0];
	uint64_t have = in->received - bytes.len;
	size_t size;
	uint8_t *body;

	if (in->received > req->body_len) {
		refuse(error, req, "body longer than OPEN said");
		return -1;
	}
	/* Grow with what has arrived, not with what was announced. */
	if (have == 0 || (have & (have - 1)) == 0 || in->received >
	    SESSION_WINDOW_MIN) {
		size = (size_t)in->received * 2;
		size = size < SESSION_WINDOW_MIN ? SESSION_WINDOW_MIN : size;
		size = size < in->granted ? size : (size_t)in->granted;
		size = size < req->body_len ? size : req->body_len;
		body = realloc(req->body, size);
		if (body == NULL) {
			error_set(error, WIRE_STEP_BUSY, ENOMEM, "body");
			return -1;
		}
		req->body = body;
	}
	memcpy(req->body + have, bytes.at, bytes.len);
	if (in->received < req->body_len) {
		body_queue(req, have);
		return 0;
	}
	list_remove(&req->body_wait);
	session_body_turn(s->config.budget);
	in->ended = true;
	in->credit_due = false;
	in->total = in->consumed = in->granted = in->received;
	req->state = SESSION_RUNNING;
	body = req->body;
	req->body = NULL;
	s->config.events->opened(s->config.ctx, req, body, req->body_len);
	free(body);
	return 0;
}

static int
take(struct session_request *req, unsigned index, struct wire_bytes bytes,
    struct error *error)
{
	struct session *s = req->session;
	struct session_in *in = &req->in[index];
	size_t taken = 0;

	if (in->drop) {
		consume(req, in, bytes.len);
		return 0;
	}
	/* What comes before the body is complete waits in the queue. */
	if (in->queue.length == 0 && req->state == SESSION_RUNNING) {
		taken = s->config.events->data(s->config.ctx, req, index,
		    bytes.at, bytes.len);
	}
	/* The event may have dropped the flow. */
	if (!in->drop && queue_add(s->config.budget, &in->queue,
	    bytes.at + taken, bytes.len - taken) == -1) {
		error_set(error, WIRE_STEP_BUSY, ENOMEM, "received data");
		return -1;
	}
	consume(req, in, in->drop ? bytes.len : taken);
	return 0;
}

int
session_in_data(struct session_request *req, unsigned index, uint64_t offset,
    struct wire_bytes bytes, struct error *error)
{
	struct session *s = req->session;
	struct session_in *in = &req->in[index];

	if (offset != in->received) {
		refuse(error, req, "data at the wrong offset");
		return -1;
	}
	if (bytes.len > in->granted - in->received) {
		refuse(error, req, in->ended ? "data after the end" :
		    "data beyond its credit");
		return -1;
	}
	in->received += bytes.len;
	s->received_bytes += bytes.len;
	if (s->config.server && index == 0) {
		if (req->state != SESSION_BODY) {
			return 0;	/* refused or cancelled already */
		}
		return body_data(req, bytes, error);
	}
	return take(req, index, bytes, error);
}

int
session_in_end(struct session_request *req, unsigned index, uint64_t total,
    struct error *error)
{
	struct session_in *in = &req->in[index];

	if (total < in->received || total > in->granted ||
	    (in->ended && in->total != total)) {
		refuse(error, req, "an impossible total");
		return -1;
	}
	if (!in->ended) {
		settle(req, in, total);
	}
	return 0;
}
