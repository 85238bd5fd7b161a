/* SPDX-License-Identifier: MIT */
/* lanes.h - frames between two sessions in memory; include after rig.h. */
#ifndef LANES_H
#define LANES_H

#include "rig.h"

struct parcel {
	struct parcel *next;
	uint64_t number;
	size_t len;
	uint8_t bytes[];
};

struct lane {
	struct session *from, *to;
	struct parcel *first, *last;
	size_t count;
	uint64_t moved;			/* frames that arrived */
};

struct lanes {
	struct lane up, down;		/* opener to server, and back */
	bool stored;
};

/* Take a frame that from has to send; false if there is none. */
static inline bool
lane_take(struct lane *lane)
{
	const struct session_frame *f = session_next(lane->from);
	struct parcel *p;

	if (f == NULL && session_pending(lane->from)) {
		/* The time of a small cap on bulk ended between the two. */
		f = session_next(lane->from);
		assert_non_null(f);
	}
	if (f == NULL) {
		return false;
	}
	assert_true(f->length > WIRE_NUMBER &&
	    f->length <= WIRE_RECORD_PLAIN);
	p = malloc(sizeof(*p) + f->length);
	p->next = NULL;
	p->number = f->number;
	p->len = f->length - WIRE_NUMBER;
	memcpy(p->bytes, f->bytes + WIRE_NUMBER, p->len);
	*(lane->first == NULL ? &lane->first : &lane->last->next) = p;
	lane->last = p;
	lane->count++;
	return true;
}

/* Let the oldest frame arrive; false if there is none. */
static inline bool
lane_give(struct lane *lane)
{
	struct parcel *p = lane->first;
	struct error error;

	if (p == NULL) {
		return false;
	}
	lane->first = p->next;
	lane->count--;
	lane->moved++;
	if (session_receive(lane->to, p->number, p->bytes, p->len,
	    &error) == -1) {
		fail_msg("%s", error.text);
	}
	free(p);
	return true;
}

static inline void
lane_ack(struct lane *lane)
{
	struct error error;

	if (session_acked(lane->from, session_expected(lane->to), &error) ==
	    -1) {
		fail_msg("%s", error.text);
	}
}

static inline void
lane_clear(struct lane *lane)
{
	struct parcel *p;

	while ((p = lane->first) != NULL) {
		lane->first = p->next;
		free(p);
	}
	lane->count = 0;
}

/* (Re)attach both ends: what was under way is lost. */
static inline void
lanes_attach(struct lanes *lanes, struct rig *rig, bool stored)
{
	struct error error;

	lanes->stored = stored;
	lanes->up.from = lanes->down.to = rig->opener;
	lanes->up.to = lanes->down.from = rig->server;
	lane_clear(&lanes->up);
	lane_clear(&lanes->down);
	assert_int_equal(session_attach(rig->server, stored ?
	    session_expected(rig->opener) : 0, &error), 0);
	assert_int_equal(session_attach(rig->opener, stored ?
	    session_expected(rig->server) : 0, &error), 0);
}

/* Everything moves; true if anything did. */
static inline bool
lanes_step(struct lanes *lanes)
{
	bool any = false;

	while (lane_take(&lanes->up) || lane_take(&lanes->down)) {
		any = true;
	}
	while (lane_give(&lanes->up) || lane_give(&lanes->down)) {
		any = true;
	}
	if (lanes->stored) {
		lane_ack(&lanes->up);
		lane_ack(&lanes->down);
	}
	return any;
}

/* Until all requests are over; fails the test if nothing moves for long. */
static inline void
lanes_finish(struct lanes *lanes, struct rig *rig)
{
	unsigned idle = 0;

	while (!rig_over(rig)) {
		rig_turn(rig);
		idle = lanes_step(lanes) ? 0 : idle + 1;
		if (idle > 200) {
			fail_msg("stuck with %u and %u requests",
			    session_count(rig->opener),
			    session_count(rig->server));
		}
	}
	lanes_step(lanes);
}

/* Turns without an end in sight. */
static inline void
lanes_run(struct lanes *lanes, struct rig *rig, unsigned turns)
{
	while (turns-- > 0) {
		rig_turn(rig);
		lanes_step(lanes);
	}
}

#endif
