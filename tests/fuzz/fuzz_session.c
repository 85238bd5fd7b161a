/* SPDX-License-Identifier: MIT */
/*
 * fuzz_session.c - whole sessions on fake frames, with a small app on each.
 *
 * One server session and one opener session.  The input chooses, step by
 * step: a frame made of its bytes or of fields near the right ones goes to
 * one of them; their own frames go to each other or nowhere; positions are
 * acknowledged, carriers come and go; the apps act.  After each step the
 * invariants of fuzz_app.h must hold.
 */
#include "clock.h"
#include "fuzz_app.h"

#define STEPS_MAX 600u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Time is the input's too. */
static uint64_t fuzz_now;

uint64_t
clock_now(void)
{
	return ++fuzz_now;
}

int
clock_poll_ms(uint64_t now, uint64_t deadline)
{
	(void)now;
	(void)deadline;
	return 0;
}

struct side {
	struct app app;
	bool dead;			/* its carrier ended: a protocol error */
};

static void
refused(struct side *side, const struct error *error)
{
	app_check_error(error);
	session_detach(side->app.session);
	side->dead = true;
}

static void
deliver(struct side *side, uint64_t number, const uint8_t *frame, size_t len)
{
	struct error error = { .step = WIRE_STEP_NONE };
	uint8_t *copy;

	if (side->dead) {
		return;
	}
	/* Its own allocation: a byte too far is seen. */
	copy = malloc(len + (len == 0));
	CHECK(copy != NULL);
	if (len > 0) {
		memcpy(copy, frame, len);
	}
	if (session_receive(side->app.session, number, copy, len, &error) ==
	    -1) {
		refused(side, &error);
	}
	free(copy);
}

/* A value near the right one, or any. */
static uint64_t
near(struct input *in, uint64_t right)
{
	uint8_t how = input_u8(in);

	switch (how & 3) {
	case 0:
	case 1:
		return right;
	case 2:
		return right + (uint64_t)(int64_t)(int8_t)input_u8(in);
	default:
		return how & 4 ? UINT64_MAX : (uint64_t)input_u16(in) <<
		    (how >> 4 & 15) * 4;
	}
}

static void
fields(struct input *in, struct side *side, struct wire *msg)
{
	static const uint8_t bytes[WIRE_DATA_MAX];
	struct session *s = side->app.session;
	struct session_request *req = app_request(&side->app, input_u8(in));
	uint32_t id = (uint32_t)near(in, req == NULL ? s->last_id : req->id);
	uint8_t channel = input_u8(in) & 3;
	unsigned index = channel & 1;
	uint64_t have = req == NULL ? 0 : req->in[index].received;

	switch (msg->type) {
	case WIRE_OPEN:
		msg->u.open = (struct wire_open){ (uint32_t)near(in,
		    s->last_id + 1), WIRE_EXEC, (uint32_t)near(in, 5),
		    near(in, 9000), near(in, 9000) };
		return;
	case WIRE_DATA:
		msg->u.data = (struct wire_data){ id, channel, near(in, have),
		    { bytes, 1 + input_u16(in) % WIRE_DATA_MAX } };
		return;
	case WIRE_CREDIT:
		msg->u.credit = (struct wire_credit){ id, channel,
		    near(in, 20000) };
		return;
	case WIRE_EOF:
		msg->u.eof = (struct wire_eof){ id, channel, near(in, have) };
		return;
	case WIRE_SIGNAL:
		msg->u.signal = (struct wire_signal){ id, input_u8(in) };
		return;
	case WIRE_RESIZE:
		msg->u.resize = (struct wire_resize){ id, 24, 80 };
		return;
	case WIRE_RESULT:
		msg->u.result = (struct wire_result){ .request = id,
		    .outcome = (uint8_t)near(in, 1),
		    .out = near(in, req == NULL ? 0 : req->in[0].received),
		    .err = near(in, req == NULL ? 0 : req->in[1].received),
		    .text = { bytes, (uint32_t)near(in, 4) % WIRE_TEXT_MAX },
		    .info = { bytes, (uint32_t)near(in, 4) % WIRE_INFO_MAX } };
		return;
	case WIRE_CANCEL:
		msg->u.cancel.request = id;
		return;
	default:
		msg->u.log = (struct wire_log){ 1, wire_string("log") };
		return;
	}
}

static void
made_frame(struct input *in, struct side *side)
{
	static uint8_t frame[WIRE_FRAME_MAX];
	struct wire msg = { .type = (uint8_t)(WIRE_OPEN + input_u8(in) % 9) };
	size_t len;

	fields(in, side, &msg);
	if (wire_encode(&msg, frame, sizeof(frame), &len) == WIRE_OK) {
		deliver(side, near(in, session_expected(side->app.session)),
		    frame, len);
	}
}

static void
raw_frame(struct input *in, struct side *side)
{
	size_t len;
	const uint8_t *frame = input_bytes(in, input_u8(in), &len);

	deliver(side, session_expected(side->app.session), frame, len);
}

/* Up to n frames of one side reach the other, or nobody. */
static void
carry(struct side *from, struct side *to, unsigned n, bool lost)
{
	const struct session_frame *f;

	while (n-- > 0 && !from->dead &&
	    (f = session_next(from->app.session)) != NULL) {
		CHECK(f->length > WIRE_NUMBER &&
		    f->length <= WIRE_RECORD_PLAIN);
		if (!lost) {
			deliver(to, from->app.session->config.stored ?
			    f->number : 0, f->bytes + WIRE_NUMBER,
			    f->length - WIRE_NUMBER);
		}
	}
}

static void
acknowledge(struct input *in, struct side *side, uint64_t right)
{
	struct error error = { .step = WIRE_STEP_NONE };

	if (!side->dead && session_acked(side->app.session, near(in, right),
	    &error) == -1) {
		refused(side, &error);
	}
}

static void
attach(struct input *in, struct side *side, uint64_t right)
{
	struct error error = { .step = WIRE_STEP_NONE };

	if (side->dead) {
		return;
	}
	session_detach(side->app.session);
	if (session_attach(side->app.session, near(in, right), &error) ==
	    -1) {
		refused(side, &error);
	}
}

static void
step(struct input *in, struct side *sides)
{
	uint8_t op = input_u8(in);
	struct side *side = &sides[op & 1], *other = &sides[~op & 1];

	switch (op >> 1 & 15) {
	case 0:
	case 1:
		app_step(&side->app, in);
		return;
	case 2:
	case 3:
	case 4:
		made_frame(in, side);
		return;
	case 5:
		raw_frame(in, side);
		return;
	case 6:
	case 7:
	case 8:
		carry(side, other, 1 + input_u8(in) % 80u, false);
		return;
	case 9:
		carry(side, other, 1 + input_u8(in) % 80u, true);
		return;
	case 10:
	case 11:
		acknowledge(in, side, other->app.session->expected);
		return;
	case 12:
		attach(in, side, other->app.session->expected);
		return;
	case 13:
		session_detach(side->app.session);
		return;
	case 14:
		fuzz_now += (uint64_t)input_u16(in) * 1000u;
		CHECK(session_budget_check(&side->app.budget, fuzz_now) >
		    fuzz_now);
		return;
	default:
		session_trim(side->app.session);
		return;
	}
}

static void
visit(void *ctx, struct session_request *req)
{
	unsigned *count = ctx;

	(void)req;
	*count += 1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct session_figures figures;
	struct side sides[2] = { 0 };
	unsigned i, count, steps;
	bool stored = (input_u8(&in) & 1) == 0;

	fuzz_now = 1000000;
	for (i = 0; i < 2; i++) {
		struct error error;

		app_start(&sides[i].app, i == 0, stored);
		CHECK(session_attach(sides[i].app.session, 0, &error) == 0);
	}
	for (steps = 0; !input_done(&in) && steps < STEPS_MAX; steps++) {
		step(&in, sides);
		app_check(&sides[0].app);
		app_check(&sides[1].app);
	}
	for (i = 0; i < 2; i++) {
		count = 0;
		session_each(sides[i].app.session, visit, &count);
		CHECK(count == session_count(sides[i].app.session));
		session_figures(sides[i].app.session, &figures);
		CHECK(figures.cap >= SESSION_CAP_MIN);
		app_stop(&sides[i].app);
	}
	return 0;
}
