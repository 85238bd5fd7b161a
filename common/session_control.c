/* SPDX-License-Identifier: MIT */
/* session_control.c - frames other than DATA, made from what is due. */
#include <string.h>

#include "session_private.h"

static bool
due_signal(struct session_request *req, struct wire *msg)
{
	uint8_t number = 0;

	if (req->signals == 0) {
		return false;
	}
	while ((req->signals >> number & 1) == 0) {
		number++;
	}
	req->signals &= ~(UINT64_C(1) << number);
	msg->type = WIRE_SIGNAL;
	msg->u.signal.request = req->id;
	msg->u.signal.signal = number;
	return true;
}

static bool
due_opener(struct session_request *req, struct wire *msg)
{
	if (req->state == SESSION_OPENING) {
		msg->type = WIRE_OPEN;
		msg->u.open = (struct wire_open){
			.request = req->id, .kind = req->kind,
			.body = req->body_len, .out = req->in[0].granted,
			.err = req->in[1].granted
		};
		req->state = SESSION_RUNNING;
		session_out_start(req);
		return true;
	}
	if (req->cancel_due) {
		req->cancel_due = false;
		msg->type = WIRE_CANCEL;
		msg->u.cancel.request = req->id;
		return true;
	}
	if (due_signal(req, msg)) {
		return true;
	}
	if (req->resize_due) {
		req->resize_due = false;
		msg->type = WIRE_RESIZE;
		msg->u.resize = (struct wire_resize){ req->id, req->rows,
		    req->columns };
		return true;
	}
	return false;
}

static bool
due_credit(struct session_request *req, struct wire *msg)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		if (req->in[i].credit_due) {
			req->in[i].credit_due = false;
			msg->type = WIRE_CREDIT;
			msg->u.credit = (struct wire_credit){ req->id,
			    session_in_channel(req->session, i),
			    req->in[i].drop ? WIRE_UNWANTED :
			    req->in[i].granted };
			return true;
		}
	}
	return false;
}

static bool
due_eof(struct session_request *req, struct wire *msg)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct session_out *out = &req->out[i];

		if (out->ending && !out->ready && !out->ended &&
		    !out->unwanted && out->queued == 0 &&
		    !session_out_is_body(out) &&
		    req->state == SESSION_RUNNING) {
			out->ended = true;
			msg->type = WIRE_EOF;
			msg->u.eof = (struct wire_eof){ req->id,
			    session_out_channel(req->session, i), out->sent };
			return true;
		}
	}
	return false;
}

static bool
due_result(struct session_request *req, struct wire *msg)
{
	if (req->state != SESSION_RESULT_DUE || req->out[0].queued > 0 ||
	    req->out[1].queued > 0) {
		return false;
	}
	msg->type = WIRE_RESULT;
	msg->u.result = req->result;
	return true;
}

static struct session_frame *
log_frame(struct session *s)
{
	struct session_frame *f;
	size_t len;
	struct wire msg = { .type = WIRE_LOG, .u.log = { s->log_level,
	    wire_string(s->log_text) } };

	f = session_frame_new(s, wire_size(&msg));
	if (f != NULL) {
		wire_encode(&msg, f->bytes + WIRE_NUMBER, WIRE_FRAME_MAX, &len);
		s->log_due = false;
	}
	return f;
}

/* The slot comes first: what is due must not be lost for want of one. */
static struct session_frame *
control_of(struct session *s, struct session_request *req)
{
	size_t len, most = req->state == SESSION_RESULT_DUE ?
	    128 + req->result.text.len + req->result.info.len :
	    SESSION_SMALL - WIRE_NUMBER;
	struct session_frame *f = session_frame_new(s, most);
	struct wire msg = { 0 };

	if (f == NULL) {
		return NULL;
	}
	if (!((!s->config.server && due_opener(req, &msg)) ||
	    due_credit(req, &msg) || due_eof(req, &msg) ||
	    due_result(req, &msg))) {
		list_remove(&req->dirty);
		session_frame_free(s, f);
		return NULL;
	}
	wire_encode(&msg, f->bytes + WIRE_NUMBER, WIRE_FRAME_MAX, &len);
	f->length = (uint32_t)(len + WIRE_NUMBER);
	if (msg.type == WIRE_RESULT) {
		if (s->config.events->closed != NULL) {
			s->config.events->closed(s->config.ctx, req);
		}
		session_free_request(req);
	}
	return f;
}

struct session_frame *
session_control_frame(struct session *s)
{
	struct session_request *req;
	struct session_frame *f;

	if (s->log_due && (f = log_frame(s)) != NULL) {
		return f;
	}
	while (!list_empty(&s->dirty)) {
		req = LIST_OF(s->dirty.next, struct session_request, dirty);
		f = control_of(s, req);
		if (f != NULL) {
			return f;
		}
		if (!list_empty(&req->dirty)) {
			return NULL;	/* no slot: an ACK will bring one */
		}
	}
	return NULL;
}
