/* SPDX-License-Identifier: MIT */
/* test_plain.c - the client socket's carrier: frames, greetings, garbage. */
#include "plain.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "rig.h"

/* ---- one end ---------------------------------------------------------- */

struct end {
	struct plain *plain;
	struct pollset set;
	unsigned greetings;
	uint8_t type;
	bool refuse, answer;
};

static int
greeting(void *ctx, const struct wire *message, struct error *error)
{
	struct end *end = ctx;
	struct wire msg = { .type = WIRE_WELCOME, .u.welcome = {
	    .version = 1, .pid = 7, .program = wire_string("test") } };

	end->greetings++;
	end->type = message->type;
	if (end->refuse) {
		error_set(error, WIRE_STEP_USAGE, 0, "not today");
		return -1;
	}
	if (end->answer) {
		assert_int_equal(plain_greet(end->plain, &msg), 0);
	}
	return 0;
}

static void
end_new(struct end *end, int fd, struct session *session)
{
	struct plain_config config = { .fd = fd, .session = session,
	    .greeting = greeting, .ctx = end };

	end->plain = plain_new(&config);
	assert_non_null(end->plain);
}

static void
end_free(struct end *end)
{
	plain_free(end->plain);
	pollset_free(&end->set);
}

static void
end_run(struct end *end)
{
	pollset_clear(&end->set);
	plain_interest(end->plain, &end->set);
	pollset_wake(&end->set, 1);
	assert_int_equal(pollset_wait(&end->set), 0);
	plain_run(end->plain, &end->set);
}

static void
hello(struct end *end)
{
	struct wire msg = { .type = WIRE_HELLO, .u.hello = { .min = 1,
	    .max = 1, .target = wire_string("local") } };

	assert_int_equal(plain_greet(end->plain, &msg), 0);
}

/* ---- two ends on one socket --------------------------------------------- */

struct pair {
	struct rig *rig;
	struct end client, server;
	int fds[2];
};

static void
pair_new(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	p->rig = rig_new(1, false);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
	    p->fds), 0);
	end_new(&p->client, p->fds[0], p->rig->opener);
	end_new(&p->server, p->fds[1], p->rig->server);
	p->server.answer = true;
	hello(&p->client);
}

static void
pair_free(struct pair *p)
{
	end_free(&p->client);
	end_free(&p->server);
	rig_free(p->rig);
}

static void
pair_step(struct pair *p)
{
	rig_turn(p->rig);
	end_run(&p->client);
	end_run(&p->server);
}

static void
pair_finish(struct pair *p)
{
	unsigned steps = 0;

	while (!rig_over(p->rig)) {
		pair_step(p);
		if (plain_error(p->client.plain) != NULL) {
			fail_msg("%s", plain_error(p->client.plain)->text);
		}
		assert_true(++steps < 20000);
	}
	rig_verify_all(p->rig);
}

static void
test_requests(void **state)
{
	struct rig_plan plan = rig_plan_new(100000);
	struct pair p;
	unsigned i;

	(void)state;
	pair_new(&p);
	plan.in = 300000;
	plan.out[0] = 500000;
	plan.out[1] = 1000;
	plan.out_pace[0] = plan.in_pace = RIG_RANDOM;
	for (i = 0; i < 10; i++) {
		assert_non_null(rig_open(p.rig, &plan));
	}
	pair_finish(&p);
	assert_int_equal(p.client.greetings, 1);
	assert_int_equal(p.client.type, WIRE_WELCOME);
	assert_int_equal(p.server.greetings, 1);
	assert_int_equal(p.server.type, WIRE_HELLO);
	assert_true(plain_drained(p.client.plain));
	assert_true(plain_drained(p.server.plain));
	plain_trim(p.client.plain);
	plain_trim(p.server.plain);
	rig_open(p.rig, &plan);
	pair_finish(&p);
	pair_free(&p);
}

/* Nothing of the session is said before the far end's greeting. */
static void
test_greeting_first(void **state)
{
	struct rig_plan plan = rig_plan_new(10);
	struct pair p;
	uint8_t buf[1000];
	ssize_t n;
	int fds[2];

	(void)state;
	memset(&p, 0, sizeof(p));
	p.rig = rig_new(1, false);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
	    fds), 0);
	end_new(&p.client, fds[0], p.rig->opener);
	hello(&p.client);
	rig_open(p.rig, &plan);
	end_run(&p.client);
	end_run(&p.client);
	n = read(fds[1], buf, sizeof(buf));
	assert_true(n > 4);
	assert_int_equal(buf[4], WIRE_HELLO);
	assert_int_equal((buf[2] << 8 | buf[3]) + 4, n);
	assert_true(plain_drained(p.client.plain));
	end_free(&p.client);
	rig_free(p.rig);
	close(fds[1]);
}

/* ---- raw bytes ------------------------------------------------------------- */

struct raw {
	struct rig *rig;
	struct end end;
	int fd;
};

static void
raw_new(struct raw *r)
{
	int fds[2];

	memset(r, 0, sizeof(*r));
	r->rig = rig_new(1, false);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0,
	    fds), 0);
	end_new(&r->end, fds[0], r->rig->server);
	r->end.answer = true;
	r->fd = fds[1];
}

static void
raw_free(struct raw *r)
{
	end_free(&r->end);
	rig_free(r->rig);
	close(r->fd);
}

static void
put(struct raw *r, const void *data, size_t len)
{
	const uint8_t *at = data;
	ssize_t n;

	while (len > 0) {
		n = write(r->fd, at, len);
		if (n == -1) {
			assert_int_equal(errno, EAGAIN);
			n = 0;
		}
		at += n;
		len -= (size_t)n;
		end_run(&r->end);
		if (plain_error(r->end.plain) != NULL) {
			return;
		}
	}
	end_run(&r->end);
}

static size_t
frame(uint8_t *to, const struct wire *msg)
{
	size_t len;

	assert_int_equal(wire_encode(msg, to + 4, WIRE_FRAME_MAX, &len),
	    WIRE_OK);
	to[0] = to[1] = 0;
	to[2] = (uint8_t)(len >> 8);
	to[3] = (uint8_t)len;
	return len + 4;
}

static const struct wire hello_msg = { .type = WIRE_HELLO,
    .u.hello = { .min = 1, .max = 1 } };

/* HELLO, OPEN, a body and CANCEL: what a client says, in one piece. */
static size_t
talk(struct raw *r, uint8_t *to)
{
	struct wire msg = { .type = WIRE_OPEN, .u.open = { 1, WIRE_EXEC, 50,
	    8192, 8192 } };
	uint8_t body[50];
	size_t len = frame(to, &hello_msg);

	r->rig->last = 1;
	r->rig->asks[1].plan = rig_plan_new(50);
	rig_fill(body, 50, 1, 0, 0);
	len += frame(to + len, &msg);
	msg = (struct wire){ .type = WIRE_DATA, .u.data = { 1, 0, 0,
	    { body, 50 } } };
	len += frame(to + len, &msg);
	msg = (struct wire){ .type = WIRE_CANCEL, .u.cancel = { 1 } };
	return len + frame(to + len, &msg);
}

/* Cut in two at every place, and into single bytes. */
static void
test_split(void **state)
{
	uint8_t buf[1000];
	size_t len, cut, i;
	struct raw r;

	(void)state;
	len = 1;
	for (cut = 0; cut <= len; cut++) {
		raw_new(&r);
		len = talk(&r, buf);
		put(&r, buf, cut);
		put(&r, buf + cut, len - cut);
		assert_null(plain_error(r.end.plain));
		assert_int_equal(r.end.greetings, 1);
		assert_int_equal(r.rig->jobs[1].opened, 1);
		assert_true(r.rig->jobs[1].cancelled);
		raw_free(&r);
	}
	raw_new(&r);
	len = talk(&r, buf);
	for (i = 0; i < len; i++) {
		assert_false(r.rig->jobs[1].cancelled);
		put(&r, buf + i, 1);
	}
	assert_true(r.rig->jobs[1].cancelled);
	raw_free(&r);
}

static void
bad(const void *data, size_t len, enum wire_step step, const char *words)
{
	const struct error *error;
	struct raw r;

	raw_new(&r);
	put(&r, data, len);
	error = plain_error(r.end.plain);
	assert_non_null(error);
	assert_int_equal(error->step, step);
	if (strstr(error->text, words) == NULL) {
		fail_msg("\"%s\" where \"%s\" was expected", error->text,
		    words);
	}
	/* A dead one waits for nothing and says nothing. */
	pollset_clear(&r.end.set);
	plain_interest(r.end.plain, &r.end.set);
	assert_int_equal(r.end.set.count, 0);
	raw_free(&r);
}

static void
test_lengths(void **state)
{
	static const uint8_t zero[4] = { 0 }, over[4] = { 0, 0, 0x7f, 0xe4 };
	static const uint8_t huge[4] = { 0xff, 0xff, 0xff, 0xff };
	uint8_t text[] = "GET / HTTP/1.1\r\n\r\n";

	(void)state;
	assert_int_equal(WIRE_FRAME_MAX, 0x7fe3);
	bad(zero, 4, WIRE_STEP_PROTOCOL, "a frame of 0 bytes");
	bad(over, 4, WIRE_STEP_PROTOCOL, "a frame of 32740 bytes");
	bad(huge, 4, WIRE_STEP_PROTOCOL, "a frame of 4294967295 bytes");
	bad(text, sizeof(text), WIRE_STEP_PROTOCOL, "a frame of");
}

/* The largest frame passes. */
static void
test_largest(void **state)
{
	static uint8_t buf[WIRE_FRAME_MAX + 4], body[WIRE_DATA_MAX];
	struct wire msg = { .type = WIRE_OPEN, .u.open = { 1, WIRE_EXEC,
	    WIRE_DATA_MAX, 0, 0 } };
	struct raw r;
	size_t len;

	(void)state;
	raw_new(&r);
	r.rig->last = 1;
	r.rig->asks[1].plan = rig_plan_new(WIRE_DATA_MAX);
	put(&r, buf, frame(buf, &hello_msg));
	put(&r, buf, frame(buf, &msg));
	rig_fill(body, sizeof(body), 1, 0, 0);
	msg = (struct wire){ .type = WIRE_DATA, .u.data = { 1, 0, 0,
	    { body, sizeof(body) } } };
	len = frame(buf, &msg);
	assert_int_equal(len, sizeof(buf));
	put(&r, buf, len);
	assert_null(plain_error(r.end.plain));
	assert_int_equal(r.rig->jobs[1].opened, 1);
	raw_free(&r);
}

static void
test_greeting_rules(void **state)
{
	struct wire msg = { .type = WIRE_OPEN, .u.open = { 1, WIRE_EXEC, 1,
	    0, 0 } };
	uint8_t buf[400];
	struct raw r;
	size_t len;

	(void)state;
	/* Something else first. */
	len = frame(buf, &msg);
	bad(buf, len, WIRE_STEP_PROTOCOL, "no sandmux greeting");
	msg = (struct wire){ .type = WIRE_READY };
	len = frame(buf, &msg);
	bad(buf, len, WIRE_STEP_PROTOCOL, "no sandmux greeting");
	/* One that does not decode. */
	len = frame(buf, &hello_msg);
	buf[len - 1] = 9;
	bad(buf, len, WIRE_STEP_PROTOCOL, "no sandmux greeting");
	/* A second one. */
	len = frame(buf, &hello_msg);
	len += frame(buf + len, &hello_msg);
	bad(buf, len, WIRE_STEP_PROTOCOL, "unexpected hello");
	/* Link frames. */
	msg = (struct wire){ .type = WIRE_PING };
	len = frame(buf, &hello_msg);
	len += frame(buf + len, &msg);
	bad(buf, len, WIRE_STEP_PROTOCOL, "unexpected ping");
	/* The owner's own reason. */
	raw_new(&r);
	r.end.refuse = true;
	put(&r, buf, frame(buf, &hello_msg));
	assert_string_equal(plain_error(r.end.plain)->text, "not today");
	assert_int_equal(plain_error(r.end.plain)->step, WIRE_STEP_USAGE);
	assert_int_equal(r.end.greetings, 1);
	raw_free(&r);
}

static void
test_too_long_greeting(void **state)
{
	static uint8_t big[WIRE_PATH_MAX + 1];
	struct wire msg = { .type = WIRE_HELLO };
	struct raw r;

	(void)state;
	raw_new(&r);
	msg.u.hello.target = (struct wire_bytes){ big, sizeof(big) };
	errno = 0;
	assert_int_equal(plain_greet(r.end.plain, &msg), -1);
	assert_int_equal(errno, EMSGSIZE);
	assert_true(plain_drained(r.end.plain));
	raw_free(&r);
}

static void
test_garbage(void **state)
{
	uint8_t buf[512];
	unsigned seed = 1, round;
	size_t i, n;

	(void)state;
	for (round = 0; round < 2000; round++) {
		struct raw r;
		size_t len = 0;

		raw_new(&r);
		if (round % 2 == 0) {
			len = frame(buf, &hello_msg);
		}
		n = (size_t)rand_r(&seed) % 200;
		for (i = 0; i < n; i++) {
			buf[len++] = (uint8_t)(rand_r(&seed) % (round % 3 ?
			    256 : 34));
		}
		put(&r, buf, len);
		raw_free(&r);
	}
}

/* ---- ends -------------------------------------------------------------------- */

static void
test_end(void **state)
{
	struct raw r;

	(void)state;
	raw_new(&r);
	assert_null(plain_error(r.end.plain));
	shutdown(r.fd, SHUT_RDWR);
	end_run(&r.end);
	assert_int_equal(plain_error(r.end.plain)->step, WIRE_STEP_LINK);
	assert_int_equal(plain_error(r.end.plain)->number, 0);
	assert_null(session_next(r.rig->server));
	raw_free(&r);
}

/* What the controller said last counts, though it reads no more. */
static void
test_last_words(void **state)
{
	struct rig_plan plan = rig_plan_new(10);
	struct pair p;
	unsigned i;

	(void)state;
	pair_new(&p);
	plan.in = plan.out[0] = 5000;
	plan.early = true;
	rig_open(p.rig, &plan);
	while (!p.rig->jobs[1].closed) {
		rig_turn(p.rig);
		end_run(&p.server);
		if (p.rig->jobs[1].opened == 0) {
			end_run(&p.client);
		}
	}
	/* RESULT is in the client's socket; the far end goes. */
	assert_true(plain_drained(p.server.plain));
	assert_int_equal(p.rig->asks[1].results, 0);
	end_free(&p.server);
	session_signal(p.rig->asks[1].req, 2);
	plain_flush(p.client.plain);
	for (i = 0; i < 5; i++) {
		end_run(&p.client);
	}
	assert_int_equal(p.rig->asks[1].results, 1);
	rig_verify(p.rig, 1);
	assert_non_null(plain_error(p.client.plain));
	end_free(&p.client);
	rig_free(p.rig);
}

/* The far end reads no more, but does not close either. */
static void
test_half_closed(void **state)
{
	struct raw r;
	unsigned i;

	(void)state;
	raw_new(&r);
	shutdown(r.fd, SHUT_RD);
	hello(&r.end);
	for (i = 0; i < 5; i++) {
		end_run(&r.end);
	}
	assert_int_equal(plain_error(r.end.plain)->number, EPIPE);
	raw_free(&r);
}

/* A client that stops reading: what it has not read stays bounded. */
static void
test_stopped_reader(void **state)
{
	struct rig_plan plan = rig_plan_new(10);
	struct session_figures figures;
	struct pair p;
	unsigned i;

	(void)state;
	pair_new(&p);
	plan.out[0] = 8 << 20;
	plan.whole = true;
	rig_open(p.rig, &plan);
	for (i = 0; i < 10; i++) {
		pair_step(&p);
	}
	for (i = 0; i < 200; i++) {
		rig_turn(p.rig);
		end_run(&p.server);
	}
	session_figures(p.rig->server, &figures);
	assert_true(figures.stored_big <= 8);
	assert_true(p.rig->jobs[1].out_sent[0] < 4 << 20);
	assert_null(plain_error(p.server.plain));
	assert_false(plain_drained(p.server.plain));
	pair_finish(&p);
	pair_free(&p);
}

static int
setup(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_greeting_first),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_largest),
		cmocka_unit_test(test_greeting_rules),
		cmocka_unit_test(test_too_long_greeting),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_last_words),
		cmocka_unit_test(test_half_closed),
		cmocka_unit_test(test_stopped_reader),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
