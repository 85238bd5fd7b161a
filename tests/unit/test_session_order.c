/* SPDX-License-Identifier: MIT */
/* test_session_order.c - what is sent first, and what the store is kept for. */
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lanes.h"
#include "rig.h"

static unsigned
id_of(const struct session_frame *f)
{
	const uint8_t *at = f->bytes + WIRE_NUMBER + 1;

	return (unsigned)at[0] << 24 | (unsigned)at[1] << 16 |
	    (unsigned)at[2] << 8 | at[3];
}

static uint8_t
type_of(const struct session_frame *f)
{
	return f->bytes[WIRE_NUMBER];
}

/*
 * n requests of a kind that send much on OUT: opened, their other ends told,
 * and out of credit.
 */
static void
start(struct rig *rig, struct lanes *lanes, unsigned n, uint8_t kind,
    uint64_t out)
{
	struct rig_plan plan = rig_plan_new(10);
	const struct session_frame *f;
	struct error error;
	unsigned i;

	plan.kind = kind;
	plan.out[0] = out;
	plan.whole = plan.no_eof = true;
	for (i = 0; i < n; i++) {
		assert_non_null(rig_open(rig, &plan));
	}
	while (lane_take(&lanes->up) && lane_give(&lanes->up)) {
		continue;
	}
	while ((f = session_next(rig->server)) != NULL) {
		if (lanes->stored) {
			assert_int_equal(session_acked(rig->server,
			    f->number + 1, &error), 0);
		}
	}
}

/* As much credit as one could wish for, without a reader's doing. */
static void
unlimited(struct rig *rig, unsigned id)
{
	struct wire msg = { .type = WIRE_CREDIT, .u.credit = { id, WIRE_CH_OUT,
	    UINT64_MAX - 1 } };
	struct error error;
	uint8_t frame[64];
	size_t len;

	assert_int_equal(wire_encode(&msg, frame, sizeof(frame), &len),
	    WIRE_OK);
	assert_int_equal(session_receive(rig->server,
	    session_expected(rig->server), frame, len, &error), 0);
}

static void
ends(struct rig *rig, struct lanes *lanes)
{
	lane_clear(&lanes->up);
	lane_clear(&lanes->down);
	rig_free(rig);
}

/* ---- priorities --------------------------------------------------------- */

static void
test_small_overtakes_bulk(void **state)
{
	struct rig *rig = rig_new(1, true);
	struct lanes lanes = { .stored = true };
	const struct session_frame *f;
	unsigned n;

	(void)state;
	lanes_attach(&lanes, rig, true);
	start(rig, &lanes, 3, WIRE_GET, 1 << 30);
	start(rig, &lanes, 1, WIRE_EXEC, 0);
	for (n = 1; n <= 3; n++) {
		unlimited(rig, n);
	}
	/* Bulk has the link for itself: no command is recent. */
	usleep((SESSION_BRISK_MS + 2) * 1000);
	for (n = 0; n < 6; n++) {
		f = session_next(rig->server);
		assert_non_null(f);
	}
	assert_int_equal(type_of(f), WIRE_DATA);
	assert_true(id_of(f) <= 3);
	/* A byte of output goes next. */
	rig->asks[4].plan.out[0] = 1;
	rig->jobs[4].out_done[0] = false;
	rig->jobs[4].req->out[0].ended = false;
	session_ready(rig->jobs[4].req, 0);
	f = session_next(rig->server);
	assert_int_equal(type_of(f), WIRE_DATA);
	assert_int_equal(id_of(f), 4);
	ends(rig, &lanes);
}

static void
test_control_before_data(void **state)
{
	struct rig *rig = rig_new(2, true);
	struct lanes lanes = { .stored = true };
	const struct session_frame *f;

	(void)state;
	lanes_attach(&lanes, rig, true);
	start(rig, &lanes, 2, WIRE_GET, 1 << 30);
	unlimited(rig, 1);
	f = session_next(rig->server);
	assert_int_equal(type_of(f), WIRE_DATA);
	session_log(rig->server, 0, "now");
	assert_int_equal(type_of(session_next(rig->server)), WIRE_LOG);
	rig->jobs[2].cancelled = true;
	rig_finish(&rig->jobs[2], WIRE_CANCELLED, 0);
	f = session_next(rig->server);
	assert_int_equal(type_of(f), WIRE_RESULT);
	assert_int_equal(id_of(f), 2);
	ends(rig, &lanes);
}

/* Bulk gets at least every eighth record beside any number of small flows. */
static void
test_bulk_is_not_starved(void **state)
{
	struct rig *rig = rig_new(3, true);
	struct lanes lanes = { .stored = true };
	const struct session_frame *f;
	unsigned n, since = 0, bulk = 0;
	struct error error;

	(void)state;
	lanes_attach(&lanes, rig, true);
	start(rig, &lanes, 1, WIRE_GET, 1 << 30);
	start(rig, &lanes, 50, WIRE_EXEC, 1 << 30);
	for (n = 1; n <= 51; n++) {
		unlimited(rig, n);
	}
	for (n = 0; n < 800; n++) {
		/* The small ones stay small: they run dry in between. */
		unsigned id;

		for (id = 2; id <= 51; id++) {
			rig->jobs[id].req->out[0].burst = 0;
		}
		f = session_next(rig->server);
		assert_non_null(f);
		assert_int_equal(session_acked(rig->server, f->number + 1,
		    &error), 0);
		if (f->bulk) {
			bulk++;
			since = 0;
		} else {
			since++;
			assert_true(since <= 7);
		}
	}
	assert_in_range(bulk, 800 / 8, 800 / 8 + 1);
	ends(rig, &lanes);
}

/* Flows of one class take turns. */
static void
test_turns(void **state)
{
	struct rig *rig = rig_new(4, false);
	struct lanes lanes = { .stored = false };
	const struct session_frame *f;
	unsigned n, count[11] = { 0 };

	(void)state;
	lanes_attach(&lanes, rig, false);
	start(rig, &lanes, 10, WIRE_GET, 1 << 30);
	for (n = 1; n <= 10; n++) {
		unlimited(rig, n);
	}
	for (n = 0; n < 1000; n++) {
		f = session_next(rig->server);
		assert_non_null(f);
		if (type_of(f) == WIRE_DATA) {
			count[id_of(f)]++;
		}
	}
	for (n = 1; n <= 10; n++) {
		assert_in_range(count[n], 98, 100);
	}
	ends(rig, &lanes);
}

/* A flow becomes bulk by 64 KiB without a pause, and is small again after. */
static void
test_becomes_bulk(void **state)
{
	struct rig *rig = rig_new(5, true);
	struct lanes lanes = { .stored = true };
	const struct session_frame *f;
	uint64_t sent = SESSION_WINDOW_MIN;

	(void)state;
	lanes_attach(&lanes, rig, true);
	start(rig, &lanes, 1, WIRE_EXEC, 200000);
	unlimited(rig, 1);
	while (sent < 200000) {
		f = session_next(rig->server);
		if (f == NULL) {
			/* Its own beginning made it wait: a small flow's. */
			assert_true(session_brisk(rig->server));
			usleep((SESSION_BRISK_MS + 2) * 1000);
			f = session_next(rig->server);
		}
		assert_int_equal(type_of(f), WIRE_DATA);
		assert_int_equal(f->bulk, sent >= SESSION_BULK_AFTER);
		sent += f->length - WIRE_NUMBER - WIRE_DATA_HEADER;
	}
	ends(rig, &lanes);
}

/* ---- the store and the cap ----------------------------------------------- */

/* Without acknowledgements bulk stops at the cap, and below its part. */
static void
test_bulk_cap(void **state)
{
	struct rig *rig = rig_new(6, true);
	struct lanes lanes = { .stored = true };
	struct session_figures figures;
	const struct session_frame *f;
	unsigned n = 0;

	(void)state;
	lanes_attach(&lanes, rig, true);
	start(rig, &lanes, 2, WIRE_GET, 1 << 30);
	start(rig, &lanes, 1, WIRE_EXEC, 60000);
	for (n = 1; n <= 3; n++) {
		unlimited(rig, n);
	}
	/* Just after a command and its output bulk makes room. */
	while (session_next(rig->server) != NULL) {
		session_figures(rig->server, &figures);
		assert_true(figures.in_flight <
		    SESSION_CAP_BRISK + WIRE_RECORD_PLAIN);
	}
	assert_true(session_brisk(rig->server));
	assert_true(figures.in_flight >= SESSION_CAP_BRISK);
	usleep((SESSION_BRISK_MS + 2) * 1000);
	assert_false(session_brisk(rig->server));
	while (session_next(rig->server) != NULL) {
		session_figures(rig->server, &figures);
		assert_true(figures.in_flight <
		    SESSION_CAP_MIN + WIRE_RECORD_PLAIN);
	}
	assert_false(session_pending(rig->server));
	session_figures(rig->server, &figures);
	assert_int_equal(figures.cap, SESSION_CAP_MIN);
	assert_true(figures.in_flight >= SESSION_CAP_MIN);
	/* The command's output was not held back. */
	assert_int_equal(rig->jobs[3].out_sent[0], 60000);
	/* Small things still go. */
	session_log(rig->server, 0, "x");
	f = session_next(rig->server);
	assert_int_equal(type_of(f), WIRE_LOG);
	ends(rig, &lanes);
}

/* Small flows leave slots for control, whatever they send. */
static void
test_control_slots(void **state)
{
	struct rig *rig = rig_new(7, true);
	struct lanes lanes = { .stored = true };
	struct session_figures figures;
	const struct session_frame *f;
	unsigned n;

	(void)state;
	lanes_attach(&lanes, rig, true);
	start(rig, &lanes, 60, WIRE_EXEC, 60000);
	for (n = 1; n <= 60; n++) {
		unlimited(rig, n);
	}
	while (session_next(rig->server) != NULL) {
		continue;
	}
	session_figures(rig->server, &figures);
	assert_true(figures.stored_big < SESSION_STORE_BIG);
	/* A result with much text needs a big slot. */
	for (n = 1; n <= 2; n++) {
		struct wire_result r = { .info = { (const uint8_t *)
		    "0123456789", 10 }, .text = wire_string("a long text"
		    "a long texta long texta long texta long texta long text"
		    "a long texta long texta long texta long texta long text"
		    "a long texta long texta long texta long texta long text") };

		session_result(rig->jobs[n].req, &r);
		f = session_next(rig->server);
		assert_non_null(f);
		assert_int_equal(type_of(f), WIRE_RESULT);
	}
	ends(rig, &lanes);
}

static size_t
one_byte(void *ctx, struct session_request *req, unsigned index, uint8_t *buf,
    size_t max)
{
	(void)ctx;
	(void)req;
	(void)index;
	(void)max;
	*buf = 'x';
	return 1;
}

/* Bulk in tiny pieces does not take the small slots from control. */
static void
test_tiny_bulk(void **state)
{
	struct session_events events = rig_server_events;
	struct rig *rig = rig_new(8, true);
	struct session_config config = { .events = &events, .ctx = rig,
	    .budget = &rig->sb, .server = true, .stored = true };
	struct lanes lanes = { .stored = true };
	struct session_figures figures;
	unsigned n = 0;

	(void)state;
	events.pull = one_byte;
	session_free(rig->server);
	rig->server = session_new(&config);
	lanes_attach(&lanes, rig, true);
	start(rig, &lanes, 1, WIRE_ECHO, 1 << 30);
	unlimited(rig, 1);
	while (session_next(rig->server) != NULL) {
		assert_true(++n < 20000);
	}
	session_figures(rig->server, &figures);
	assert_true(figures.stored_small <= SESSION_STORE_SMALL / 4 * 3 + 8);
	session_log(rig->server, 0, "still goes");
	assert_non_null(session_next(rig->server));
	ends(rig, &lanes);
}

/* ---- without a store ------------------------------------------------------ */

static void
test_unstored_bounded(void **state)
{
	struct rig *rig = rig_new(9, false);
	struct lanes lanes = { .stored = false };
	struct session_figures figures;
	uint8_t buf[SESSION_WINDOW_MIN];
	unsigned n;

	(void)state;
	lanes_attach(&lanes, rig, false);
	start(rig, &lanes, 30, WIRE_EXEC, 0);
	for (n = 0; n < 1000; n++) {
		session_next(rig->server);
	}
	memset(buf, 0, sizeof(buf));
	for (n = 1; n <= 30; n++) {
		rig->jobs[n].req->out[0].ending = false;
		session_push(rig->jobs[n].req, 0, buf, sizeof(buf));
		session_figures(rig->server, &figures);
		assert_true(figures.stored_big + figures.stored_small <= 4);
	}
	session_log(rig->server, 0, "goes");
	assert_int_equal(type_of(session_next(rig->server)), WIRE_LOG);
	ends(rig, &lanes);
}

/* Nothing is sent without a carrier, and nothing is lost by that. */
static void
test_detached(void **state)
{
	struct rig *rig = rig_new(10, true);
	struct rig_plan plan = rig_plan_new(100);
	struct lanes lanes = { .stored = true };

	(void)state;
	plan.in = plan.out[0] = 100000;
	rig_open(rig, &plan);
	assert_null(session_next(rig->opener));
	assert_false(session_pending(rig->opener));
	lanes_attach(&lanes, rig, true);
	lanes_run(&lanes, rig, 2);
	session_detach(rig->server);
	session_detach(rig->opener);
	assert_null(session_next(rig->opener));
	assert_null(session_next(rig->server));
	assert_false(session_hungry(rig->jobs[1].req, 0));
	assert_int_equal(session_push(rig->jobs[1].req, 0, (const uint8_t *)
	    "x", 1), 0);
	lanes_attach(&lanes, rig, true);
	lanes_finish(&lanes, rig);
	rig_verify_all(rig);
	ends(rig, &lanes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_overtakes_bulk),
		cmocka_unit_test(test_control_before_data),
		cmocka_unit_test(test_bulk_is_not_starved),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_becomes_bulk),
		cmocka_unit_test(test_bulk_cap),
		cmocka_unit_test(test_control_slots),
		cmocka_unit_test(test_tiny_bulk),
		cmocka_unit_test(test_unstored_bounded),
		cmocka_unit_test(test_detached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
