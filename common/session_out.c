/* SPDX-License-Identifier: MIT */
/* session_out.c - flows from us: whose turn it is, and the frame it fills. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "session_private.h"

#define BURST_GAP (50 * CLOCK_MS)	/* a flow quiet so long is not bulk */

bool
session_kind_is_bulk(uint8_t kind)
{
	return kind == WIRE_PUT || kind == WIRE_GET || kind == WIRE_ECHO ||
	    kind == WIRE_TREE_PUT || kind == WIRE_TREE_GET;
}

static bool
is_bulk(const struct session_out *out)
{
	return session_kind_is_bulk(out->req->kind) ||
	    out->burst >= SESSION_BULK_AFTER;
}

bool
session_out_is_body(const struct session_out *out)
{
	return !out->req->session->config.server && out == &out->req->out[0];
}

/* Put the flow into the ring it belongs to now, or into none. */
static void
place(struct session_out *out)
{
	struct session *s = out->req->session;

	list_remove(&out->link);
	if (out->ready && !out->unwanted && out->sent < out->limit &&
	    out->req->state != SESSION_OPENING) {
		list_append(is_bulk(out) ? &s->bulk : &s->small, &out->link);
	}
}

void
session_out_start(struct session_request *req)
{
	place(&req->out[0]);
	place(&req->out[1]);
}

void
session_out_stop(struct session_request *req)
{
	struct session_frame *f;
	unsigned i;

	for (i = 0; i < 2; i++) {
		req->out[i].ready = false;
		list_remove(&req->out[i].link);
		if (req->out[i].queued == 0) {
			continue;
		}
		for (f = req->session->queue_first; f != NULL; f = f->next) {
			if (f->flow == &req->out[i]) {
				f->flow = NULL;
			}
		}
	}
}

void
session_out_limit(struct session_request *req, unsigned index, uint64_t limit)
{
	struct session_out *out = &req->out[index];
	struct session *s = req->session;

	if (limit == WIRE_UNWANTED && !out->unwanted &&
	    !session_out_is_body(out)) {
		out->unwanted = true;
		out->ready = false;
		place(out);
		/* Also when the end is due: what is left will not be pulled. */
		if (req->state == SESSION_RUNNING && !out->ended) {
			s->config.events->unwanted(s->config.ctx, req, index);
		}
	} else if (limit > out->limit) {
		out->limit = limit;
		place(out);
	}
}

void
session_ready(struct session_request *req, unsigned index)
{
	struct session_out *out = &req->out[index];

	if (!out->ready && !out->unwanted && !out->ended) {
		out->ready = true;
		place(out);
	}
}

void
session_end(struct session_request *req, unsigned index)
{
	req->out[index].ending = true;
	session_mark(req);
}

bool
session_hungry(const struct session_request *req, unsigned index)
{
	const struct session_out *out = &req->out[index];
	const struct session *s = req->session;

	if (!s->attached || out->ready || out->ending || out->unwanted ||
	    out->sent >= out->limit || req->state == SESSION_OPENING) {
		return false;
	}
	return is_bulk(out) ? session_bulk_fits(s) : session_small_fits(s);
}

static uint8_t *
payload(struct session_frame *f)
{
	return f->bytes + WIRE_NUMBER + WIRE_DATA_HEADER;
}

/* n bytes of payload are in the frame: the header, and the flow moves on. */
static void
data_header(struct session_frame *f, struct session_out *out, size_t n)
{
	struct session *s = out->req->session;
	unsigned index = out == &out->req->out[1];
	uint64_t now = clock_now();
	size_t len;
	struct wire msg = { .type = WIRE_DATA, .u.data = {
		.request = out->req->id,
		.channel = session_out_channel(s, index),
		.offset = out->sent,
	} };

	/* A pushed flow never runs dry in a pull: a pause shows it. */
	if (now - out->burst_at > BURST_GAP) {
		out->burst = 0;
	}
	out->burst_at = now;
	wire_encode(&msg, f->bytes + WIRE_NUMBER, WIRE_DATA_HEADER, &len);
	f->length = (uint32_t)(WIRE_NUMBER + WIRE_DATA_HEADER + n);
	f->bulk = is_bulk(out);
	if (!f->bulk) {
		s->brisk_at = now;
	}
	out->sent += n;
	out->burst += n;
	s->sent_bytes += n;
}

/* Small data does not hold a big slot. */
static struct session_frame *
shrink(struct session *s, struct session_frame *f)
{
	struct session_frame *small;

	if (f->length > SESSION_SMALL) {
		return f;
	}
	small = pool_get(&s->small_frames);
	if (small == NULL) {
		return f;
	}
	memcpy(small, f, sizeof(*f) + f->length);
	small->big = false;
	session_frame_free(s, f);
	return small;
}

static size_t
pull_body(struct session_out *out, uint8_t *buf, size_t max)
{
	struct session_request *req = out->req;
	size_t left = req->body_len - (size_t)out->sent;
	size_t n = left < max ? left : max;

	memcpy(buf, req->body + out->sent, n);
	if (n == left) {
		free(req->body);
		req->body = NULL;
		out->ready = false;
		out->ended = true;
	}
	return n;
}

/* Let one flow fill a frame; NULL if it had nothing, or without room. */
static struct session_frame *
pull(struct session *s, struct session_out *out)
{
	unsigned index = out == &out->req->out[1];
	struct session_frame *f = session_frame_new(s, WIRE_FRAME_MAX);
	uint64_t room = out->limit - out->sent;
	size_t n, max = room < WIRE_DATA_MAX ? (size_t)room : WIRE_DATA_MAX;

	if (f == NULL) {
		return NULL;
	}
	if (session_out_is_body(out)) {
		n = pull_body(out, payload(f), max);
	} else {
		n = s->config.events->pull(s->config.ctx, out->req, index,
		    payload(f), max);
	}
	if (n == 0) {
		out->ready = false;
		out->burst = 0;
		place(out);
		if (out->ending) {
			session_mark(out->req);
		}
		session_frame_free(s, f);
		return NULL;
	}
	data_header(f, out, n);
	place(out);
	return shrink(s, f);
}

struct session_frame *
session_data_frame(struct session *s)
{
	struct session_frame *f;
	struct list *ring;
	bool bulk, small;

	for (;;) {
		bulk = !list_empty(&s->bulk) && session_bulk_fits(s);
		small = !list_empty(&s->small) && session_small_fits(s);
		if (!bulk && !small) {
			return NULL;
		}
		ring = !small || (bulk &&
		    s->since_bulk >= SESSION_BULK_EVERY - 1) ?
		    &s->bulk : &s->small;
		f = pull(s, LIST_OF(ring->next, struct session_out, link));
		if (f != NULL) {
			return f;
		}
	}
}

size_t
session_push(struct session_request *req, unsigned index, const uint8_t *from,
    size_t len)
{
	struct session_out *out = &req->out[index];
	struct session *s = req->session;
	struct session_frame *f;
	size_t n, done = 0;

	if (out->unwanted) {
		return len;
	}
	while (done < len && s->attached && !out->ready && !out->ending &&
	    req->state != SESSION_OPENING && out->sent < out->limit &&
	    s->queued < SESSION_QUEUED &&
	    (is_bulk(out) ? session_bulk_fits(s) : session_small_fits(s))) {
		n = len - done < WIRE_DATA_MAX ? len - done : WIRE_DATA_MAX;
		if (n > out->limit - out->sent) {
			n = (size_t)(out->limit - out->sent);
		}
		f = session_frame_new(s, WIRE_DATA_HEADER + n);
		if (f == NULL) {
			break;
		}
		memcpy(payload(f), from + done, n);
		data_header(f, out, n);
		f->flow = out;
		out->queued++;
		s->queued++;
		*(s->queue_last == NULL ? &s->queue_first :
		    &s->queue_last->next) = f;
		s->queue_last = f;
		done += n;
	}
	return done;
}

struct session_frame *
session_pushed_frame(struct session *s)
{
	struct session_frame *f = s->queue_first;

	if (f == NULL) {
		return NULL;
	}
	s->queue_first = f->next;
	if (s->queue_first == NULL) {
		s->queue_last = NULL;
	}
	s->queued--;
	if (f->flow != NULL) {
		f->flow->queued--;
		session_mark(f->flow->req);
		f->flow = NULL;
	}
	f->next = NULL;
	return f;
}
