/* SPDX-License-Identifier: MIT */
/*
 * fuzz_app.h - a small owner of a session, and what must always hold of one.
 *
 * The app reads, stalls, drops, pushes, answers and cancels as its mood says;
 * the mood comes from the fuzzer's input.  Used by fuzz_session.c,
 * fuzz_link.c and fuzz_plain.c.
 */
#ifndef FUZZ_APP_H
#define FUZZ_APP_H

#include <string.h>

#include "fuzz_input.h"
#include "session_private.h"

/* Requests a budget allows here: small, so that its limit is reached. */
#define APP_LIMIT 6u

enum app_mood {
	APP_STALL = 1,			/* takes nothing in the data event */
	APP_HALF = 2,			/* takes half */
	APP_DROP = 4,			/* drops the flow in the data event */
	APP_ANSWER = 8,			/* answers in the opened event */
	APP_SPEAK = 16,			/* out flows are ready when opened */
	APP_FORGET_LATE = 32		/* result: forget it later */
};

struct app {
	struct session *session;
	struct session_budget budget;
	unsigned mood;
	uint32_t supply;		/* bytes that pull still gives */
	uint64_t results, logs;
};

static inline void
app_answer(struct session_request *req, uint8_t outcome)
{
	struct wire_result r = { .outcome = outcome, .code = 3,
	    .text = wire_string("text"), .info = wire_string("info") };

	if (req->state == SESSION_RUNNING || req->state == SESSION_BODY) {
		session_result(req, &r);
	}
}

static inline void
app_opened(void *ctx, struct session_request *req, const uint8_t *body,
    uint32_t len)
{
	struct app *app = ctx;
	struct error error;

	CHECK(len == req->body_len && len > 0);
	/* Every byte is there. */
	CHECK(body[0] == body[0] && body[len - 1] == body[len - 1]);
	req->app = app;
	if (app->mood & APP_ANSWER) {
		error_set(&error, WIRE_STEP_USAGE, 0, "no");
		session_fail(req, &error);
	} else if (app->mood & APP_SPEAK) {
		session_ready(req, 0);
		session_ready(req, 1);
	}
}

static inline size_t
app_data(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	struct app *app = ctx;

	(void)data;
	CHECK(len > 0 && req->in[index].queue.length == 0);
	if (app->mood & APP_DROP) {
		session_drop(req, index);
		return len;
	}
	return app->mood & APP_STALL ? 0 : app->mood & APP_HALF ? len / 2 :
	    len;
}

static inline void
app_ended(void *ctx, struct session_request *req, unsigned index)
{
	(void)ctx;
	CHECK(req->in[index].ended);
}

static inline size_t
app_pull(void *ctx, struct session_request *req, unsigned index, uint8_t *buf,
    size_t max)
{
	struct app *app = ctx;
	size_t n = app->supply < max ? app->supply : max;

	CHECK(max > 0 && max <= WIRE_DATA_MAX);
	CHECK(!req->out[index].unwanted && !req->out[index].ended);
	memset(buf, 'p', n);
	app->supply -= (uint32_t)n;
	if (n == 0 && (app->mood & APP_SPEAK)) {
		session_end(req, index);
	}
	return n;
}

static inline void
app_unwanted(void *ctx, struct session_request *req, unsigned index)
{
	(void)ctx;
	session_end(req, index);
}

static inline void
app_signal(void *ctx, struct session_request *req, int number)
{
	(void)ctx;
	CHECK(number > 0 && number < 64 && req->state == SESSION_RUNNING);
}

static inline void
app_resize(void *ctx, struct session_request *req, unsigned rows,
    unsigned columns)
{
	(void)ctx;
	CHECK(rows < 65536 && columns < 65536);
	CHECK(req->state == SESSION_RUNNING);
}

static inline void
app_cancel(void *ctx, struct session_request *req)
{
	(void)ctx;
	app_answer(req, WIRE_CANCELLED);
}

static inline void
app_result(void *ctx, struct session_request *req,
    const struct wire_result *result)
{
	struct app *app = ctx;

	CHECK(result->text.len <= WIRE_TEXT_MAX);
	CHECK(result->info.len <= WIRE_INFO_MAX);
	CHECK(result->out == req->in[0].received);
	CHECK(result->err == req->in[1].received);
	app->results++;
	if (!(app->mood & APP_FORGET_LATE)) {
		session_forget(req);
	}
}

static inline void
app_closed(void *ctx, struct session_request *req)
{
	(void)ctx;
	CHECK(req->state == SESSION_RESULT_DUE);
}

static inline void
app_log(void *ctx, const struct wire_log *log)
{
	struct app *app = ctx;

	CHECK(log->text.len <= WIRE_TEXT_MAX);
	app->logs++;
}

static const struct session_events app_events = {
	.opened = app_opened, .data = app_data, .ended = app_ended,
	.pull = app_pull, .unwanted = app_unwanted, .signal = app_signal,
	.resize = app_resize, .cancel = app_cancel, .result = app_result,
	.closed = app_closed, .log = app_log
};

static inline void
app_start(struct app *app, bool server, bool stored)
{
	struct session_config config = { .events = &app_events, .ctx = app,
	    .budget = &app->budget, .server = server, .stored = stored };

	memset(app, 0, sizeof(*app));
	CHECK(session_budget_init(&app->budget, APP_LIMIT) == 0);
	app->session = session_new(&config);
	CHECK(app->session != NULL);
}

static inline void
app_stop(struct app *app)
{
	session_free(app->session);
	CHECK(app->budget.granted == 0 && app->budget.requests == 0);
	CHECK(app->budget.chunks.used == 0);
	CHECK(list_empty(&app->budget.bodies));
	session_budget_free(&app->budget);
}

/* The open request number n, NULL if there are not that many. */
static inline struct session_request *
app_request(struct app *app, unsigned n)
{
	struct list *at;

	for (at = app->session->requests.next; at != &app->session->requests;
	    at = at->next) {
		if (n-- == 0) {
			return LIST_OF(at, struct session_request, link);
		}
	}
	return NULL;
}

/* ---- what must always hold --------------------------------------------- */

static inline size_t
app_check_in(const struct session_request *req, unsigned index)
{
	const struct session_in *in = &req->in[index];
	bool body = req->session->config.server && index == 0;
	uint64_t held = in->granted - in->consumed;

	CHECK(in->received <= in->granted || in->drop);
	CHECK(in->consumed <= in->received);
	if (!body) {
		CHECK(in->consumed <= in->granted);
		CHECK(in->queue.length == in->received - in->consumed);
		CHECK(held <= SESSION_WINDOW_MAX + SESSION_WINDOW_MIN);
	}
	CHECK(!in->ended || in->total == in->received);
	return body || held <= SESSION_WINDOW_MIN ? 0 :
	    (size_t)(held - SESSION_WINDOW_MIN);
}

static inline void
app_check_out(const struct session_request *req, unsigned index)
{
	const struct session_out *out = &req->out[index];

	CHECK(out->sent <= out->limit);
	CHECK(!out->ready || !out->unwanted);
	CHECK(out->queued <= SESSION_QUEUED);
}

static inline void
app_check(struct app *app)
{
	const struct session *s = app->session;
	size_t extra = 0, bodies = 0, big = 0, small = 0;
	const struct session_frame *f;
	struct session_request *req;
	unsigned count = 0;

	while ((req = app_request(app, count)) != NULL) {
		extra += app_check_in(req, 0) + app_check_in(req, 1);
		app_check_out(req, 0);
		app_check_out(req, 1);
		/* A body that nobody will read takes no memory. */
		if (s->config.server && req->body != NULL) {
			CHECK(req->state == SESSION_BODY);
			bodies++;
		}
		count++;
	}
	CHECK(count == s->count && count <= SESSION_REQUESTS);
	CHECK(count == app->budget.requests);
	CHECK(extra == app->budget.granted);
	CHECK(extra <= SESSION_POOL);
	for (f = s->first; f != NULL; f = f->next) {
		*(f->big ? &big : &small) += 1;
		CHECK(f->number < s->next);
	}
	CHECK(big <= SESSION_STORE_BIG && small <= SESSION_STORE_SMALL);
	CHECK(big <= s->big_frames.used && small <= s->small_frames.used);
	CHECK(s->queued <= SESSION_QUEUED);
	(void)bodies;
}

static inline void
app_check_error(const struct error *error)
{
	CHECK(error->step != WIRE_STEP_NONE);
	CHECK(error->text[0] != '\0');
	CHECK(strnlen(error->text, sizeof(error->text)) <
	    sizeof(error->text));
}

/* ---- what the owner may do --------------------------------------------- */

static inline void
app_open(struct app *app, uint8_t kind, uint32_t len)
{
	uint8_t *body = malloc((size_t)len + 1);

	CHECK(body != NULL);
	memset(body, kind, len);
	if (session_open(app->session, kind, body, len, app) == NULL) {
		free(body);
	}
}

static inline void
app_push(struct session_request *req, unsigned index, size_t len)
{
	static const uint8_t much[131072];
	size_t n = session_push(req, index, much, len < sizeof(much) ? len :
	    sizeof(much));

	CHECK(n <= len);
	if (n < len) {
		session_ready(req, index);
	}
}

static inline void
app_read(struct session_request *req, unsigned index, size_t most)
{
	const uint8_t *data;
	size_t n = session_peek(req, index, &data);

	n = n < most ? n : most;
	if (n > 0) {
		CHECK(data[n - 1] == data[n - 1]);
		session_consume(req, index, n);
	}
}

/* One step of the owner, chosen by the input. */
static inline void
app_step(struct app *app, struct input *in)
{
	bool server = app->session->config.server;
	uint8_t op = input_u8(in);
	uint32_t value = input_u16(in);
	struct session_request *req = app_request(app, op >> 4);
	unsigned index = value & 1;

	if ((op & 15) == 0 || req == NULL) {
		app->mood = value & 63;
		app->supply += value;
		if (!server) {
			app_open(app, (uint8_t)(WIRE_EXEC + (op >> 4) % 5),
			    value < 64 ? value * 1024 : value);
		} else {
			session_log(app->session, 1, "a note");
		}
		return;
	}
	switch (op & 15) {
	case 1:
		app->mood = value & 63;
		return;
	case 2:
		app->supply += value * 64;
		/* FALLTHROUGH */
	case 3:
		if (server || index == 1) {
			session_ready(req, index);
		}
		return;
	case 4:
		if ((server || index == 1) && req->state <= SESSION_RUNNING &&
		    !req->out[index].ending) {
			app_push(req, index, value);
		}
		return;
	case 5:
		if (server || index == 1) {
			session_end(req, index);
		}
		return;
	case 6:
	case 7:
		if (!(server && index == 0)) {
			app_read(req, index, value);
		}
		return;
	case 8:
		if (!(server && index == 0)) {
			session_drop(req, index);
		}
		return;
	case 9:
		if (server) {
			app_answer(req, (uint8_t)(value % 5));
		} else {
			session_cancel(req);
		}
		return;
	case 10:
		if (!server) {
			session_signal(req, (int)(value % 70));
			session_resize(req, value, op);
		}
		return;
	case 11:
		if (!server) {
			session_abandon(req);
		}
		return;
	case 12:
		if (!server && req->state == SESSION_DONE) {
			session_forget(req);
		}
		return;
	default:
		(void)session_hungry(req, index);
		return;
	}
}

#endif
