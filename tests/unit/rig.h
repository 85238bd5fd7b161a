/* SPDX-License-Identifier: MIT */
/*
 * rig.h - two sessions and the programs at both ends, for tests.
 *
 * Requests follow a plan that both ends know by the request's id: how many
 * bytes go where, who stops reading when, which signals have to come.  Every
 * byte is a function of request, channel and offset, and is checked where it
 * arrives.  What carries the frames is the test's business.
 *
 * Include after cmocka.h.
 */
#ifndef RIG_H
#define RIG_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define RIG_MOST 1024u			/* ids of one rig */
#define RIG_NEVER UINT64_MAX

enum rig_pace {
	RIG_GREEDY,			/* takes all at once */
	RIG_RANDOM,			/* some now, some later */
	RIG_STALLED			/* nothing at all */
};

struct rig_plan {
	uint8_t kind;			/* 0: EXEC */
	uint32_t body;
	uint64_t in, out[2];		/* bytes that are offered */
	enum rig_pace in_pace, out_pace[2];
	uint64_t in_drop, out_drop[2];	/* stop reading there */
	bool early;			/* the result does not wait for IN */
	bool wait;			/* it waits for signals 10 and 12 */
	bool hold;			/* it does not come by itself */
	bool end_first;			/* session_end() before the data */
	bool whole;			/* pull as much as fits, at once */
	bool no_eof;			/* the opener never ends IN */
};

struct rig_ask {			/* the opener's end */
	struct rig_plan plan;
	struct session_request *req;	/* NULL once it is over */
	uint64_t in_sent, out_seen[2];
	bool in_done, unwanted, ended[2], dropped[2], lazy;
	bool cancelled, abandoned, done;
	unsigned results;
	struct wire_result result;
	char text[WIRE_TEXT_MAX + 1];
};

struct rig_job {			/* the server's end */
	struct session_request *req;	/* NULL before and after */
	uint64_t in_seen, out_sent[2];
	bool in_ended, in_dropped, out_done[2], unwanted[2], cancelled;
	bool resulted, closed;
	unsigned opened, signals[64], resizes, rows, columns;
};

struct rig {
	struct session *opener, *server;
	struct session_budget ob, sb;
	struct rig_ask asks[RIG_MOST];
	struct rig_job jobs[RIG_MOST];
	unsigned last;			/* highest id opened */
	unsigned seed, logs;
	char log[WIRE_TEXT_MAX + 1];
};

static inline unsigned
rig_random(struct rig *rig, unsigned below)
{
	return (unsigned)rand_r(&rig->seed) % below;
}

/* ---- bytes ------------------------------------------------------------ */

static inline uint8_t
rig_byte(uint32_t id, unsigned channel, uint64_t offset)
{
	return (uint8_t)(offset * 131 + (offset >> 8) * 29 + id * 7 +
	    channel * 61);
}

static inline void
rig_fill(uint8_t *to, size_t len, uint32_t id, unsigned channel, uint64_t at)
{
	size_t i;

	for (i = 0; i < len; i++) {
		to[i] = rig_byte(id, channel, at + i);
	}
}

static inline void
rig_check(const uint8_t *from, size_t len, uint32_t id, unsigned channel,
    uint64_t at)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (from[i] != rig_byte(id, channel, at + i)) {
			fail_msg("request %u channel %u byte %llu is wrong",
			    (unsigned)id, channel,
			    (unsigned long long)(at + i));
		}
	}
}

/* How much of len a reader of this pace takes in the event. */
static inline size_t
rig_takes(struct rig *rig, enum rig_pace pace, size_t len)
{
	switch (pace) {
	case RIG_GREEDY:
		return len;
	case RIG_RANDOM:
		return rig_random(rig, 3) == 0 ? len :
		    rig_random(rig, (unsigned)len + 1);
	default:
		return 0;
	}
}

/* ---- the server's program --------------------------------------------- */

static inline struct rig_plan *
rig_plan_of(struct rig *rig, const struct rig_job *job)
{
	return &rig->asks[job - rig->jobs].plan;
}

static inline uint32_t
rig_id(const struct rig *rig, const struct rig_job *job)
{
	return (uint32_t)(job - rig->jobs);
}

static inline void
rig_finish(struct rig_job *job, uint8_t outcome, int code)
{
	struct wire_result result = { .outcome = outcome, .code = code,
	    .in = job->in_seen, .text = wire_string("words"),
	    .info = wire_string("info") };

	assert_false(job->resulted);
	job->resulted = true;
	session_result(job->req, &result);
	/* A second one has no effect. */
	session_result(job->req, &result);
}

static inline void
rig_settle(struct rig *rig, struct rig_job *job)
{
	const struct rig_plan *plan = rig_plan_of(rig, job);
	unsigned i;

	if (job->req == NULL || job->resulted || plan->hold) {
		return;
	}
	if (job->cancelled) {
		rig_finish(job, WIRE_CANCELLED, 0);
		return;
	}
	for (i = 0; i < 2; i++) {
		if (!job->out_done[i] && !job->unwanted[i]) {
			return;
		}
	}
	if (!plan->early && !job->in_dropped && !(job->in_ended &&
	    job->req->in[1].queue.length == 0)) {
		return;
	}
	if (plan->wait && (job->signals[10] == 0 || job->signals[12] == 0)) {
		return;
	}
	rig_finish(job, WIRE_EXITED, (int)rig_id(rig, job));
}

static inline void
rig_opened(void *ctx, struct session_request *req, const uint8_t *body,
    uint32_t len)
{
	struct rig *rig = ctx;
	struct rig_job *job = &rig->jobs[req->id];
	const struct rig_plan *plan = rig_plan_of(rig, job);
	unsigned i;

	assert_int_equal(job->opened++, 0);
	assert_int_equal(len, plan->body);
	assert_int_equal(req->kind, plan->kind);
	rig_check(body, len, req->id, 0, 0);
	job->req = req;
	req->app = job;
	for (i = 0; i < 2; i++) {
		if (plan->end_first) {
			session_end(req, i);
		}
		session_ready(req, i);
	}
}

static inline void
rig_server_drop(struct rig *rig, struct rig_job *job)
{
	if (!job->in_dropped && !job->resulted &&
	    job->in_seen >= rig_plan_of(rig, job)->in_drop) {
		job->in_dropped = true;
		session_drop(job->req, 1);
	}
}

static inline size_t
rig_server_data(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	struct rig *rig = ctx;
	struct rig_job *job = req->app;
	size_t n;

	assert_int_equal(index, 1);
	assert_non_null(job);
	assert_false(job->in_dropped || job->resulted);
	n = rig_takes(rig, rig_plan_of(rig, job)->in_pace, len);
	rig_check(data, n, req->id, 1, job->in_seen);
	job->in_seen += n;
	rig_server_drop(rig, job);
	return n;
}

static inline void
rig_server_ended(void *ctx, struct session_request *req, unsigned index)
{
	struct rig_job *job = req->app;

	(void)ctx;
	assert_int_equal(index, 1);
	assert_false(job->in_ended);
	job->in_ended = true;
}

static inline size_t
rig_server_pull(void *ctx, struct session_request *req, unsigned index,
    uint8_t *buf, size_t max)
{
	struct rig *rig = ctx;
	struct rig_job *job = req->app;
	const struct rig_plan *plan = rig_plan_of(rig, job);
	uint64_t left = plan->out[index] - job->out_sent[index];
	size_t n = left < max ? (size_t)left : max;

	assert_true(max > 0);
	assert_false(job->resulted || job->unwanted[index]);
	if (n == 0) {
		job->out_done[index] = true;
		session_end(req, index);
		return 0;
	}
	if (!plan->whole) {
		/* After session_end() a 0 would be the end. */
		if (!plan->end_first && rig_random(rig, 8) == 0) {
			return 0;
		}
		n = rig_random(rig, 3) == 0 ? rig_random(rig, (unsigned)n) + 1
		    : n;
	}
	rig_fill(buf, n, req->id, index + 2, job->out_sent[index]);
	job->out_sent[index] += n;
	return n;
}

static inline void
rig_server_unwanted(void *ctx, struct session_request *req, unsigned index)
{
	struct rig_job *job = req->app;

	(void)ctx;
	assert_false(job->unwanted[index]);
	job->unwanted[index] = true;
}

static inline void
rig_server_signal(void *ctx, struct session_request *req, int number)
{
	struct rig_job *job = req->app;

	(void)ctx;
	assert_int_equal(job->opened, 1);
	job->signals[number]++;
}

static inline void
rig_server_resize(void *ctx, struct session_request *req, unsigned rows,
    unsigned columns)
{
	struct rig_job *job = req->app;

	(void)ctx;
	assert_int_equal(job->opened, 1);
	job->resizes++;
	job->rows = rows;
	job->columns = columns;
}

static inline void
rig_server_cancel(void *ctx, struct session_request *req)
{
	struct rig_job *job = req->app;

	(void)ctx;
	job->cancelled = true;
}

static inline void
rig_server_closed(void *ctx, struct session_request *req)
{
	struct rig *rig = ctx;
	struct rig_job *job = &rig->jobs[req->id];

	assert_false(job->closed);
	job->closed = true;
	job->req = NULL;
}

/* One turn of a job: offer something, take something. */
static inline void
rig_job_turn(struct rig *rig, struct rig_job *job)
{
	const struct rig_plan *plan = rig_plan_of(rig, job);
	uint8_t buf[9000];
	const uint8_t *data;
	uint64_t left;
	size_t n, len;
	unsigned i;

	if (job->req == NULL || job->resulted) {
		return;
	}
	for (i = 0; i < 2; i++) {
		if (job->out_done[i] || job->unwanted[i]) {
			continue;
		}
		left = plan->out[i] - job->out_sent[i];
		n = left < sizeof(buf) ? (size_t)left : sizeof(buf);
		if (!plan->whole && n > 0 && rig_random(rig, 2) == 0) {
			n = rig_random(rig, (unsigned)n) + 1;
			rig_fill(buf, n, rig_id(rig, job), i + 2,
			    job->out_sent[i]);
			job->out_sent[i] += session_push(job->req, i, buf, n);
		}
		session_ready(job->req, i);
	}
	while (plan->in_pace == RIG_RANDOM && !job->in_dropped &&
	    rig_random(rig, 4) != 0 &&
	    (len = session_peek(job->req, 1, &data)) > 0) {
		n = rig_random(rig, (unsigned)len) + 1;
		rig_check(data, n, rig_id(rig, job), 1, job->in_seen);
		job->in_seen += n;
		session_consume(job->req, 1, n);
	}
	/* A greedy one finds what came before its body was complete. */
	while (plan->in_pace == RIG_GREEDY && !job->in_dropped &&
	    (len = session_peek(job->req, 1, &data)) > 0) {
		rig_check(data, len, rig_id(rig, job), 1, job->in_seen);
		job->in_seen += len;
		session_consume(job->req, 1, len);
	}
	rig_server_drop(rig, job);
	rig_settle(rig, job);
}

static const struct session_events rig_server_events = {
	.opened = rig_opened, .data = rig_server_data,
	.ended = rig_server_ended, .pull = rig_server_pull,
	.unwanted = rig_server_unwanted, .signal = rig_server_signal,
	.resize = rig_server_resize, .cancel = rig_server_cancel,
	.closed = rig_server_closed
};

/* ---- the opener's program --------------------------------------------- */

static inline size_t
rig_opener_data(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	struct rig *rig = ctx;
	struct rig_ask *ask = req->app;
	size_t n;

	assert_non_null(ask);
	assert_false(ask->dropped[index]);
	n = rig_takes(rig, ask->plan.out_pace[index], len);
	rig_check(data, n, req->id, index + 2, ask->out_seen[index]);
	ask->out_seen[index] += n;
	if (ask->out_seen[index] >= ask->plan.out_drop[index]) {
		ask->dropped[index] = true;
		session_drop(req, index);
	}
	return n;
}

static inline void
rig_opener_ended(void *ctx, struct session_request *req, unsigned index)
{
	struct rig_ask *ask = req->app;

	(void)ctx;
	assert_false(ask->ended[index]);
	ask->ended[index] = true;
}

static inline size_t
rig_opener_pull(void *ctx, struct session_request *req, unsigned index,
    uint8_t *buf, size_t max)
{
	struct rig *rig = ctx;
	struct rig_ask *ask = req->app;
	uint64_t left = ask->plan.in - ask->in_sent;
	size_t n = left < max ? (size_t)left : max;

	assert_int_equal(index, 1);
	assert_false(ask->unwanted || ask->done);
	if (n == 0) {
		ask->in_done = true;
		if (!ask->plan.no_eof) {
			session_end(req, 1);
		}
		return 0;
	}
	if (!ask->plan.whole && rig_random(rig, 3) == 0) {
		n = rig_random(rig, (unsigned)n + 1);
	}
	rig_fill(buf, n, req->id, 1, ask->in_sent);
	ask->in_sent += n;
	return n;
}

static inline void
rig_opener_unwanted(void *ctx, struct session_request *req, unsigned index)
{
	struct rig_ask *ask = req->app;

	(void)ctx;
	assert_int_equal(index, 1);
	assert_false(ask->unwanted);
	ask->unwanted = true;
}

static inline void
rig_opener_result(void *ctx, struct session_request *req,
    const struct wire_result *result)
{
	struct rig *rig = ctx;
	struct rig_ask *ask = req->app;

	assert_int_equal(ask->results++, 0);
	ask->done = true;
	ask->result = *result;
	assert_int_equal(result->request, req->id);
	snprintf(ask->text, sizeof(ask->text), "%.*s",
	    (int)result->text.len, (const char *)result->text.at);
	ask->req = NULL;
	if (rig_random(rig, 2) == 0) {
		session_abandon(req);
	} else {
		session_forget(req);
	}
}

static inline void
rig_opener_log(void *ctx, const struct wire_log *log)
{
	struct rig *rig = ctx;

	rig->logs++;
	snprintf(rig->log, sizeof(rig->log), "%.*s", (int)log->text.len,
	    (const char *)log->text.at);
}

static inline void
rig_ask_turn(struct rig *rig, struct rig_ask *ask)
{
	const uint8_t *data;
	size_t n, len;
	unsigned i;

	if (ask->req == NULL) {
		return;
	}
	if (!ask->in_done && !ask->unwanted) {
		session_ready(ask->req, 1);
	}
	for (i = 0; i < 2; i++) {
		while (ask->req != NULL &&
		    ask->plan.out_pace[i] != RIG_STALLED &&
		    rig_random(rig, 4) != 0 &&
		    (len = session_peek(ask->req, i, &data)) > 0) {
			n = rig_random(rig, (unsigned)len) + 1;
			rig_check(data, n, ask->req->id, i + 2,
			    ask->out_seen[i]);
			ask->out_seen[i] += n;
			session_consume(ask->req, i, n);
		}
		if (ask->req != NULL && !ask->dropped[i] &&
		    ask->out_seen[i] >= ask->plan.out_drop[i]) {
			ask->dropped[i] = true;
			session_drop(ask->req, i);
		}
	}
}

static const struct session_events rig_opener_events = {
	.data = rig_opener_data, .ended = rig_opener_ended,
	.pull = rig_opener_pull, .unwanted = rig_opener_unwanted,
	.result = rig_opener_result, .log = rig_opener_log
};

/* ---- the rig ---------------------------------------------------------- */

static inline struct rig *
rig_new(unsigned seed, bool stored)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct session_config config = { .events = &rig_opener_events,
	    .ctx = rig, .budget = &rig->ob, .stored = stored };

	rig->seed = seed;
	assert_int_equal(session_budget_init(&rig->ob, SESSION_REQUESTS), 0);
	assert_int_equal(session_budget_init(&rig->sb, SESSION_REQUESTS), 0);
	rig->opener = session_new(&config);
	config.events = &rig_server_events;
	config.budget = &rig->sb;
	config.server = true;
	rig->server = session_new(&config);
	assert_non_null(rig->opener);
	assert_non_null(rig->server);
	return rig;
}

static inline void
rig_free(struct rig *rig)
{
	session_free(rig->opener);
	session_free(rig->server);
	assert_int_equal(rig->ob.granted, 0);
	assert_int_equal(rig->sb.granted, 0);
	assert_int_equal(rig->ob.chunks.used, 0);
	assert_int_equal(rig->sb.chunks.used, 0);
	assert_int_equal(rig->ob.requests, 0);
	assert_int_equal(rig->sb.requests, 0);
	assert_true(list_empty(&rig->sb.bodies));
	session_budget_free(&rig->ob);
	session_budget_free(&rig->sb);
	free(rig);
}

/* A plan in which everything is read at once and nothing is sent. */
static inline struct rig_plan
rig_plan_new(uint32_t body)
{
	return (struct rig_plan){ .kind = WIRE_EXEC, .body = body,
	    .in_drop = RIG_NEVER, .out_drop = { RIG_NEVER, RIG_NEVER } };
}

/* Open a request; NULL with errno as session_open(). */
static inline struct rig_ask *
rig_open(struct rig *rig, const struct rig_plan *plan)
{
	uint32_t id = rig->last + 1;
	struct rig_ask *ask = &rig->asks[id];
	uint8_t *body = malloc(plan->body + 1u);

	assert_true(id < RIG_MOST);
	rig_fill(body, plan->body, id, 0, 0);
	ask->req = session_open(rig->opener, plan->kind, body, plan->body,
	    ask);
	if (ask->req == NULL) {
		free(body);
		return NULL;
	}
	assert_int_equal(ask->req->id, id);
	rig->last = id;
	ask->plan = *plan;
	return ask;
}

static inline struct rig_job *
rig_job_of(struct rig *rig, const struct rig_ask *ask)
{
	return &rig->jobs[ask - rig->asks];
}

static inline void
rig_turn(struct rig *rig)
{
	unsigned id;

	for (id = 1; id <= rig->last; id++) {
		rig_ask_turn(rig, &rig->asks[id]);
		rig_job_turn(rig, &rig->jobs[id]);
	}
}

static inline bool
rig_over(const struct rig *rig)
{
	return session_count(rig->opener) == 0 &&
	    session_count(rig->server) == 0;
}

/* What must hold for a request once it is over. */
static inline void
rig_verify(struct rig *rig, unsigned id)
{
	const struct rig_ask *ask = &rig->asks[id];
	const struct rig_job *job = &rig->jobs[id];
	unsigned i;

	if (ask->abandoned) {
		assert_int_equal(ask->results, 0);
		return;
	}
	assert_int_equal(ask->results, 1);
	assert_int_equal(ask->result.in, job->in_seen);
	assert_int_equal(ask->result.out, job->out_sent[0]);
	assert_int_equal(ask->result.err, job->out_sent[1]);
	for (i = 0; i < 2; i++) {
		if (!ask->dropped[i]) {
			assert_int_equal(ask->out_seen[i], job->out_sent[i]);
		}
	}
	if (ask->result.outcome == WIRE_CANCELLED) {
		assert_true(ask->cancelled);
		return;
	}
	assert_int_equal(ask->result.outcome, WIRE_EXITED);
	assert_int_equal(ask->result.code, id);
	assert_string_equal(ask->text, "words");
	assert_int_equal(job->opened, 1);
	for (i = 0; i < 2; i++) {
		if (!ask->dropped[i]) {
			assert_int_equal(ask->out_seen[i], ask->plan.out[i]);
		}
	}
	if (!ask->plan.early && !job->in_dropped) {
		assert_int_equal(job->in_seen, ask->plan.in);
	}
}

static inline void
rig_verify_all(struct rig *rig)
{
	unsigned id;

	assert_true(rig_over(rig));
	for (id = 1; id <= rig->last; id++) {
		rig_verify(rig, id);
	}
	assert_int_equal(rig->ob.granted, 0);
	assert_int_equal(rig->sb.granted, 0);
	assert_int_equal(rig->ob.chunks.used, 0);
	assert_int_equal(rig->sb.chunks.used, 0);
}

#endif
