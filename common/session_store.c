/* SPDX-License-Identifier: MIT */
/*
 * session_store.c - frames that are kept until acknowledged, how much bulk
 * may be in flight, and which frame the carrier gets next.
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "session_private.h"

#define WINDOW_US 5000000u		/* one of the two periods looked at */
#define ALONE 65536u			/* bytes: one ACK step */
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

void
session_frame_free(struct session *s, struct session_frame *f)
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

	/*
	 * A round trip behind our own bulk measures the queue, and a cap made
	 * of it makes the queue longer still.  The last good one stays until
	 * there is a better one.
	 */
	if (f->alone) {
		window_turn(&s->rtt, now);
		if (s->rtt.now == 0 || took < s->rtt.now) {
			s->rtt.now = took;
		}
	}
	window_turn(&s->rate, now);
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

bool
session_brisk(const struct session *s)
{
	return s->brisk_at != 0 &&
	    clock_now() - s->brisk_at < SESSION_BRISK_MS * CLOCK_MS;
}

static uint64_t
cap(const struct session *s, bool brisk)
{
	uint64_t rate = s->rate.now > s->rate.before ?
	    s->rate.now : s->rate.before;
	uint64_t rtt = least_rtt(s), least = SESSION_CAP_MIN, bytes;

	if (brisk) {
		/* An acknowledgement's own delay is no length of the link. */
		rtt -= rtt < SESSION_ACK_MS * CLOCK_MS ? rtt :
		    SESSION_ACK_MS * CLOCK_MS;
		least = SESSION_CAP_BRISK;
	}
	/* A quarter more than fits, so that a long link's cap can grow. */
	bytes = rtt * rate / 800000u;
	return bytes > least ? bytes : least;
}

bool
session_bulk_fits(const struct session *s)
{
	if (!s->config.stored) {
		return pool_left(&s->big_frames) > 1;
	}
	return s->big_frames.used < SESSION_STORE_BULK &&
	    s->small_frames.used < SESSION_STORE_SMALL / 4 * 3 &&
	    s->in_flight < cap(s, session_brisk(s));
}

bool
session_small_fits(const struct session *s)
{
	if (!s->config.stored) {
		return pool_left(&s->big_frames) > 1;
	}
	return s->big_frames.used < SESSION_STORE_DATA &&
	    s->small_frames.used < SESSION_STORE_SMALL / 8 * 7;
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
	return (!list_empty(&s->small) && session_small_fits(s)) ||
	    (!list_empty(&s->bulk) && session_bulk_fits(s));
}

static void
mark_sent(struct session *s, struct session_frame *f)
{
	f->sent_at = clock_now();
	f->delivered = s->delivered;
	f->alone = s->in_flight < ALONE;
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
	f->number = s->next++;
	wire_number_put(f->bytes, f->number, WIRE_NUMBER);
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

	session_frame_free(s, s->spent);
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
	f = session_control_frame(s);
	if (f == NULL) {
		f = session_pushed_frame(s);
	}
	if (f == NULL) {
		f = session_data_frame(s);
	}
	if (f == NULL) {
		/* A pull may have met the end. */
		f = session_control_frame(s);
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

static uint64_t
oldest_frame(const struct session *s)
{
	return s->first != NULL ? s->first->number : s->next;
}

uint64_t
session_progress(const struct session *s)
{
	return oldest_frame(s) + s->expected;
}

static int
check_position(const struct session *s, uint64_t next, struct error *error)
{
	uint64_t oldest = oldest_frame(s);

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
		session_frame_free(s, f);
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
		.in_flight = s->in_flight, .cap = cap(s, false),
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
