/* SPDX-License-Identifier: MIT */
/*
 * test_session_random.c - a property: whatever is opened, sent, consumed,
 * cancelled and cut in whatever order, every byte arrives once and in order,
 * totals are right, and nothing is left behind.
 *
 * SESSION_SEEDS=N runs N seeds, SESSION_SEED=N only that one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lanes.h"
#include "rig.h"

#define REQUESTS 60u

static uint64_t
some(struct rig *rig)
{
	switch (rig_random(rig, 6)) {
	case 0:
		return 0;
	case 1:
		return rig_random(rig, 100);
	case 2:
		return SESSION_WINDOW_MIN - 1 + rig_random(rig, 3);
	case 3:
		return rig_random(rig, 300000);
	default:
		return rig_random(rig, 30000);
	}
}

static enum rig_pace
some_pace(struct rig *rig)
{
	return rig_random(rig, 2) == 0 ? RIG_GREEDY : RIG_RANDOM;
}

static struct rig_plan
some_plan(struct rig *rig)
{
	static const uint8_t kinds[] = { WIRE_EXEC, WIRE_PUT, WIRE_GET };
	struct rig_plan plan = rig_plan_new(1 + (uint32_t)some(rig));
	unsigned i;

	plan.kind = kinds[rig_random(rig, 3)];
	plan.in = some(rig);
	plan.in_pace = some_pace(rig);
	plan.early = rig_random(rig, 4) == 0;
	plan.end_first = rig_random(rig, 4) == 0;
	plan.wait = rig_random(rig, 8) == 0;
	if (rig_random(rig, 6) == 0) {
		plan.in_drop = some(rig);
	}
	for (i = 0; i < 2; i++) {
		plan.out[i] = some(rig);
		plan.out_pace[i] = some_pace(rig);
		if (rig_random(rig, 6) == 0) {
			plan.out_drop[i] = some(rig);
		}
	}
	return plan;
}

/* Something that happens to a request under way. */
static void
disturb(struct rig *rig)
{
	struct rig_ask *ask = &rig->asks[1 + rig_random(rig, rig->last)];
	struct session_request *req = ask->req;

	if (req == NULL) {
		return;
	}
	switch (rig_random(rig, 12)) {
	case 0:
		ask->cancelled = true;
		session_cancel(req);
		break;
	case 1:
		ask->abandoned = true;
		ask->req = NULL;
		session_abandon(req);
		break;
	case 2:
		session_resize(req, rig_random(rig, 100), 80);
		break;
	case 3:
		session_log(rig->server, 2, "a line");
		break;
	case 4:
		session_trim(rig->opener);
		session_trim(rig->server);
		break;
	default:
		/* Those that wait for signals get them at last. */
		if (ask->plan.wait && rig_random(rig, 3) == 0) {
			session_signal(req, 10);
			session_signal(req, 12);
			ask->plan.wait = false;
		}
		break;
	}
}

static void
invariants(struct rig *rig)
{
	struct session_figures f;

	assert_true(rig->ob.granted <= SESSION_POOL);
	assert_true(rig->sb.granted <= SESSION_POOL);
	session_figures(rig->server, &f);
	assert_true(f.in_flight <= f.cap + WIRE_RECORD_PLAIN);
	assert_true(f.stored_big <= SESSION_STORE_BIG);
	assert_true(f.stored_small <= SESSION_STORE_SMALL);
}

static void
move(struct lanes *lanes, struct rig *rig)
{
	unsigned n;

	for (n = rig_random(rig, 40); n > 0; n--) {
		lane_take(rig_random(rig, 2) ? &lanes->up : &lanes->down);
	}
	for (n = rig_random(rig, 40); n > 0; n--) {
		lane_give(rig_random(rig, 2) ? &lanes->up : &lanes->down);
	}
	if (lanes->stored && rig_random(rig, 3) == 0) {
		lane_ack(&lanes->up);
		lane_ack(&lanes->down);
	}
}

static void
one(unsigned seed, bool stored, bool cuts)
{
	struct rig *rig = rig_new(seed, stored);
	struct lanes lanes = { .stored = stored };
	struct rig_plan plan;
	unsigned id, turns = 0;

	lanes_attach(&lanes, rig, stored);
	while (rig->last < REQUESTS || !rig_over(rig)) {
		if (rig->last < REQUESTS && rig_random(rig, 3) == 0) {
			plan = some_plan(rig);
			if (rig_random(rig, 30) == 0) {
				plan.body = 1 + rig_random(rig, WIRE_BODY_MAX);
			}
			assert_non_null(rig_open(rig, &plan));
		}
		if (rig->last > 0) {
			disturb(rig);
		}
		rig_turn(rig);
		move(&lanes, rig);
		if (cuts && rig_random(rig, 20) == 0) {
			session_detach(rig->opener);
			session_detach(rig->server);
			rig_turn(rig);
			lanes_attach(&lanes, rig, stored);
		}
		invariants(rig);
		if (++turns > 30000) {
			fail_msg("seed %u: stuck", seed);
		}
	}
	while (lanes_step(&lanes)) {
		continue;
	}
	rig_verify_all(rig);
	for (id = 1; id <= rig->last; id++) {
		/* What ran, ran once. */
		assert_true(rig->jobs[id].opened <= 1);
		assert_true(rig->jobs[id].signals[10] <= 1);
		assert_true(rig->jobs[id].signals[12] <= 1);
	}
	if (stored) {
		struct session_figures f;

		session_figures(rig->opener, &f);
		assert_int_equal(f.stored_big + f.stored_small, 0);
		session_figures(rig->server, &f);
		assert_int_equal(f.stored_big + f.stored_small, 0);
		assert_int_equal(f.in_flight, 0);
	}
	lane_clear(&lanes.up);
	lane_clear(&lanes.down);
	rig_free(rig);
}

/* A session that is freed in the middle leaves nothing either. */
static void
half(unsigned seed)
{
	struct rig *rig = rig_new(seed, true);
	struct lanes lanes = { .stored = true };
	struct rig_plan plan;
	unsigned n;

	lanes_attach(&lanes, rig, true);
	for (n = 0; n < 30 + seed % 50; n++) {
		plan = some_plan(rig);
		rig_open(rig, &plan);
		rig_turn(rig);
		move(&lanes, rig);
	}
	lane_clear(&lanes.up);
	lane_clear(&lanes.down);
	rig_free(rig);
}

static unsigned
seeds(unsigned *first)
{
	const char *many = getenv("SESSION_SEEDS"), *one_only;
	const char *is_long = getenv("SANDMUX_LONG");

	one_only = getenv("SESSION_SEED");
	if (one_only != NULL) {
		*first = (unsigned)strtoul(one_only, NULL, 10);
		return 1;
	}
	*first = 1;
	return many != NULL ? (unsigned)strtoul(many, NULL, 10) :
	    is_long != NULL && *is_long != '\0' ? 1000 : 60;
}

static void
all(bool stored, bool cuts)
{
	unsigned first, n = seeds(&first), i;

	print_message("seeds %u to %u\n", first, first + n - 1);
	for (i = 0; i < n; i++) {
		one(first + i, stored, cuts);
	}
}

static void
test_stored(void **state)
{
	(void)state;
	all(true, false);
}

static void
test_cut_and_attached(void **state)
{
	(void)state;
	all(true, true);
}

static void
test_plain(void **state)
{
	(void)state;
	all(false, false);
}

static void
test_freed_half_way(void **state)
{
	unsigned first, n = seeds(&first), i;

	(void)state;
	for (i = 0; i < n; i++) {
		half(first + i);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stored),
		cmocka_unit_test(test_cut_and_attached),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_freed_half_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
