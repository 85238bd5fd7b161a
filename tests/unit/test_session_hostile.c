/* SPDX-License-Identifier: MIT */
/* test_session_hostile.c - frames that a correct far end never sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lanes.h"
#include "rig.h"

static uint8_t zeros[WIRE_DATA_MAX];

static struct error last;

/* One frame arrives, rightly numbered. */
static int
arrive(struct session *to, const struct wire *msg)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	size_t len;
	uint8_t *copy;
	int rc;

	assert_int_equal(wire_encode(msg, frame, sizeof(frame), &len),
	    WIRE_OK);
	copy = malloc(len);
	memcpy(copy, frame, len);
	memset(&last, 0, sizeof(last));
	rc = session_receive(to, session_expected(to), copy, len, &last);
	free(copy);
	return rc;
}

static void
good(struct session *to, const struct wire *msg)
{
	if (arrive(to, msg) != 0) {
		fail_msg("%s: %s", wire_name(msg->type), last.text);
	}
}

/* The frame ends the session with a typed error that says this. */
static void
bad(struct session *to, const struct wire *msg, const char *words)
{
	if (arrive(to, msg) == 0) {
		fail_msg("%s was taken: %s expected", wire_name(msg->type),
		    words);
	}
	if (strstr(last.text, words) == NULL) {
		fail_msg("\"%s\" where \"%s\" was expected", last.text, words);
	}
	assert_int_equal(last.step, WIRE_STEP_PROTOCOL);
}

static struct wire
open_msg(uint32_t id, uint32_t body)
{
	return (struct wire){ .type = WIRE_OPEN, .u.open = { id, WIRE_EXEC,
	    body, 8192, 8192 } };
}

static struct wire
data_msg(uint32_t id, uint8_t channel, uint64_t offset, uint32_t len)
{
	return (struct wire){ .type = WIRE_DATA, .u.data = { id, channel,
	    offset, { zeros, len } } };
}

static struct wire
eof_msg(uint32_t id, uint8_t channel, uint64_t total)
{
	return (struct wire){ .type = WIRE_EOF, .u.eof = { id, channel,
	    total } };
}

static struct wire
credit_msg(uint32_t id, uint8_t channel, uint64_t limit)
{
	return (struct wire){ .type = WIRE_CREDIT, .u.credit = { id, channel,
	    limit } };
}

static struct wire
result_msg(uint32_t id, uint64_t out, uint64_t err)
{
	return (struct wire){ .type = WIRE_RESULT, .u.result = {
	    .request = id, .out = out, .err = err } };
}

static struct wire
signal_msg(uint32_t id, uint8_t number)
{
	return (struct wire){ .type = WIRE_SIGNAL, .u.signal = { id,
	    number } };
}

static struct wire
resize_msg(uint32_t id)
{
	return (struct wire){ .type = WIRE_RESIZE, .u.resize = { id, 1, 1 } };
}

static struct wire
cancel_msg(uint32_t id)
{
	return (struct wire){ .type = WIRE_CANCEL, .u.cancel = { id } };
}

#define GOOD(to, ...) do { \
		struct wire msg_ = __VA_ARGS__; \
		good(to, &msg_); \
	} while (0)
#define BAD(to, words, ...) do { \
		struct wire msg_ = __VA_ARGS__; \
		bad(to, &msg_, words); \
	} while (0)

/* ---- against a server -------------------------------------------------- */

/* Takes nothing, says nothing, until told to. */
static size_t
take_none(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	(void)ctx;
	(void)req;
	(void)index;
	(void)data;
	(void)len;
	return 0;
}

static void
on_opened(void *ctx, struct session_request *req, const uint8_t *body,
    uint32_t len)
{
	struct session_request **slot = ctx;

	(void)body;
	(void)len;
	*slot = req;
}

static void
nothing(void *ctx, struct session_request *req, unsigned index)
{
	(void)ctx;
	(void)req;
	(void)index;
}

static void
no_signal(void *ctx, struct session_request *req, int number)
{
	(void)ctx;
	(void)req;
	(void)number;
}

static void
no_resize(void *ctx, struct session_request *req, unsigned rows,
    unsigned columns)
{
	(void)ctx;
	(void)req;
	(void)rows;
	(void)columns;
}

static void
no_cancel(void *ctx, struct session_request *req)
{
	(void)ctx;
	(void)req;
}

static const struct session_events quiet = {
	.opened = on_opened, .data = take_none, .ended = nothing,
	.unwanted = nothing, .signal = no_signal, .resize = no_resize,
	.cancel = no_cancel
};

struct server {
	struct session *s;
	struct session_budget budget;
	struct session_request *req;	/* the last that was opened */
};

static struct server *
server_new(void)
{
	struct server *v = calloc(1, sizeof(*v));
	struct session_config config = { .events = &quiet, .ctx = &v->req,
	    .budget = &v->budget, .server = true, .stored = true };
	struct error error;

	assert_int_equal(session_budget_init(&v->budget, SESSION_REQUESTS), 0);
	v->s = session_new(&config);
	assert_non_null(v->s);
	assert_int_equal(session_attach(v->s, 0, &error), 0);
	return v;
}

static void
server_free(struct server *v)
{
	session_free(v->s);
	assert_int_equal(v->budget.chunks.used, 0);
	assert_int_equal(v->budget.granted, 0);
	session_budget_free(&v->budget);
	free(v);
}

/* A server with request 5 open and running. */
static struct server *
running(void)
{
	struct server *v = server_new();

	GOOD(v->s, open_msg(5, 3));
	GOOD(v->s, data_msg(5, WIRE_CH_BODY, 0, 3));
	assert_non_null(v->req);
	return v;
}

#define AGAINST(make, words, ...) do { \
		struct server *v_ = make(); \
		BAD(v_->s, words, __VA_ARGS__); \
		server_free(v_); \
	} while (0)

static void
test_ids(void **state)
{
	(void)state;
	AGAINST(server_new, "ids must rise", open_msg(0, 1));
	AGAINST(running, "ids must rise", open_msg(5, 1));
	AGAINST(running, "ids must rise", open_msg(4, 1));
	AGAINST(running, "request 6 was never opened",
	    data_msg(6, WIRE_CH_BODY, 0, 1));
	AGAINST(running, "request 0 was never opened",
	    data_msg(0, WIRE_CH_BODY, 0, 1));
	AGAINST(running, "request 6 was never opened", eof_msg(6, 1, 0));
	AGAINST(running, "request 6 was never opened", credit_msg(6, 2, 9));
	AGAINST(running, "request 6 was never opened", signal_msg(6, 2));
	AGAINST(running, "request 6 was never opened", resize_msg(6));
	AGAINST(running, "request 6 was never opened", cancel_msg(6));
	AGAINST(running, "request 4294967295 was never opened",
	    cancel_msg(UINT32_MAX));
}

/* A gap in the ids is allowed; what lies in it counts as over. */
static void
test_gap(void **state)
{
	struct server *v = running();

	(void)state;
	GOOD(v->s, open_msg(UINT32_MAX, 1));
	GOOD(v->s, cancel_msg(4));
	BAD(v->s, "ids must rise", open_msg(UINT32_MAX, 1));
	server_free(v);
}

static void
test_body_limits(void **state)
{
	struct server *v;

	(void)state;
	AGAINST(server_new, "body length", open_msg(1, 0));
	AGAINST(server_new, "body length", open_msg(1, WIRE_BODY_MAX + 1));
	AGAINST(server_new, "body length", open_msg(1, UINT32_MAX));
	v = server_new();
	GOOD(v->s, open_msg(1, 10));
	BAD(v->s, "body longer than OPEN said",
	    data_msg(1, WIRE_CH_BODY, 0, 11));
	server_free(v);
	/* Only one body has credit for more than the first 8 KiB. */
	v = server_new();
	GOOD(v->s, open_msg(1, 20000));
	GOOD(v->s, open_msg(2, 20000));
	GOOD(v->s, data_msg(1, WIRE_CH_BODY, 0, 8193));
	GOOD(v->s, data_msg(2, WIRE_CH_BODY, 0, 8192));
	BAD(v->s, "request 2: data beyond its credit",
	    data_msg(2, WIRE_CH_BODY, 8192, 1));
	server_free(v);
	AGAINST(running, "data after the end",
	    data_msg(5, WIRE_CH_BODY, 3, 1));
}

static void
test_directions(void **state)
{
	unsigned channel;

	(void)state;
	for (channel = 0; channel < 256; channel++) {
		uint8_t c = (uint8_t)channel;

		if (channel > 1) {
			AGAINST(running, "data on the wrong channel",
			    data_msg(5, c, 0, 1));
		}
		if (channel != 1) {
			AGAINST(running, "end of the wrong channel",
			    eof_msg(5, c, 0));
		}
		if (channel != 2 && channel != 3) {
			AGAINST(running, "credit for the wrong channel",
			    credit_msg(5, c, 10000));
		}
	}
	AGAINST(running, "unexpected result", result_msg(5, 0, 0));
	AGAINST(running, "unexpected log", (struct wire){
	    .type = WIRE_LOG, .u.log = { 1, { zeros, 1 } } });
	AGAINST(running, "unexpected ack", (struct wire){
	    .type = WIRE_ACK });
	AGAINST(running, "unexpected hello", (struct wire){
	    .type = WIRE_HELLO, .u.hello.env = { 0, { NULL, 0 } } });
	AGAINST(running, "unexpected probe", (struct wire){
	    .type = WIRE_PROBE });
}

static void
test_offsets(void **state)
{
	struct server *v;

	(void)state;
	AGAINST(running, "request 5: data at the wrong offset",
	    data_msg(5, WIRE_CH_IN, 1, 1));
	AGAINST(running, "wrong offset",
	    data_msg(5, WIRE_CH_IN, UINT64_MAX, 1));
	v = running();
	GOOD(v->s, data_msg(5, WIRE_CH_IN, 0, 100));
	BAD(v->s, "wrong offset", data_msg(5, WIRE_CH_IN, 0, 100));
	BAD(v->s, "wrong offset", data_msg(5, WIRE_CH_IN, 99, 2));
	server_free(v);
}

static void
test_credit(void **state)
{
	struct server *v = running();

	(void)state;
	GOOD(v->s, data_msg(5, WIRE_CH_IN, 0, SESSION_WINDOW_MIN));
	BAD(v->s, "request 5: data beyond its credit",
	    data_msg(5, WIRE_CH_IN, SESSION_WINDOW_MIN, 1));
	server_free(v);
	AGAINST(running, "data beyond its credit",
	    data_msg(5, WIRE_CH_IN, 0, SESSION_WINDOW_MIN + 1));
	AGAINST(running, "data beyond its credit",
	    data_msg(5, WIRE_CH_IN, 0, WIRE_DATA_MAX));
	/* Before the body is complete too. */
	v = server_new();
	GOOD(v->s, open_msg(1, 3));
	GOOD(v->s, data_msg(1, WIRE_CH_IN, 0, SESSION_WINDOW_MIN));
	BAD(v->s, "data beyond its credit",
	    data_msg(1, WIRE_CH_IN, SESSION_WINDOW_MIN, 1));
	server_free(v);
}

static void
test_ends(void **state)
{
	struct server *v;

	(void)state;
	AGAINST(running, "not where the data ended", eof_msg(5, 1, 1));
	v = running();
	GOOD(v->s, data_msg(5, WIRE_CH_IN, 0, 10));
	BAD(v->s, "not where the data ended", eof_msg(5, 1, 9));
	BAD(v->s, "not where the data ended", eof_msg(5, 1, UINT64_MAX));
	server_free(v);
	v = running();
	GOOD(v->s, data_msg(5, WIRE_CH_IN, 0, 10));
	GOOD(v->s, eof_msg(5, 1, 10));
	BAD(v->s, "a second end", eof_msg(5, 1, 10));
	BAD(v->s, "request 5: data after the end",
	    data_msg(5, WIRE_CH_IN, 10, 1));
	server_free(v);
}

static void
test_signals(void **state)
{
	(void)state;
	AGAINST(running, "no such signal", signal_msg(5, 0));
	AGAINST(running, "no such signal", signal_msg(5, 64));
	AGAINST(running, "no such signal", signal_msg(5, 255));
}

static void
test_too_many(void **state)
{
	struct server *v = server_new();
	uint32_t id;

	(void)state;
	for (id = 1; id <= SESSION_REQUESTS; id++) {
		GOOD(v->s, open_msg(id, 10));
	}
	BAD(v->s, "too many requests", open_msg(id, 10));
	server_free(v);
}

/* The budget's limit is no excuse to hold more: refused ones count too. */
static void
test_too_many_refused(void **state)
{
	struct server *v = server_new();
	uint32_t id;

	(void)state;
	v->budget.limit = 1;
	for (id = 1; id <= SESSION_REQUESTS; id++) {
		GOOD(v->s, open_msg(id, 10));
		GOOD(v->s, data_msg(id, WIRE_CH_IN, 0, 100));
	}
	BAD(v->s, "too many requests", open_msg(id, 10));
	assert_true(v->budget.chunks.used <= 1);
	server_free(v);
}

static void
test_numbers(void **state)
{
	struct server *v = server_new();
	uint8_t frame[64] = { 200 };
	struct error error;
	struct wire msg = open_msg(1, 1);
	size_t len;

	(void)state;
	assert_int_equal(wire_encode(&msg, frame, sizeof(frame), &len),
	    WIRE_OK);
	assert_int_equal(session_receive(v->s, 1, frame, len, &error), -1);
	assert_string_equal(error.text, "frame 1 where 0 was expected");
	assert_int_equal(session_count(v->s), 0);
	assert_int_equal(session_receive(v->s, 0, frame, len, &error), 0);
	assert_int_equal(session_receive(v->s, 0, frame, len, &error), -1);
	assert_string_equal(error.text, "frame 0 where 1 was expected");
	assert_int_equal(session_receive(v->s, UINT64_MAX, frame, len,
	    &error), -1);
	assert_int_equal(session_expected(v->s), 1);
	/* Frames that are none. */
	assert_int_equal(session_receive(v->s, 1, frame, 0, &error), -1);
	assert_non_null(strstr(error.text, "empty"));
	assert_int_equal(session_receive(v->s, 1, frame, len - 1, &error),
	    -1);
	assert_non_null(strstr(error.text, "open message"));
	frame[0] = 200;
	assert_int_equal(session_receive(v->s, 1, frame, len, &error), -1);
	assert_non_null(strstr(error.text, "unknown"));
	assert_int_equal(session_expected(v->s), 1);
	server_free(v);
}

/* Frames for a request that has ended are dropped without a word. */
static void
test_after_the_end(void **state)
{
	struct server *v = running();
	struct wire_result result = { 0 };

	(void)state;
	GOOD(v->s, data_msg(5, WIRE_CH_IN, 0, 10));
	session_result(v->req, &result);
	GOOD(v->s, data_msg(5, WIRE_CH_IN, 10, 10));
	while (session_next(v->s) != NULL) {
		continue;
	}
	assert_int_equal(session_count(v->s), 0);
	GOOD(v->s, data_msg(5, WIRE_CH_IN, 20, 10));
	GOOD(v->s, data_msg(5, WIRE_CH_IN, 99999, 10));
	GOOD(v->s, eof_msg(5, 1, 20));
	GOOD(v->s, credit_msg(5, 2, UINT64_MAX));
	GOOD(v->s, signal_msg(5, 9));
	GOOD(v->s, resize_msg(5));
	GOOD(v->s, cancel_msg(5));
	/* What is wrong for any request is wrong for this one. */
	BAD(v->s, "wrong channel", data_msg(5, 2, 0, 1));
	BAD(v->s, "no such signal", signal_msg(5, 0));
	assert_int_equal(v->budget.chunks.used, 0);
	server_free(v);
}

/* ---- against an opener ------------------------------------------------- */

/* Request 1 is open and said so; what its reader does is the plan's. */
static struct rig *
asked(enum rig_pace pace)
{
	struct rig *rig = rig_new(1, true);
	struct rig_plan plan = rig_plan_new(100);
	struct error error;

	plan.out_pace[0] = plan.out_pace[1] = pace;
	assert_int_equal(session_attach(rig->opener, 0, &error), 0);
	assert_non_null(rig_open(rig, &plan));
	while (session_next(rig->opener) != NULL) {
		continue;
	}
	return rig;
}

#define TO_OPENER(words, ...) do { \
		struct rig *rig_ = asked(RIG_STALLED); \
		BAD(rig_->opener, words, __VA_ARGS__); \
		rig_free(rig_); \
	} while (0)

static void
test_opener_ids(void **state)
{
	struct rig *rig;

	(void)state;
	TO_OPENER("request 2 was never opened", data_msg(2, 2, 0, 1));
	TO_OPENER("request 0 was never opened", data_msg(0, 2, 0, 1));
	TO_OPENER("request 2 was never opened", eof_msg(2, 2, 0));
	TO_OPENER("request 2 was never opened", result_msg(2, 0, 0));
	TO_OPENER("request 0 was never opened", result_msg(0, 0, 0));
	TO_OPENER("request 2 was never opened", credit_msg(2, 1, 9000));
	/* It exists, but its OPEN has not been sent. */
	rig = asked(RIG_GREEDY);
	session_detach(rig->opener);
	rig_open(rig, &rig->asks[1].plan);
	BAD(rig->opener, "request 2 was never opened", result_msg(2, 0, 0));
	BAD(rig->opener, "request 2 was never opened",
	    data_msg(2, 2, 0, 1));
	rig_free(rig);
}

static void
test_opener_directions(void **state)
{
	unsigned channel;

	(void)state;
	for (channel = 0; channel < 256; channel++) {
		uint8_t c = (uint8_t)channel;

		if (channel != 2 && channel != 3) {
			TO_OPENER("data on the wrong channel",
			    data_msg(1, c, 0, 1));
			TO_OPENER("end of the wrong channel",
			    eof_msg(1, c, 0));
		}
		if (channel > 1) {
			TO_OPENER("credit for the wrong channel",
			    credit_msg(1, c, 9000));
		}
	}
	TO_OPENER("unexpected open", open_msg(9, 1));
	TO_OPENER("unexpected signal", signal_msg(1, 9));
	TO_OPENER("unexpected resize", resize_msg(1));
	TO_OPENER("unexpected cancel", cancel_msg(1));
}

static void
test_opener_data(void **state)
{
	struct rig *rig;

	(void)state;
	TO_OPENER("wrong offset", data_msg(1, 2, 1, 1));
	TO_OPENER("data beyond its credit", data_msg(1, 2, 0, 8193));
	rig = asked(RIG_STALLED);
	memset(zeros, 0, sizeof(zeros));
	GOOD(rig->opener, data_msg(1, 3, 0, 8192));
	BAD(rig->opener, "data beyond its credit", data_msg(1, 3, 8192, 1));
	GOOD(rig->opener, eof_msg(1, 3, 8192));
	BAD(rig->opener, "data after the end", data_msg(1, 3, 8192, 1));
	BAD(rig->opener, "a second end", eof_msg(1, 3, 8192));
	BAD(rig->opener, "not where the data ended", eof_msg(1, 2, 1));
	rig_free(rig);
}

static void
test_opener_results(void **state)
{
	struct wire msg = result_msg(1, 0, 0);
	struct rig *rig;

	(void)state;
	TO_OPENER("totals differ", result_msg(1, 1, 0));
	TO_OPENER("totals differ", result_msg(1, 0, UINT64_MAX));
	rig = asked(RIG_STALLED);
	GOOD(rig->opener, data_msg(1, 2, 0, 10));
	BAD(rig->opener, "totals differ", result_msg(1, 9, 0));
	BAD(rig->opener, "totals differ", result_msg(1, 11, 0));
	GOOD(rig->opener, result_msg(1, 10, 0));
	/* It waits until the ten bytes were taken. */
	assert_int_equal(rig->asks[1].results, 0);
	BAD(rig->opener, "a second result", result_msg(1, 10, 0));
	BAD(rig->opener, "data after the end", data_msg(1, 2, 10, 1));
	BAD(rig->opener, "a second end", eof_msg(1, 2, 10));
	session_consume(rig->asks[1].req, 0, 10);
	assert_int_equal(rig->asks[1].results, 1);
	/* Now it is over: the same frames are dropped. */
	GOOD(rig->opener, result_msg(1, 10, 0));
	GOOD(rig->opener, data_msg(1, 2, 10, 1));
	rig_free(rig);
	msg.u.result.outcome = WIRE_FAILED + 1;
	rig = asked(RIG_GREEDY);
	bad(rig->opener, &msg, "unknown outcome");
	rig_free(rig);
}

/* ---- credit from a hostile receiver ------------------------------------ */

static void
test_lower_credit(void **state)
{
	struct rig *rig = asked(RIG_GREEDY);
	struct session_request *req = rig->asks[1].req;

	(void)state;
	GOOD(rig->opener, credit_msg(1, 1, 50000));
	assert_int_equal(req->out[1].limit, 50000);
	GOOD(rig->opener, credit_msg(1, 1, 100));
	assert_int_equal(req->out[1].limit, 50000);
	GOOD(rig->opener, credit_msg(1, 1, UINT64_MAX - 1));
	assert_true(req->out[1].limit == UINT64_MAX - 1);
	GOOD(rig->opener, credit_msg(1, 1, WIRE_UNWANTED));
	GOOD(rig->opener, credit_msg(1, 1, WIRE_UNWANTED));
	assert_true(rig->asks[1].unwanted);
	rig_free(rig);
}

/* ---- acknowledgements --------------------------------------------------- */

static void
test_acks(void **state)
{
	struct rig *rig = asked(RIG_GREEDY);
	struct error error = { 0 };
	struct session_figures f;

	(void)state;
	session_figures(rig->opener, &f);
	assert_int_equal(f.stored_small, 2);	/* OPEN and the body */
	assert_int_equal(session_acked(rig->opener, 3, &error), -1);
	assert_string_equal(error.text, "position 3 outside 0 to 2");
	assert_int_equal(error.step, WIRE_STEP_PROTOCOL);
	assert_int_equal(session_acked(rig->opener, UINT64_MAX, &error), -1);
	assert_int_equal(session_acked(rig->opener, 1, &error), 0);
	assert_int_equal(session_acked(rig->opener, 0, &error), -1);
	assert_string_equal(error.text, "position 0 outside 1 to 2");
	assert_int_equal(session_attach(rig->opener, 0, &error), -1);
	assert_int_equal(session_attach(rig->opener, 3, &error), -1);
	assert_int_equal(session_acked(rig->opener, 1, &error), 0);
	assert_int_equal(session_acked(rig->opener, 2, &error), 0);
	session_figures(rig->opener, &f);
	assert_int_equal(f.stored_small, 0);
	assert_int_equal(session_acked(rig->opener, 1, &error), -1);
	assert_int_equal(session_acked(rig->opener, 3, &error), -1);
	rig_free(rig);
}

/* ---- chance -------------------------------------------------------------- */

static struct wire
any(unsigned *seed)
{
	static const uint64_t odd[] = { 0, 1, 3, 10, 8191, 8192, 8193, 20000,
	    UINT32_MAX, UINT64_MAX - 1, UINT64_MAX };
	uint32_t id = (uint32_t)rand_r(seed) % 6;
	uint8_t channel = (uint8_t)(rand_r(seed) % 4);
	uint64_t n = odd[(unsigned)rand_r(seed) % 11];
	uint32_t len = (uint32_t)rand_r(seed) % 9000 + 1;

	switch (rand_r(seed) % 9) {
	case 0:
		return open_msg(id, (uint32_t)n % 30000 + 1);
	case 1:
		return eof_msg(id, channel, n);
	case 2:
		return credit_msg(id, channel, n);
	case 3:
		return signal_msg(id, (uint8_t)rand_r(seed));
	case 4:
		return cancel_msg(id);
	case 5:
		return result_msg(id, n, 0);
	default:
		return data_msg(id, channel, rand_r(seed) % 2 ? 0 : n, len);
	}
}

/*
 * Sessions of nonsense: no crash, and what was held is free.  An
 * error does not end the session here, so that it goes deeper.
 */
static void
test_nonsense(void **state)
{
	unsigned seed = 1, round, i;

	(void)state;
	for (round = 0; round < 300; round++) {
		struct server *v = server_new();
		struct rig *rig = asked(RIG_STALLED);

		for (i = 0; i < 60; i++) {
			struct wire msg = any(&seed);

			arrive(v->s, &msg);
			arrive(rig->opener, &msg);
			if (i % 8 == 0) {
				session_next(v->s);
				session_next(rig->opener);
			}
			assert_true(v->budget.granted <= SESSION_POOL);
			assert_true(rig->ob.granted <= SESSION_POOL);
		}
		server_free(v);
		rig_free(rig);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_body_limits),
		cmocka_unit_test(test_directions),
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_credit),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_too_many_refused),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_after_the_end),
		cmocka_unit_test(test_opener_ids),
		cmocka_unit_test(test_opener_directions),
		cmocka_unit_test(test_opener_data),
		cmocka_unit_test(test_opener_results),
		cmocka_unit_test(test_lower_credit),
		cmocka_unit_test(test_acks),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
