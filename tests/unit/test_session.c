/* SPDX-License-Identifier: MIT */
/* test_session.c - two sessions joined in memory: requests, credit, ends. */
#include "session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "lanes.h"
#include "rig.h"

static const struct session_in *
opener_in(const struct rig_ask *ask, unsigned index)
{
	return &ask->req->in[index];
}

static void
store_is_empty(struct session *session)
{
	struct session_figures figures;

	session_figures(session, &figures);
	assert_int_equal(figures.stored_big, 0);
	assert_int_equal(figures.stored_small, 0);
	assert_int_equal(figures.in_flight, 0);
}

static void
end(struct rig *rig, struct lanes *lanes)
{
	lanes_finish(lanes, rig);
	rig_verify_all(rig);
	store_is_empty(rig->opener);
	store_is_empty(rig->server);
	lane_clear(&lanes->up);
	lane_clear(&lanes->down);
	rig_free(rig);
}

/* ---- the whole of a request -------------------------------------------- */

static void
commands(bool stored)
{
	struct rig *rig = rig_new(1, stored);
	struct rig_plan plan = rig_plan_new(40);
	struct lanes lanes = { .stored = stored };
	unsigned i;

	lanes_attach(&lanes, rig, stored);
	for (i = 0; i < 20; i++) {
		plan.in = i * 1000u;
		plan.out[0] = i * 777u;
		plan.out[1] = i * 10u;
		assert_non_null(rig_open(rig, &plan));
		if (i % 4 == 0) {
			lanes_finish(&lanes, rig);
		}
	}
	end(rig, &lanes);
}

static void
test_commands(void **state)
{
	(void)state;
	commands(true);
	commands(false);
}

static const uint32_t body_sizes[] = { 1, 2, SESSION_WINDOW_MIN - 1,
    SESSION_WINDOW_MIN, SESSION_WINDOW_MIN + 1, 16384, 32725, 32726, 100000,
    1048576, WIRE_BODY_MAX - 1, WIRE_BODY_MAX };
#define BODY_SIZES (sizeof(body_sizes) / sizeof(body_sizes[0]))

static void
test_bodies(void **state)
{
	struct rig *rig = rig_new(2, true);
	struct lanes lanes = { .stored = true };
	struct rig_plan plan;
	size_t i;

	(void)state;
	lanes_attach(&lanes, rig, true);
	for (i = 0; i < BODY_SIZES; i++) {
		plan = rig_plan_new(body_sizes[i]);
		plan.in = i * 5000;
		assert_non_null(rig_open(rig, &plan));
		lanes_finish(&lanes, rig);
	}
	plan = rig_plan_new(0);
	errno = 0;
	assert_null(rig_open(rig, &plan));
	assert_int_equal(errno, EMSGSIZE);
	plan = rig_plan_new(WIRE_BODY_MAX + 1);
	errno = 0;
	assert_null(rig_open(rig, &plan));
	assert_int_equal(errno, EMSGSIZE);
	end(rig, &lanes);
}

/* Many large bodies wait for each other, and small requests do not. */
static void
bodies_at_once(bool stored)
{
	struct rig *rig = rig_new(3, stored);
	struct rig_plan large = rig_plan_new(WIRE_BODY_MAX);
	struct rig_plan small = rig_plan_new(100);
	struct lanes lanes = { .stored = stored };
	struct rig_ask *asks[8];
	unsigned i;

	lanes_attach(&lanes, rig, stored);
	for (i = 0; i < 8; i++) {
		asks[i] = rig_open(rig, &large);
	}
	asks[0] = rig_open(rig, &small);
	/* One body at a time has more than the least credit. */
	while (asks[0]->req != NULL) {
		struct list *at;
		unsigned wide = 0;

		rig_turn(rig);
		lanes_step(&lanes);
		for (at = rig->sb.bodies.next; at != &rig->sb.bodies;
		    at = at->next) {
			wide += LIST_OF(at, struct session_request,
			    body_wait)->in[0].granted > SESSION_WINDOW_MIN;
		}
		assert_true(wide <= 1);
		assert_int_equal(rig->sb.granted, 0);
	}
	end(rig, &lanes);
}

static void
test_bodies_at_once(void **state)
{
	(void)state;
	bodies_at_once(true);
	bodies_at_once(false);
}

/* The turn of a body passes on when its request is cancelled or abandoned. */
static void
test_body_turn_passes(void **state)
{
	struct rig *rig = rig_new(4, true);
	struct rig_plan plan = rig_plan_new(WIRE_BODY_MAX);
	struct lanes lanes = { .stored = true };
	struct rig_ask *asks[4];
	unsigned i;

	(void)state;
	lanes_attach(&lanes, rig, true);
	for (i = 0; i < 4; i++) {
		asks[i] = rig_open(rig, &plan);
	}
	/* Two frames of the first body are under way. */
	for (i = 0; i < 10; i++) {
		lane_take(&lanes.up);
		lane_give(&lanes.up);
	}
	asks[0]->cancelled = true;
	session_cancel(asks[0]->req);
	asks[1]->abandoned = true;
	session_abandon(asks[1]->req);
	asks[1]->req = NULL;
	end(rig, &lanes);
}

/* A request that runs on has no part in the next one's body. */
static void
test_body_after_body(void **state)
{
	struct rig *rig = rig_new(15, true);
	struct rig_plan plan = rig_plan_new(100000);
	struct lanes lanes = { .stored = true };
	unsigned i;

	(void)state;
	plan.hold = true;
	lanes_attach(&lanes, rig, true);
	for (i = 0; i < 5; i++) {
		rig_open(rig, &plan);
	}
	lanes_run(&lanes, rig, 50);
	for (i = 1; i <= 5; i++) {
		assert_int_equal(rig->jobs[i].opened, 1);
		rig->asks[i].plan.hold = false;
	}
	end(rig, &lanes);
}

/* ---- credit ------------------------------------------------------------ */

/* What a flow held of the pool is free when its end is known. */
static void
test_end_frees_grant(void **state)
{
	struct rig *rig = rig_new(16, true);
	struct rig_plan plan = rig_plan_new(10);
	struct lanes lanes = { .stored = true };
	size_t most = 0;
	unsigned i;

	(void)state;
	plan.in = plan.out[0] = 1 << 20;
	plan.hold = plan.whole = true;
	lanes_attach(&lanes, rig, true);
	rig_open(rig, &plan);
	for (i = 0; i < 200; i++) {
		lanes_run(&lanes, rig, 1);
		most = rig->ob.granted > most ? rig->ob.granted : most;
	}
	assert_true(most > 0);
	assert_int_equal(session_count(rig->opener), 1);
	assert_true(rig->asks[1].ended[0] && rig->jobs[1].in_ended);
	assert_int_equal(rig->ob.granted, 0);
	assert_int_equal(rig->sb.granted, 0);
	rig->asks[1].plan.hold = false;
	end(rig, &lanes);
}


/* A reader that stops holds its sender at the window, and nobody else. */
static void
test_stalled_reader(void **state)
{
	struct rig *rig = rig_new(5, true);
	struct rig_plan stalled = rig_plan_new(10), live = rig_plan_new(10);
	struct lanes lanes = { .stored = true };
	struct rig_ask *a, *b;
	struct rig_job *job;

	(void)state;
	stalled.out[0] = stalled.in = 1 << 20;
	stalled.out_pace[0] = stalled.in_pace = RIG_STALLED;
	stalled.out[1] = 5000;
	live.out[0] = live.in = 3 << 20;
	lanes_attach(&lanes, rig, true);
	a = rig_open(rig, &stalled);
	b = rig_open(rig, &live);
	while (b->req != NULL) {
		rig_turn(rig);
		lanes_step(&lanes);
	}
	rig_verify(rig, 2);
	job = rig_job_of(rig, a);
	assert_int_equal(job->out_sent[0], SESSION_WINDOW_MIN);
	assert_int_equal(a->in_sent, SESSION_WINDOW_MIN);
	assert_int_equal(a->out_seen[0], 0);
	assert_int_equal(a->out_seen[1], 5000);
	assert_int_equal(opener_in(a, 0)->queue.length, SESSION_WINDOW_MIN);
	assert_int_equal(rig->ob.granted, 0);
	/* A full queue is two chunks at most. */
	assert_true(rig->ob.chunks.used <= 2 && rig->sb.chunks.used <= 2);
	/* It goes on where it stopped. */
	a->plan.out_pace[0] = a->plan.in_pace = RIG_RANDOM;
	end(rig, &lanes);
}

/* Windows double to 1 MiB; the pool is never overdrawn. */
static void
test_window_grows(void **state)
{
	struct rig *rig = rig_new(6, true);
	struct rig_plan plan = rig_plan_new(10);
	struct lanes lanes = { .stored = true };
	uint64_t window = SESSION_WINDOW_MIN;
	size_t granted = 0;
	struct rig_ask *ask;

	(void)state;
	plan.out[0] = 16 << 20;
	plan.whole = true;
	lanes_attach(&lanes, rig, true);
	ask = rig_open(rig, &plan);
	while (ask->req != NULL) {
		const struct session_in *in = opener_in(ask, 0);
		uint64_t now = in->window;

		assert_true(now == window || now == 2 * window);
		assert_true(now <= SESSION_WINDOW_MAX);
		/* It has grown only after a whole window was consumed. */
		assert_true(in->consumed + SESSION_WINDOW_MIN >= now);
		assert_true(in->granted - in->consumed <= SESSION_WINDOW_MAX);
		assert_true(rig->ob.granted <= SESSION_POOL);
		/* At most an eighth of what is free in one step. */
		assert_true(rig->ob.granted <= granted +
		    (SESSION_POOL - granted) / 8);
		granted = rig->ob.granted;
		window = now;
		rig_turn(rig);
		/* Frame by frame, so that no growth is missed. */
		lane_take(&lanes.up);
		lane_give(&lanes.up);
		lane_take(&lanes.down);
		lane_give(&lanes.down);
		lane_ack(&lanes.up);
		lane_ack(&lanes.down);
	}
	assert_int_equal(window, SESSION_WINDOW_MAX);
	end(rig, &lanes);
}

/*
 * Turns that a flow takes beside n stalled ones.  The stalled ones had their
 * windows grown before they stopped.
 */
static unsigned
turns_beside(unsigned n)
{
	struct rig *rig = rig_new(7, true);
	struct rig_plan stalled = rig_plan_new(10), live = rig_plan_new(10);
	struct lanes lanes = { .stored = true };
	struct rig_ask *ask;
	unsigned i, turns = 0;

	stalled.out[0] = stalled.in = RIG_NEVER / 2;
	stalled.hold = stalled.whole = live.whole = true;
	live.out[0] = live.in = 8 << 20;
	lanes_attach(&lanes, rig, true);
	for (i = 0; i < n; i++) {
		rig_open(rig, &stalled);
	}
	lanes_run(&lanes, rig, 3);
	for (i = 1; i <= n; i++) {
		rig->asks[i].plan.out_pace[0] = RIG_STALLED;
		rig->asks[i].plan.in_pace = RIG_STALLED;
	}
	lanes_run(&lanes, rig, 30);
	ask = rig_open(rig, &live);
	while (ask->req != NULL) {
		assert_true(rig->ob.granted <= SESSION_POOL);
		assert_true(rig->sb.granted <= SESSION_POOL);
		rig_turn(rig);
		lanes_step(&lanes);
		assert_true(++turns < 5000);
	}
	rig_verify(rig, n + 1);
	for (i = 1; i <= n; i++) {
		rig->asks[i].abandoned = true;
		session_abandon(rig->asks[i].req);
		rig->asks[i].req = NULL;
		rig->asks[i].plan.hold = false;
	}
	end(rig, &lanes);
	return turns;
}

static void
test_stalled_flows(void **state)
{
	unsigned alone = turns_beside(0), beside = turns_beside(200);

	(void)state;
	/* What the stalled ones took of the pool costs, but not more. */
	if (beside > alone * 3 + 5) {
		fail_msg("%u turns alone, %u beside 200 stalled", alone,
		    beside);
	}
}

/* ---- limits ------------------------------------------------------------ */

static void
test_too_many(void **state)
{
	struct rig *rig = rig_new(8, true);
	struct rig_plan plan = rig_plan_new(10);
	struct lanes lanes = { .stored = true };
	unsigned i;

	(void)state;
	plan.hold = true;
	lanes_attach(&lanes, rig, true);
	for (i = 0; i < SESSION_REQUESTS; i++) {
		assert_non_null(rig_open(rig, &plan));
		if (i % 50 == 0) {
			lanes_run(&lanes, rig, 2);
		}
	}
	errno = 0;
	assert_null(rig_open(rig, &plan));
	assert_int_equal(errno, EBUSY);
	lanes_run(&lanes, rig, 5);
	assert_int_equal(session_count(rig->server), SESSION_REQUESTS);
	/* One place is free again after one result. */
	rig->asks[77].plan.hold = false;
	lanes_run(&lanes, rig, 5);
	assert_int_equal(rig->asks[77].results, 1);
	assert_non_null(rig_open(rig, &plan));
	assert_null(rig_open(rig, &plan));
	for (i = 1; i <= rig->last; i++) {
		rig->asks[i].plan.hold = false;
	}
	end(rig, &lanes);
}

/* A server whose budget is used up answers with a typed error. */
static void
test_budget_limit(void **state)
{
	struct rig *rig = rig_new(9, true);
	struct rig_plan plan = rig_plan_new(20000);
	struct lanes lanes = { .stored = true };
	unsigned i;

	(void)state;
	rig->sb.limit = 3;
	plan.hold = true;
	plan.in = plan.out[0] = 30000;
	lanes_attach(&lanes, rig, true);
	for (i = 0; i < 6; i++) {
		assert_non_null(rig_open(rig, &plan));
	}
	lanes_run(&lanes, rig, 20);
	for (i = 1; i <= 6; i++) {
		assert_int_equal(rig->asks[i].results, i > 3);
		if (i > 3) {
			assert_int_equal(rig->asks[i].result.outcome,
			    WIRE_FAILED);
			assert_int_equal(rig->asks[i].result.step,
			    WIRE_STEP_BUSY);
			assert_non_null(strstr(rig->asks[i].text, "3 requests"));
			assert_int_equal(rig->jobs[i].opened, 0);
		}
		rig->asks[i].plan.hold = false;
	}
	lanes_finish(&lanes, rig);
	for (i = 1; i <= 3; i++) {
		rig_verify(rig, i);
	}
	rig_free(rig);
}

/* ---- ends -------------------------------------------------------------- */

/* Open one request and move frames one by one, n of them upwards. */
static struct rig_ask *
part_way(struct rig *rig, struct lanes *lanes, const struct rig_plan *plan,
    unsigned n)
{
	struct rig_ask *ask;
	unsigned i;

	lanes_attach(lanes, rig, true);
	ask = rig_open(rig, plan);
	for (i = 0; i < n && ask->req != NULL; i++) {
		lane_take(&lanes->up);
		lane_give(&lanes->up);
		rig_turn(rig);
		lane_take(&lanes->down);
		lane_give(&lanes->down);
		lane_ack(&lanes->up);
		lane_ack(&lanes->down);
	}
	return ask;
}

static struct rig_plan
busy_plan(void)
{
	struct rig_plan plan = rig_plan_new(60000);

	plan.in = 50000;
	plan.out[0] = 70000;
	plan.out[1] = 3000;
	plan.out_pace[0] = plan.in_pace = RIG_RANDOM;
	return plan;
}

static void
test_cancel(void **state)
{
	struct rig_plan plan = busy_plan();
	unsigned n, early = 0, late = 0;

	(void)state;
	for (n = 0; n < 60; n++) {
		struct rig *rig = rig_new(100 + n, true);
		struct lanes lanes = { .stored = true };
		struct rig_ask *ask = part_way(rig, &lanes, &plan, n);

		if (ask->req != NULL) {
			ask->cancelled = true;
			session_cancel(ask->req);
			session_cancel(ask->req);
		}
		lanes_finish(&lanes, rig);
		if (ask->result.outcome == WIRE_CANCELLED) {
			/* In its body it never reaches the program. */
			early += rig->jobs[1].opened == 0;
			late += rig->jobs[1].opened == 1;
		}
		end(rig, &lanes);
	}
	assert_true(early > 2 && late > 2);
}

static void
test_abandon(void **state)
{
	struct rig_plan plan = busy_plan();
	unsigned n, done = 0;

	(void)state;
	for (n = 0; n < 80; n++) {
		struct rig *rig = rig_new(200 + n, true);
		struct lanes lanes = { .stored = true };
		struct rig_ask *ask;

		plan.early = n % 2;
		ask = part_way(rig, &lanes, &plan, n);
		if (ask->req != NULL) {
			struct session_request *req = ask->req;

			ask->abandoned = true;
			ask->req = NULL;
			session_abandon(req);
		} else {
			done++;
		}
		end(rig, &lanes);
	}
	assert_true(done < 60);
}

/* Which moment it is at which the opener stops reading. */
enum moment { BEFORE_OPEN, IN_BODY, RUNNING, FULL, AFTER_END };

static void
drop_at(enum moment moment)
{
	struct rig *rig = rig_new(10, true);
	struct rig_plan plan = rig_plan_new(moment == IN_BODY ? 20000 : 10);
	struct lanes lanes = { .stored = true };
	struct rig_ask *ask;
	struct rig_job *job;
	unsigned i;

	plan.out[0] = 1 << 20;
	plan.out_pace[0] = RIG_STALLED;
	plan.end_first = moment == AFTER_END;
	plan.whole = true;
	lanes_attach(&lanes, rig, true);
	ask = rig_open(rig, &plan);
	job = rig_job_of(rig, ask);
	if (moment == IN_BODY) {
		lane_take(&lanes.up);
		lane_give(&lanes.up);
	} else if (moment == RUNNING) {
		for (i = 0; i < 2; i++) {
			lane_take(&lanes.up);
			lane_give(&lanes.up);
		}
		assert_int_equal(job->opened, 1);
	} else if (moment >= FULL) {
		lanes_run(&lanes, rig, 20);
		assert_int_equal(job->out_sent[0], SESSION_WINDOW_MIN);
		assert_int_equal(session_count(rig->opener), 1);
	}
	ask->dropped[0] = true;
	session_drop(ask->req, 0);
	lanes_finish(&lanes, rig);
	/* The program was told, and did not have to write it all. */
	assert_true(job->unwanted[0]);
	assert_true(job->out_sent[0] < plan.out[0]);
	end(rig, &lanes);
}

static void
test_drop_before_open(void **state)
{
	(void)state;
	drop_at(BEFORE_OPEN);
}

static void
test_drop_in_body(void **state)
{
	(void)state;
	drop_at(IN_BODY);
}

static void
test_drop_running(void **state)
{
	(void)state;
	drop_at(RUNNING);
}

static void
test_drop_full(void **state)
{
	(void)state;
	drop_at(FULL);
}

/* session_end() was called, but there is data that nobody will pull. */
static void
test_drop_after_end(void **state)
{
	(void)state;
	drop_at(AFTER_END);
}

/* The server stops reading IN: the opener is told and stops. */
static void
test_server_drops(void **state)
{
	struct rig *rig = rig_new(11, true);
	struct rig_plan plan = rig_plan_new(10);
	struct lanes lanes = { .stored = true };
	struct rig_ask *ask;

	(void)state;
	plan.in = 1 << 20;
	plan.in_drop = 20000;
	plan.out[0] = 10;
	lanes_attach(&lanes, rig, true);
	plan.hold = true;
	ask = rig_open(rig, &plan);
	lanes_run(&lanes, rig, 50);
	assert_true(ask->unwanted);
	ask->plan.hold = false;
	assert_true(ask->in_sent < plan.in);
	end(rig, &lanes);
}

/* ---- order ------------------------------------------------------------- */

static uint8_t
next_type(struct lane *lane)
{
	return lane_take(lane) ? lane->last->bytes[0] : 0;
}

/* What the opener sends before the body is complete waits for it. */
static void
test_signals_wait(void **state)
{
	struct rig *rig = rig_new(12, true);
	struct rig_plan plan = rig_plan_new(20000);
	struct lanes lanes = { .stored = true };
	struct rig_ask *ask;
	struct rig_job *job;

	(void)state;
	plan.hold = true;
	lanes_attach(&lanes, rig, true);
	ask = rig_open(rig, &plan);
	job = rig_job_of(rig, ask);
	session_signal(ask->req, 15);
	session_signal(ask->req, 2);
	session_signal(ask->req, 15);
	session_signal(ask->req, 0);
	session_signal(ask->req, 64);
	session_resize(ask->req, 10, 20);
	session_resize(ask->req, 30, 40);
	assert_int_equal(next_type(&lanes.up), WIRE_OPEN);
	assert_int_equal(next_type(&lanes.up), WIRE_SIGNAL);
	assert_int_equal(next_type(&lanes.up), WIRE_SIGNAL);
	assert_int_equal(next_type(&lanes.up), WIRE_RESIZE);
	assert_int_equal(next_type(&lanes.up), WIRE_DATA);
	while (lane_give(&lanes.up)) {
		continue;
	}
	assert_int_equal(job->opened, 0);
	lanes_run(&lanes, rig, 10);
	assert_int_equal(job->opened, 1);
	assert_int_equal(job->signals[15], 1);
	assert_int_equal(job->signals[2], 1);
	assert_int_equal(job->resizes, 1);
	assert_int_equal(job->rows, 30);
	assert_int_equal(job->columns, 40);
	/* Sent once more after it was sent. */
	session_signal(ask->req, 15);
	session_signal(ask->req, 63);
	lanes_run(&lanes, rig, 2);
	assert_int_equal(job->signals[15], 2);
	assert_int_equal(job->signals[63], 1);
	ask->plan.hold = false;
	end(rig, &lanes);
}

/* EOF and RESULT come after what was pushed before them. */
static void
test_end_after_push(void **state)
{
	struct rig *rig = rig_new(13, true);
	struct rig_plan plan = rig_plan_new(10);
	struct lanes lanes = { .stored = true };
	struct session_request *req;
	struct rig_ask *ask;
	uint8_t buf[3000];
	uint8_t types[8];
	unsigned i;

	(void)state;
	plan.hold = true;
	plan.out[0] = 6000;
	lanes_attach(&lanes, rig, true);
	ask = rig_open(rig, &plan);
	while (lane_take(&lanes.up) && lane_give(&lanes.up)) {
		continue;
	}
	req = rig->jobs[1].req;
	assert_non_null(req);
	/* Nothing is ready: drain the pulls that opened() asked for. */
	rig->asks[1].plan.out[0] = 0;
	assert_int_equal(next_type(&lanes.down), WIRE_EOF);
	assert_int_equal(next_type(&lanes.down), WIRE_EOF);
	assert_int_equal(next_type(&lanes.down), 0);
	end(rig, (ask->plan.hold = false, &lanes));

	rig = rig_new(13, true);
	plan.whole = true;
	lanes_attach(&lanes, rig, true);
	ask = rig_open(rig, &plan);
	rig->asks[1].plan.out[0] = 6000;
	while (lane_take(&lanes.up) && lane_give(&lanes.up)) {
		continue;
	}
	req = rig->jobs[1].req;
	req->out[0].ready = false;
	list_remove(&req->out[0].link);
	for (i = 0; i < 2; i++) {
		rig_fill(buf, 3000, 1, 2, i * 3000u);
		assert_int_equal(session_push(req, 0, buf, 3000), 3000);
	}
	assert_int_equal(session_push(req, 0, buf, 1), 0);	/* its limit */
	rig->jobs[1].out_sent[0] = 6000;
	rig->jobs[1].out_done[0] = true;
	session_end(req, 0);
	for (i = 0; i < 8; i++) {
		types[i] = next_type(&lanes.down);
	}
	/* EOF of ERR may stand anywhere; OUT's not before both pushes. */
	for (i = 0; i < 8 && types[i] != 0; i++) {
		if (lanes.down.first == NULL) {
			break;
		}
		if (types[i] == WIRE_EOF &&
		    lanes.down.first->bytes[5] == WIRE_CH_OUT) {
			assert_int_equal(rig->asks[1].out_seen[0], 6000);
		}
		lane_give(&lanes.down);
	}
	assert_true(rig->asks[1].ended[0]);
	ask->plan.hold = false;
	end(rig, &lanes);
}

/* ---- LOG --------------------------------------------------------------- */

static void
test_log(void **state)
{
	struct rig *rig = rig_new(14, true);
	struct lanes lanes = { .stored = true };
	char text[WIRE_TEXT_MAX + 200];

	(void)state;
	lanes_attach(&lanes, rig, true);
	session_log(rig->server, 1, "first");
	session_log(rig->server, 1, "second");
	lanes_step(&lanes);
	assert_int_equal(rig->logs, 1);
	assert_string_equal(rig->log, "first");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	session_log(rig->server, 1, text);
	lanes_step(&lanes);
	assert_int_equal(rig->logs, 2);
	assert_int_equal(strlen(rig->log), WIRE_TEXT_MAX);
	end(rig, &lanes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_bodies_at_once),
		cmocka_unit_test(test_body_turn_passes),
		cmocka_unit_test(test_body_after_body),
		cmocka_unit_test(test_end_frees_grant),
		cmocka_unit_test(test_stalled_reader),
		cmocka_unit_test(test_window_grows),
		cmocka_unit_test(test_stalled_flows),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_budget_limit),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_abandon),
		cmocka_unit_test(test_drop_before_open),
		cmocka_unit_test(test_drop_in_body),
		cmocka_unit_test(test_drop_running),
		cmocka_unit_test(test_drop_full),
		cmocka_unit_test(test_drop_after_end),
		cmocka_unit_test(test_server_drops),
		cmocka_unit_test(test_signals_wait),
		cmocka_unit_test(test_end_after_push),
		cmocka_unit_test(test_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
