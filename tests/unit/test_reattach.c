/* SPDX-License-Identifier: MIT */
/*
 * test_reattach.c - a session moves to another link: cut at every byte and
 * at every record, held, late and repeated, it loses and doubles nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cable.h"
#include "session_private.h"

/* A command with a bit of everything; it ends only after two signals. */
static struct rig_plan
small_plan(void)
{
	struct rig_plan plan = rig_plan_new(60);

	plan.in = 100;
	plan.out[0] = 150;
	plan.out[1] = 20;
	plan.wait = plan.whole = true;
	return plan;
}

static struct rig_plan
large_plan(void)
{
	struct rig_plan plan = rig_plan_new(30000);

	plan.in = 70000;
	plan.out[0] = 90000;
	plan.out[1] = 10000;
	plan.in_pace = plan.out_pace[0] = RIG_RANDOM;
	plan.wait = true;
	return plan;
}

static struct rig_ask *
ask(struct world *w, const struct rig_plan *plan)
{
	struct rig_ask *a = rig_open(w->rig, plan);

	assert_non_null(a);
	session_signal(a->req, 10);
	session_signal(a->req, 12);
	return a;
}

static void
verify(struct world *w)
{
	unsigned id;

	rig_verify_all(w->rig);
	for (id = 1; id <= w->rig->last; id++) {
		assert_int_equal(w->rig->jobs[id].opened, 1);
		assert_int_equal(w->rig->jobs[id].signals[10], 1);
		assert_int_equal(w->rig->jobs[id].signals[12], 1);
	}
}

/* Whether the core has the secret: without it there is nothing to move. */
static bool
settled(const struct world *w)
{
	return w->committed > 0;
}

enum how {
	CUT,				/* both ends see the end */
	HELD,				/* nobody sees anything any more */
	LATE				/* it comes when the next link is on */
};

/*
 * Link 1 ends after limit bytes of one direction, then the rest runs on link
 * 2.  Returns false if the limit was beyond all that was said.
 */
static bool
once(const struct rig_plan *plan, unsigned requests, enum cable_way way,
    uint64_t limit, enum how how)
{
	struct world *w = world_new(1);
	struct cable *old = world_connect(w), *next;
	unsigned steps = 0, i;
	bool hit;

	for (i = 0; i < requests; i++) {
		ask(w, plan);
	}
	old->dir[way].limit = limit;
	old->hold = how != CUT;
	while (!old->hit && !rig_over(w->rig)) {
		world_step(w);
		assert_true(++steps < 20000);
	}
	hit = old->hit && !rig_over(w->rig);
	if (!hit) {
		world_free(w);
		return false;
	}
	/* What had arrived is read, and the end is seen. */
	for (i = 0; i < 3; i++) {
		world_run_link(w, w->host);
		world_run_link(w, w->agents[0]);
		world_commit(w);
	}
	if (how == CUT) {
		assert_true(world_lost(w));
	}
	world_hang_up(w);
	if (!settled(w)) {
		for (i = 1; i <= requests; i++) {
			assert_int_equal(w->rig->jobs[i].opened, 0);
		}
		world_free(w);
		return true;
	}
	next = world_connect(w);
	if (how == LATE) {
		/* The old link's rest arrives before the new RESUME does. */
		next->blocked[TO_AGENT] = w->still = true;
		old->hold = old->hit = false;
		old->blocked[TO_AGENT] = false;
		old->dir[way].limit = CABLE_NEVER;
		for (i = 0; i < 20; i++) {
			world_step(w);
		}
		next->blocked[TO_AGENT] = w->still = false;
	}
	world_finish(w);
	verify(w);
	world_free(w);
	return true;
}

static void
every_byte(enum cable_way way, enum how how)
{
	struct rig_plan plan = small_plan();
	uint64_t limit = 0;

	while (once(&plan, 1, way, limit, how)) {
		limit++;
	}
	print_message("%llu places\n", (unsigned long long)limit);
	assert_true(limit > 400);
}

static void
test_every_byte_to_host(void **state)
{
	(void)state;
	every_byte(TO_HOST, CUT);
}

static void
test_every_byte_to_agent(void **state)
{
	(void)state;
	every_byte(TO_AGENT, CUT);
}

static void
test_every_byte_late(void **state)
{
	(void)state;
	every_byte(TO_AGENT, LATE);
}

/* ---- every record -------------------------------------------------------- */

/* Where records end on an undisturbed link. */
static unsigned
borders(const struct rig_plan *plan, unsigned requests, enum cable_way way,
    uint64_t *at, unsigned max)
{
	struct world *w = world_new(1);
	struct cable *c = world_connect(w);
	unsigned i, n;

	for (i = 0; i < requests; i++) {
		ask(w, plan);
	}
	world_finish(w);
	verify(w);
	n = c->dir[way].unit < max ? c->dir[way].unit : max;
	memcpy(at, c->dir[way].ends, n * sizeof(*at));
	world_free(w);
	return n;
}

static void
every_record(enum cable_way way, enum how how)
{
	struct rig_plan plan = large_plan();
	uint64_t at[1024];
	unsigned n = borders(&plan, 3, way, at, 1024), i, done = 0;

	for (i = 0; i < n; i++) {
		/* One byte short of it, all of it, one byte of the next. */
		done += once(&plan, 3, way, at[i] - 1, how);
		done += once(&plan, 3, way, at[i], how);
		done += once(&plan, 3, way, at[i] + 1, how);
	}
	print_message("%u places\n", done);
	assert_true(done > 60);
}

static void
test_every_record_cut(void **state)
{
	(void)state;
	every_record(TO_HOST, CUT);
	every_record(TO_AGENT, CUT);
}

static void
test_every_record_held(void **state)
{
	(void)state;
	every_record(TO_HOST, HELD);
	every_record(TO_AGENT, HELD);
}

static void
test_every_record_late(void **state)
{
	(void)state;
	every_record(TO_HOST, LATE);
	every_record(TO_AGENT, LATE);
}

/* ---- many links ----------------------------------------------------------- */

/* Each link is cut somewhere, its hello included, until the last. */
static void
test_many_links(void **state)
{
	struct rig_plan plan = large_plan();
	unsigned seed, i, links = 0;

	(void)state;
	for (seed = 1; seed <= 40; seed++) {
		struct world *w = world_new(seed);
		struct cable *c = world_connect(w);

		world_up(w);
		for (i = 0; i < 4; i++) {
			ask(w, &plan);
		}
		for (i = 0; i < 30 && !rig_over(w->rig); i++) {
			enum cable_way way = rig_random(w->rig, 2) ?
			    TO_HOST : TO_AGENT;

			c->dir[way].limit = c->dir[way].passed +
			    rig_random(w->rig, rig_random(w->rig, 2) ? 600 :
			    60000);
			c->hold = rig_random(w->rig, 2);
			while (!c->hit && !rig_over(w->rig)) {
				world_step(w);
			}
			world_hang_up(w);
			c = world_connect(w);
			links++;
		}
		world_finish(w);
		verify(w);
		world_free(w);
	}
	print_message("%u links\n", links);
}

/* ---- who has the session --------------------------------------------------- */

/* The old link goes on reading and writing after the new one is up. */
static void
test_old_link_lives_on(void **state)
{
	struct rig_plan plan = large_plan();
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 20; seed++) {
		struct world *w = world_new(seed);
		struct cable *old = world_connect(w);
		unsigned i;

		w->keep_old = true;
		world_up(w);
		for (i = 0; i < 3; i++) {
			ask(w, &plan);
		}
		old->hold = true;
		old->dir[TO_AGENT].limit = 2000 + seed * 3000;
		while (!old->hit) {
			world_step(w);
		}
		world_hang_up(w);
		world_connect(w);
		world_up(w);
		/* Late records, then the end of the old link. */
		old->hit = old->hold = false;
		old->blocked[0] = old->blocked[1] = false;
		old->dir[TO_AGENT].limit = CABLE_NEVER;
		for (i = 0; i < seed % 5; i++) {
			world_step(w);
		}
		cable_cut(old);
		world_finish(w);
		verify(w);
		world_free(w);
	}
}

/* A new attempt that comes to nothing leaves the present link alone. */
static void
failed_attempt(bool resume)
{
	struct rig_plan plan = large_plan();
	struct world *w = world_new(3);
	struct link_config config = { .session = w->rig->server,
	    .committed = &w->newest };
	uint8_t noise[200];
	int fds[2];
	unsigned i;

	world_connect(w);
	world_up(w);
	ask(w, &plan);
	config.secret = w->cs;
	config.terms = w->terms;
	config.terms.number = 9;
	memset(noise, 'x', sizeof(noise));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
	    fds), 0);
	config.in = config.out = fds[0];
	w->agents[w->links] = link_new_agent(&config);
	w->cables[w->links++] = calloc(1, sizeof(struct cable));
	w->cables[1]->host = w->cables[1]->agent = -1;
	assert_non_null(w->agents[1]);
	if (resume) {
		assert_int_equal(write(fds[1], noise, sizeof(noise)),
		    (int)sizeof(noise));
	}
	close(fds[1]);
	for (i = 0; i < 3; i++) {
		world_run_link(w, w->agents[1]);
	}
	assert_true(link_state(w->agents[1]) >= LINK_CLOSED);
	world_drop(w, 1);
	world_finish(w);
	verify(w);
	world_free(w);
}

static void
test_failed_attempt(void **state)
{
	(void)state;
	failed_attempt(false);
	failed_attempt(true);
}

/* ---- which number commits ------------------------------------------------ */

/* The agent's half of a link whose host is the world's, with this number. */
static struct link *
answer_late(struct world *w, int fd, uint32_t number)
{
	struct link_config config = { .session = w->rig->server,
	    .secret = w->cs, .in = fd, .out = fd, .committed = &w->newest };
	struct link *link;

	world_words(&w->terms, &config.terms);
	config.terms.number = number;
	link = link_new_agent(&config);
	assert_non_null(link);
	return link;
}

/* A host of its own for that link: what an attempt that was given up was. */
static struct link *
dial_late(struct world *w, uint32_t number, int *fd)
{
	struct link_config config = { .session = w->rig->opener,
	    .secret = w->hs, .terms = w->terms };
	struct link *link;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK |
	    SOCK_CLOEXEC, 0, fds), 0);
	config.terms.number = number;
	assert_int_equal(link_prepare(&config), 0);
	w->terms = config.terms;
	config.in = config.out = fds[0];
	link = link_new_host(&config);
	assert_non_null(link);
	*fd = fds[1];
	return link;
}

/* Its RESUME opens after a later link's did: nothing comes of it. */
static void
test_an_older_number(void **state)
{
	struct rig_plan plan = large_plan();
	uint32_t number;

	(void)state;
	for (number = 2; number <= 5; number++) {
		struct world *w = world_new(number);
		struct link *host, *agent;
		uint64_t attachment;
		unsigned i;
		int fd;

		for (i = 1; i <= 4; i++) {
			world_connect(w);
			world_up(w);
			if (i < 4) {
				world_hang_up(w);
			}
		}
		assert_int_equal(w->newest, 4);
		ask(w, &plan);
		attachment = session_attachment(w->rig->server);
		host = dial_late(w, number, &fd);
		agent = answer_late(w, fd, number);
		for (i = 0; i < 10; i++) {
			world_run_link(w, host);
			world_run_link(w, agent);
		}
		if (number > 4) {
			/* The newest may; this host is the attempt's. */
			assert_int_equal(w->newest, number);
			assert_true(link_committed(agent));
			assert_int_equal(link_state(agent), LINK_UP);
		} else {
			assert_int_equal(w->newest, 4);
			assert_false(link_committed(agent));
			assert_int_equal(link_state(agent), LINK_FAILED);
			assert_int_equal(link_error(agent)->step,
			    WIRE_STEP_LINK);
			assert_int_equal(session_attachment(w->rig->server),
			    attachment);
			world_finish(w);
			verify(w);
		}
		link_free(host);
		link_free(agent);
		world_free(w);
	}
}

/* ---- how long the core waits --------------------------------------------- */

static uint64_t
stay_after(void (*end)(struct world *w, struct cable *c))
{
	struct world *w = world_new(7);
	struct cable *c;
	unsigned i;
	uint64_t stay;

	w->linger_ms = 4000;
	w->keep_old = true;
	c = world_connect(w);
	world_up(w);
	end(w, c);
	for (i = 0; i < 20; i++) {
		if (w->host != NULL) {
			world_run_link(w, w->host);
		}
		world_run_link(w, w->agents[0]);
		cable_step(c);
	}
	assert_true(link_state(w->agents[0]) >= LINK_CLOSED);
	assert_int_equal(session_attachment(w->rig->server), 0);
	stay = link_stay(w->agents[0]);
	if (w->host != NULL && stay != 0 && stay != 4000u * CLOCK_MS) {
		/* It has said so before it let go. */
		assert_int_equal(link_error(w->host)->step,
		    WIRE_STEP_SHUTDOWN);
		assert_false(link_session_closed(w->host));
	}
	world_free(w);
	return stay;
}

static void
end_by_cut(struct world *w, struct cable *c)
{
	(void)w;
	cable_cut(c);
}

static void
end_by_silence(struct world *w, struct cable *c)
{
	(void)c;
	c->blocked[0] = c->blocked[1] = true;
	for (unsigned i = 0; i < 8; i++) {
		cable_now += LINK_PING_MS * (uint64_t)CLOCK_MS;
		world_run_link(w, w->agents[0]);
	}
	world_hang_up(w);
}

static void
end_by_garbage(struct world *w, struct cable *c)
{
	(void)w;
	cable_out(&c->dir[TO_AGENT], "xxxxxxxx", 8);
}

static void
end_by_protocol(struct world *w, struct cable *c)
{
	struct wire msg = { .type = WIRE_ACK, .u.ack.next = 1000 };

	(void)c;
	link_seal_message(w->host, &msg);
}

static void
end_by_close(struct world *w, struct cable *c)
{
	(void)c;
	link_close(w->host, true, 9);
}

static void
end_by_park(struct world *w, struct cable *c)
{
	(void)c;
	link_close(w->host, false, 9);
}

static void
end_by_park_ever(struct world *w, struct cable *c)
{
	(void)c;
	link_close(w->host, false, WIRE_PARK_EVER);
}

static void
test_how_long_it_waits(void **state)
{
	const uint64_t linger = 4000u * CLOCK_MS;

	(void)state;
	assert_int_equal(stay_after(end_by_cut), linger);
	assert_int_equal(stay_after(end_by_silence), linger);
	assert_int_equal(stay_after(end_by_garbage), linger);
	assert_int_equal(stay_after(end_by_protocol), 0);
	assert_int_equal(stay_after(end_by_close), 0);
	assert_int_equal(stay_after(end_by_park), 9000u * CLOCK_MS);
	assert_int_equal(stay_after(end_by_park_ever), CLOCK_NEVER);
}

/* ---- a day --------------------------------------------------------------- */

#define HOUR (3600u * UINT64_C(1000) * CLOCK_MS)

static bool
quiet(const struct world *w)
{
	struct session_figures a, b;

	session_figures(w->rig->opener, &a);
	session_figures(w->rig->server, &b);
	return a.stored_big + a.stored_small + b.stored_big +
	    b.stored_small + a.in_flight + b.in_flight == 0 &&
	    w->rig->server->config.budget->chunks.used == 0 &&
	    w->rig->opener->config.budget->chunks.used == 0;
}

static unsigned
open_files(void)
{
	unsigned count = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++) {
		count += fcntl(fd, F_GETFD) != -1;
	}
	return count;
}

/* Both count the same frames, and have no request between them. */
static void
in_step(const struct world *w)
{
	struct session_rest a, b;

	assert_int_equal(session_rest(w->rig->opener, &a), 0);
	assert_int_equal(session_rest(w->rig->server, &b), 0);
	assert_int_equal(a.next, b.expected);
	assert_int_equal(b.next, a.expected);
	assert_int_equal(a.last, b.last);
	assert_int_equal(session_count(w->rig->opener), 0);
	assert_int_equal(session_count(w->rig->server), 0);
	assert_int_equal(w->committed, w->links);
}

/* Idle, with a command and a short cut now and then: no drift, no growth. */
static void
test_a_day(void **state)
{
	struct rig_plan plan = small_plan();
	struct world *w = world_new(8);
	uint64_t start = cable_now, most = 0, cut_at = start + HOUR / 3;
	unsigned long steps[24] = { 0 };
	unsigned hour, i, files = 0;

	(void)state;
	world_connect(w);
	world_up(w);
	while ((hour = (unsigned)((cable_now - start) / HOUR)) < 24) {
		world_step(w);
		steps[hour]++;
		assert_false(world_lost(w));
		if (cable_now - w->host->heard > most) {
			most = cable_now - w->host->heard;
		}
		if (cable_now < cut_at) {
			continue;
		}
		cut_at += HOUR / 2;
		ask(w, &plan);
		world_step(w);
		cable_cut(w->host_cable);
		for (i = 0; i < 3; i++) {
			world_run_link(w, w->host);
			world_run_link(w, w->agents[w->links - 1]);
		}
		world_hang_up(w);
		cable_now += 700u * CLOCK_MS;
		world_connect(w);
		world_finish(w);
		for (i = 0; i < 20; i++) {
			world_step(w);
		}
		assert_true(quiet(w));
		in_step(w);
		files = files == 0 ? open_files() : files;
		assert_int_equal(open_files(), files);
	}
	verify(w);
	print_message("%u links; steps in an hour: %lu, %lu, %lu; heard "
	    "after %llu ms at most\n", w->links, steps[1], steps[12],
	    steps[23], (unsigned long long)(most / CLOCK_MS));
	assert_true(w->links >= 40);
	/* Somebody is heard every ping, and no hour is busier than another. */
	assert_true(most < 2 * LINK_PING_MS * (uint64_t)CLOCK_MS);
	for (hour = 1; hour < 24; hour++) {
		assert_true(steps[hour] < steps[1] * 5 / 4);
		assert_true(steps[hour] > steps[1] * 3 / 4);
	}
	world_free(w);
}

/* ---- not the same session --------------------------------------------------- */

/* A link whose agent's terms or secret are others never comes up. */
static void
stranger(void (*change)(struct world *, struct link_config *))
{
	struct rig_plan plan = small_plan();
	struct world *w = world_new(4);
	struct link_config config = { 0 };
	unsigned steps = 0;
	uint64_t start;
	int fd;

	world_connect(w);
	world_up(w);
	ask(w, &plan);
	world_hang_up(w);
	world_dial(w, &fd);
	config = (struct link_config){ .session = w->rig->server,
	    .secret = w->cs, .in = fd, .out = fd,
	    .committed = &w->newest };
	world_words(&w->terms, &config.terms);
	change(w, &config);
	w->agents[w->links++] = link_new_agent(&config);
	start = cable_now;
	while (!world_lost(w)) {
		world_step(w);
		assert_true(++steps < 20000);
	}
	/* Its answer is noise, so it is waited for to the end, or it ends. */
	assert_true(cable_now - start <= LINK_HELLO_MS * UINT64_C(1000) +
	    100000);
	assert_int_equal(link_error(w->host)->step, WIRE_STEP_LINK);
	assert_int_equal(w->committed, 1);
	world_hang_up(w);
	/* The right one is still welcome. */
	if (config.secret != w->cs) {
		seal_secret_free(config.secret);
		world_drop(w, w->links - 1);
	}
	world_connect(w);
	world_finish(w);
	verify(w);
	world_free(w);
}

static void
other_secret(struct world *w, struct link_config *config)
{
	/* The secret of another session, made by a link 1 of its own. */
	struct world *other = world_new(5);

	(void)w;
	world_connect(other);
	world_up(other);
	config->secret = other->cs;
	other->cs = NULL;
	world_free(other);
}

static void
no_secret(struct world *w, struct link_config *config)
{
	(void)w;
	config->secret = seal_secret_new();
}

static void
other_number(struct world *w, struct link_config *config)
{
	(void)w;
	config->terms.number++;
}

static void
other_session(struct world *w, struct link_config *config)
{
	(void)w;
	config->terms.session[0] ^= 1;
}

static void
other_versions(struct world *w, struct link_config *config)
{
	(void)w;
	strcpy(config->terms.versions, "0001-0002");
}

static void
other_key(struct world *w, struct link_config *config)
{
	(void)w;
	config->terms.host_key[0] ^= 1;
}

static void
test_strangers(void **state)
{
	(void)state;
	stranger(other_secret);
	stranger(no_secret);
	stranger(other_number);
	stranger(other_session);
	stranger(other_versions);
	stranger(other_key);
}

/* A position that is not in the store: outcome unknown, and said so. */
static void
test_impossible_position(void **state)
{
	struct rig_plan plan = small_plan();
	struct world *w = world_new(6);
	unsigned steps = 0;

	(void)state;
	world_connect(w);
	world_up(w);
	ask(w, &plan);
	world_finish(w);
	world_hang_up(w);
	/* The core forgets what it received: its session is another one. */
	w->rig->server->expected = 1;
	world_connect(w);
	while (!world_lost(w)) {
		world_step(w);
		assert_true(++steps < 2000);
	}
	assert_int_equal(link_state(w->host), LINK_FAILED);
	assert_non_null(strstr(link_error(w->host)->text, "position 1"));
	world_free(w);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_byte_to_host),
		cmocka_unit_test(test_every_byte_to_agent),
		cmocka_unit_test(test_every_byte_late),
		cmocka_unit_test(test_every_record_cut),
		cmocka_unit_test(test_every_record_held),
		cmocka_unit_test(test_every_record_late),
		cmocka_unit_test(test_many_links),
		cmocka_unit_test(test_old_link_lives_on),
		cmocka_unit_test(test_failed_attempt),
		cmocka_unit_test(test_an_older_number),
		cmocka_unit_test(test_how_long_it_waits),
		cmocka_unit_test(test_a_day),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_impossible_position),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
