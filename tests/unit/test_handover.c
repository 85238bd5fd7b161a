/* SPDX-License-Identifier: MIT */
/*
 * test_handover.c - a further link hands over its descriptors: what it says,
 * what is refused, and that the session's own link notices nothing of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cable.h"

/* Two ends of a further link, beside a session's own. */
struct pair {
	struct world *world;
	uint64_t attachment;		/* the session's, server's side */
	struct link *host, *agent;
};

/* host and agent: whether that end means to hand over. */
static struct pair
pair_new(bool host, bool agent)
{
	struct pair p = { .world = world_new(1) };
	struct link_config ours = { .session = p.world->rig->opener,
	    .secret = p.world->hs, .hands_over = host };
	struct link_config theirs = { .session = p.world->rig->server,
	    .secret = p.world->cs, .hands_over = agent,
	    .committed = &p.world->newest };
	unsigned i;
	int fds[2];

	world_connect(p.world);
	for (i = 0; i < 1000 && link_state(p.world->host) != LINK_UP; i++) {
		world_step(p.world);
	}
	assert_int_equal(link_state(p.world->host), LINK_UP);
	p.attachment = session_attachment(p.world->rig->server);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK |
	    SOCK_CLOEXEC, 0, fds), 0);
	ours.terms = p.world->terms;
	ours.terms.number = 7;
	assert_int_equal(link_prepare(&ours), 0);
	theirs.terms = ours.terms;
	ours.in = ours.out = fds[0];
	p.host = link_new_host(&ours);
	theirs.in = theirs.out = fds[1];
	p.agent = link_new_agent(&theirs);
	assert_non_null(p.host);
	assert_non_null(p.agent);
	return p;
}

static void
pump(struct pair *p)
{
	unsigned i;

	for (i = 0; i < 20; i++) {
		world_run_link(p->world, p->host);
		world_run_link(p->world, p->agent);
	}
}

/* The session's own link still works, and holds the session. */
static void
pair_free(struct pair *p)
{
	struct rig_plan plan = rig_plan_new(1000);

	assert_int_equal(session_attachment(p->world->rig->server),
	    p->attachment);
	assert_non_null(rig_open(p->world->rig, &plan));
	world_finish(p->world);
	rig_verify_all(p->world->rig);
	link_free(p->host);
	link_free(p->agent);
	world_free(p->world);
}

static void
test_handed_over(void **state)
{
	struct pair p = pair_new(true, true);
	int in, out, back, back_out;
	char buf[8];

	(void)state;
	pump(&p);
	/* The agent's owner has the word; the host waits. */
	assert_int_equal(link_state(p.agent), LINK_TERMINAL);
	assert_int_equal(link_state(p.host), LINK_RESUME_WAIT);
	assert_int_equal(link_answer_terminal(p.agent, 0), 0);
	link_take_terminal(p.agent, &in, &out);
	/* What comes right behind the record is the terminal's. */
	assert_int_equal(in, out);
	pump(&p);
	assert_int_equal(link_state(p.host), LINK_TERMINAL);
	link_take_terminal(p.host, &back, &back_out);
	assert_int_equal(write(in, "output", 6), 6);
	assert_int_equal(read(back, buf, sizeof(buf)), 6);
	assert_int_equal(write(back_out, "keys", 4), 4);
	assert_int_equal(read(out, buf, sizeof(buf)), 4);
	close(in);
	close(back);
	pair_free(&p);
}

static void
test_not_given_up(void **state)
{
	struct pair p = pair_new(true, true);

	(void)state;
	pump(&p);
	assert_int_equal(link_answer_terminal(p.agent, EBUSY), 0);
	pump(&p);
	assert_int_equal(link_state(p.host), LINK_FAILED);
	assert_int_equal(link_error(p.host)->step, WIRE_STEP_PTY);
	assert_int_equal(link_error(p.host)->number, EBUSY);
	pair_free(&p);
}

static void
test_neither_for_the_other(void **state)
{
	struct pair p = pair_new(true, false);

	(void)state;
	pump(&p);
	assert_int_equal(link_state(p.agent), LINK_FAILED);
	assert_int_equal(link_error(p.agent)->step, WIRE_STEP_PROTOCOL);
	pair_free(&p);
}

/* The same attempt may as well take the session over. */
static void
test_or_the_session(void **state)
{
	struct pair p = pair_new(false, true);

	(void)state;
	pump(&p);
	assert_int_equal(link_state(p.agent), LINK_UP);
	assert_int_equal(link_state(p.host), LINK_UP);
	assert_true(link_committed(p.agent));
	assert_int_equal(p.world->newest, 7);
	assert_int_not_equal(session_attachment(p.world->rig->server),
	    p.attachment);
	link_free(p.host);
	link_free(p.agent);
	world_free(p.world);
}

/* The host must not type before it has the answer. */
static void
test_more_than_a_terminal(void **state)
{
	struct pair p = pair_new(true, true);

	(void)state;
	world_run_link(p.world, p.host);
	assert_int_equal(write(p.host->out, "x", 1), 1);
	pump(&p);
	assert_int_equal(link_state(p.agent), LINK_FAILED);
	assert_int_equal(link_answer_terminal(p.agent, 0), -1);
	pair_free(&p);
}

static void
test_not_in_time(void **state)
{
	struct pair p = pair_new(true, true);

	(void)state;
	cable_now += 9u * 1000 * CLOCK_MS;
	world_run_link(p.world, p.agent);
	assert_int_equal(link_state(p.agent), LINK_RESUME_WAIT);
	cable_now += 2u * 1000 * CLOCK_MS;
	world_run_link(p.world, p.agent);
	assert_int_equal(link_state(p.agent), LINK_FAILED);
	assert_int_equal(link_error(p.agent)->number, ETIMEDOUT);
	pair_free(&p);
}

/* A changed bit anywhere in the answer is no answer. */
static void
test_changed_answer(void **state)
{
	size_t len = LINK_RECORD + SEAL_OVERHEAD + WIRE_NUMBER + 5, i;
	uint8_t buf[128];

	(void)state;
	for (i = 0; i < len; i++) {
		struct pair p = pair_new(true, true);

		pump(&p);
		assert_int_equal(link_answer_terminal(p.agent, 0), 0);
		assert_int_equal(read(p.host->in, buf, sizeof(buf)), len);
		buf[i] ^= 1;
		assert_int_equal(write(p.agent->out, buf, len), len);
		pump(&p);
		assert_int_not_equal(link_state(p.host), LINK_TERMINAL);
		pair_free(&p);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handed_over),
		cmocka_unit_test(test_not_given_up),
		cmocka_unit_test(test_neither_for_the_other),
		cmocka_unit_test(test_or_the_session),
		cmocka_unit_test(test_more_than_a_terminal),
		cmocka_unit_test(test_not_in_time),
		cmocka_unit_test(test_changed_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
