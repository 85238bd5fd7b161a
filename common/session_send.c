/* SPDX-License-Identifier: MIT */
/* session_send.c - the store, the order of sending, the cap on bulk. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "session_private.h"

#define WINDOW_US 5000000u		/* one of the two periods looked at */
#define PLAIN_BIG 8u			/* slots where nothing is stored */
#define PLAIN_SMALL 32u

int
session_store_init(struct session *s)
{
	bool stored = s->config.stored;

	if (pool_init(&s->big_frames,
	    sizeof(struct session_frame) + WIRE_RECORD_PLAIN,
	    stored ? SESSION_STORE_BIG : PLAIN_BIG) == -1) {
		return -1;
	}
	return pool_init(&s->small_frames,
	    sizeof(struct session_frame) + SESSION_SMALL,
	    stored ? SESSION_STORE_SMALL : PLAIN_SMALL);
}

void
session_store_free(struct session *s)
{
	pool_free(&s->big_frames);
	pool_free(&s->small_frames);
}

struct session_frame *
session_frame_new(struct session *s, size_t size)
{
	bool big = size + WIRE_NUMBER > SESSION_SMALL;
	struct session_frame *f;

	if (size > WIRE_FRAME_MAX) {
		return NULL;
	}
	f = pool_get(big ? &s->big_frames : &s->small_frames);
	if (f != NULL) {
		memset(f, 0, sizeof(*f));
		f->big = big;
		f->length = (uint32_t)(size + WIRE_NUMBER);
	}
	return f;
}

static void
frame_free(struct session *s, struct session_frame *f)
{
	if (f != NULL) {
		pool_put(f->big ? &s->big_frames : &s->small_frames, f);
	}
}

/* ---- how much bulk may be in flight ---------------------------------- */

static void
window_turn(struct session_window *w, uint64_t now)
{
	if (now - w->since >= WINDOW_US) {
		w->before = now - w->since >= 2 * WINDOW_US ? 0 : w->now;
		w->now = 0;
		w->since = now;
	}
}

static void
sample(struct session *s, const struct session_frame *f, uint64_t now)
{
	uint64_t took = now > f->sent_at ? now - f->sent_at : 1;
	uint64_t rate = (s->delivered - f->delivered) * 1000000u / took;

	window_turn(&s->rtt, now);
	window_turn(&s->rate, now);
	if (s->rtt.now == 0 || took < s->rtt.now) {
		s->rtt.now = took;
	}
	if (rate > s->rate.now) {
		s->rate.now = rate;
	}
}

static uint64_t
least_rtt(const struct session *s)
{
	uint64_t a = s->rtt.now, b = s->rtt.before;

	return a == 0 ? b : b == 0 || a < b ? a : b;
}

static uint64_t
cap(const struct session *s)
{
	uint64_t rate = s->rate.now > s->rate.before ?
	    s->rate.now : s->rate.before;
	uint64_t bytes = 2 * least_rtt(s) * rate / 1000000u;

	return bytes > SESSION_CAP_MIN ? bytes : SESSION_CAP_MIN;
}

static bool
bulk_fits(const struct session *s)
{
	if (!s->config.stored) {
		return pool_left(&s->big_frames) > 1;
	}
	return s->big_frames.used < SESSION_STORE_BULK &&
	    s->small_frames.used < SESSION_STORE_SMALL / 4 * 3 &&
	    s->in_flight < cap(s);
}

static bool
small_fits(const struct session *s)
{
	if (!s->config.stored) {
		return pool_left(&s->big_frames) > 1;
	}
	return s->big_frames.used < SESSION_STORE_DATA &&
	    s->small_frames.used < SESSION_STORE_SMALL / 8 * 7;
}

/* ---- flows ----------------------------------------------------------- */

static bool
is_bulk(const struct session_out *out)
{
	uint8_t kind = out->req->kind;

	return kind == WIRE_PUT || kind == WIRE_GET || kind == WIRE_ECHO ||
	    out->burst >= SESSION_BULK_AFTER;
}

static bool
is_body(const struct session_out *out)
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

	if (limit == WIRE_UNWANTED && !out->unwanted && !is_body(out)) {
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
	return is_bulk(out) ? bulk_fits(s) : small_fits(s);
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
	size_t len;
	struct wire msg = { .type = WIRE_DATA, .u.data = {
		.request = out->req->id,
		.channel = session_out_channel(s, index),
		.offset = out->sent,
	} };

	wire_encode(&msg, f->bytes + WIRE_NUMBER, WIRE_DATA_HEADER, &len);
	f->length = (uint32_t)(WIRE_NUMBER + WIRE_DATA_HEADER + n);
	f->bulk = is_bulk(out);
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
	frame_free(s, f);
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
	if (is_body(out)) {
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
		frame_free(s, f);
		return NULL;
	}
	data_header(f, out, n);
	place(out);
	return shrink(s, f);
}

static struct session_frame *
data(struct session *s)
{
	struct session_frame *f;
	struct list *ring;
	bool bulk, small;

	for (;;) {
		bulk = !list_empty(&s->bulk) && bulk_fits(s);
		small = !list_empty(&s->small) && small_fits(s);
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
	    (is_bulk(out) ? bulk_fits(s) : small_fits(s))) {
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

static struct session_frame *
pushed(struct session *s)
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

/* ---- control frames -------------------------------------------------- */

static bool
due_signal(struct session_request *req, struct wire *msg)
{
	uint8_t number = 0;

	if (req->signals == 0) {
		return false;
	}
	while ((req->signals >> number & 1) == 0) {
		number++;
	}
	req->signals &= ~(UINT64_C(1) << number);
	msg->type = WIRE_SIGNAL;
	msg->u.signal.request = req->id;
	msg->u.signal.signal = number;
	return true;
}

static bool
due_opener(struct session_request *req, struct wire *msg)
{
	if (req->state == SESSION_OPENING) {
		msg->type = WIRE_OPEN;
		msg->u.open = (struct wire_open){
			.request = req->id, .kind = req->kind,
			.body = req->body_len, .out = req->in[0].granted,
			.err = req->in[1].granted
		};
		req->state = SESSION_RUNNING;
		session_out_start(req);
		return true;
	}
	if (req->cancel_due) {
		req->cancel_due = false;
		msg->type = WIRE_CANCEL;
		msg->u.cancel.request = req->id;
		return true;
	}
	if (due_signal(req, msg)) {
		return true;
	}
	if (req->resize_due) {
		req->resize_due = false;
		msg->type = WIRE_RESIZE;
		msg->u.resize = (struct wire_resize){ req->id, req->rows,
		    req->columns };
		return true;
	}
	return false;
}

static bool
due_credit(struct session_request *req, struct wire *msg)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		if (req->in[i].credit_due) {
			req->in[i].credit_due = false;
			msg->type = WIRE_CREDIT;
			msg->u.credit = (struct wire_credit){ req->id,
			    session_in_channel(req->session, i),
			    req->in[i].drop ? WIRE_UNWANTED :
			    req->in[i].granted };
			return true;
		}
	}
	return false;
}

static bool
due_eof(struct session_request *req, struct wire *msg)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct session_out *out = &req->out[i];

		if (out->ending && !out->ready && !out->ended &&
		    !out->unwanted && out->queued == 0 && !is_body(out) &&
		    req->state == SESSION_RUNNING) {
			out->ended = true;
			msg->type = WIRE_EOF;
			msg->u.eof = (struct wire_eof){ req->id,
			    session_out_channel(req->session, i), out->sent };
			return true;
		}
	}
	return false;
}

static bool
due_result(struct session_request *req, struct wire *msg)
{
	if (req->state != SESSION_RESULT_DUE || req->out[0].queued > 0 ||
	    req->out[1].queued > 0) {
		return false;
	}
	msg->type = WIRE_RESULT;
	msg->u.result = req->result;
	return true;
}

static struct session_frame *
log_frame(struct session *s)
{
	struct session_frame *f;
	size_t len;
	struct wire msg = { .type = WIRE_LOG, .u.log = { s->log_level,
	    wire_string(s->log_text) } };

	f = session_frame_new(s, wire_size(&msg));
	if (f != NULL) {
		wire_encode(&msg, f->bytes + WIRE_NUMBER, WIRE_FRAME_MAX, &len);
		s->log_due = false;
	}
	return f;
}

/* The slot comes first: what is due must not be lost for want of one. */
static struct session_frame *
control_of(struct session *s, struct session_request *req)
{
	size_t len, most = req->state == SESSION_RESULT_DUE ?
	    128 + req->result.text.len + req->result.info.len :
	    SESSION_SMALL - WIRE_NUMBER;
	struct session_frame *f = session_frame_new(s, most);
	struct wire msg = { 0 };

	if (f == NULL) {
		return NULL;
	}
	if (!((!s->config.server && due_opener(req, &msg)) ||
	    due_credit(req, &msg) || due_eof(req, &msg) ||
	    due_result(req, &msg))) {
		list_remove(&req->dirty);
		frame_free(s, f);
		return NULL;
	}
	wire_encode(&msg, f->bytes + WIRE_NUMBER, WIRE_FRAME_MAX, &len);
	f->length = (uint32_t)(len + WIRE_NUMBER);
	if (msg.type == WIRE_RESULT) {
		if (s->config.events->closed != NULL) {
			s->config.events->closed(s->config.ctx, req);
		}
		session_free_request(req);
	}
	return f;
}

static struct session_frame *
control(struct session *s)
{
	struct session_request *req;
	struct session_frame *f;

	if (s->log_due && (f = log_frame(s)) != NULL) {
		return f;
	}
	while (!list_empty(&s->dirty)) {
		req = LIST_OF(s->dirty.next, struct session_request, dirty);
		f = control_of(s, req);
		if (f != NULL) {
			return f;
		}
		if (!list_empty(&req->dirty)) {
			return NULL;	/* no slot: an ACK will bring one */
		}
	}
	return NULL;
}

/* ---- the carrier's side ---------------------------------------------- */

bool
session_pending(const struct session *s)
{
	if (!s->attached) {
		return false;
	}
	if (s->resend != NULL || s->queue_first != NULL) {
		return true;
	}
	if ((s->log_due || !list_empty(&s->dirty)) &&
	    pool_left(&s->small_frames) > 0 && pool_left(&s->big_frames) > 0) {
		return true;
	}
	return (!list_empty(&s->small) && small_fits(s)) ||
	    (!list_empty(&s->bulk) && bulk_fits(s));
}

static void
mark_sent(struct session *s, struct session_frame *f)
{
	f->sent_at = clock_now();
	f->delivered = s->delivered;
	if (f->bulk) {
		s->in_flight += f->length;
		s->since_bulk = 0;
	} else {
		s->since_bulk++;
	}
}

static void
number(struct session *s, struct session_frame *f)
{
	unsigned i;

	f->number = s->next++;
	for (i = 0; i < WIRE_NUMBER; i++) {
		f->bytes[i] = (uint8_t)(f->number >> 8 * (7 - i));
	}
	f->next = NULL;
	if (s->last != NULL) {
		s->last->next = f;
	} else {
		s->first = f;
	}
	s->last = f;
}

const struct session_frame *
session_next(struct session *s)
{
	struct session_frame *f;

	frame_free(s, s->spent);
	s->spent = NULL;
	if (!s->attached) {
		return NULL;
	}
	if (s->resend != NULL) {
		f = s->resend;
		s->resend = f->next;
		mark_sent(s, f);
		return f;
	}
	f = control(s);
	if (f == NULL) {
		f = pushed(s);
	}
	if (f == NULL) {
		f = data(s);
	}
	if (f == NULL) {
		f = control(s);		/* a pull may have met the end */
	}
	if (f == NULL) {
		return NULL;
	}
	if (!s->config.stored) {
		s->spent = f;
		return f;
	}
	number(s, f);
	mark_sent(s, f);
	return f;
}

static int
check_position(const struct session *s, uint64_t next, struct error *error)
{
	uint64_t oldest = s->first != NULL ? s->first->number : s->next;

	if (next < oldest || next > s->next) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "position %llu outside "
		    "%llu to %llu", (unsigned long long)next,
		    (unsigned long long)oldest, (unsigned long long)s->next);
		return -1;
	}
	return 0;
}

int
session_acked(struct session *s, uint64_t next, struct error *error)
{
	struct session_frame *f, newest = { .sent_at = 0 };

	if (check_position(s, next, error) == -1) {
		return -1;
	}
	while ((f = s->first) != NULL && f->number < next) {
		if (f->sent_at != 0 && f->bulk) {
			s->in_flight -= f->length;
			newest = *f;
		}
		s->delivered += f->bulk ? f->length : 0;
		if (s->resend == f) {
			s->resend = f->next;
		}
		s->first = f->next;
		frame_free(s, f);
	}
	if (s->first == NULL) {
		s->last = NULL;
	}
	if (newest.sent_at != 0) {
		sample(s, &newest, clock_now());
	}
	return 0;
}

int
session_attach(struct session *s, uint64_t next, struct error *error)
{
	struct session_frame *f;

	if (check_position(s, next, error) == -1) {
		return -1;
	}
	for (f = s->first; f != NULL; f = f->next) {
		f->sent_at = 0;
	}
	s->in_flight = 0;
	s->resend = s->first;
	s->attached = true;
	s->attachments++;
	return session_acked(s, next, error);
}

void
session_detach(struct session *s)
{
	s->attached = false;
}

uint64_t
session_attachment(const struct session *s)
{
	return s->attached ? s->attachments : 0;
}

void
session_figures(const struct session *s, struct session_figures *figures)
{
	*figures = (struct session_figures){
		.sent = s->sent_bytes, .received = s->received_bytes,
		.in_flight = s->in_flight, .cap = cap(s),
		.rtt_us = least_rtt(s),
		.stored_big = s->big_frames.used,
		.stored_small = s->small_frames.used
	};
}

void
session_trim(struct session *s)
{
	pool_trim(&s->big_frames);
	pool_trim(&s->small_frames);
	pool_trim(&s->config.budget->chunks);
}
