/* SPDX-License-Identifier: MIT */
/*
 * session_private.h - what the session's files share.
 *
 * session.c owns requests and what frames mean, session_flow.c the received
 * bytes and the credit for them, session_out.c the flows from us,
 * session_control.c all other frames, session_store.c what is kept until
 * acknowledged and the order of sending.
 */
#ifndef SESSION_PRIVATE_H
#define SESSION_PRIVATE_H

#include "session.h"

/* Bulk may hold this many big frames; small flows some more. */
#define SESSION_STORE_BULK (SESSION_STORE_BIG * 3 / 4)
#define SESSION_STORE_DATA (SESSION_STORE_BIG - 4)
#define SESSION_QUEUED 2u		/* pushed frames waiting to be sent */
#define SESSION_BULK_EVERY 8u		/* at least every so many records */

/* Greatest or least of the last two periods of WINDOW_US each. */
struct session_window {
	uint64_t since, now, before;
};

struct session {
	struct session_config config;
	struct list requests;
	struct list dirty;
	struct list small, bulk;	/* flows that may send */
	unsigned count;
	uint32_t last_id;		/* highest id opened */
	uint64_t expected;		/* number of the next frame to come */

	struct pool big_frames, small_frames;
	struct session_frame *first, *last;	/* numbered, unacknowledged */
	struct session_frame *resend;	/* the first not on this carrier yet */
	struct session_frame *queue_first, *queue_last;	/* pushed */
	struct session_frame *spent;	/* given out, not stored */
	unsigned queued;
	unsigned since_bulk;		/* records since the last bulk one */
	uint64_t next;			/* number of the next new frame */
	bool attached;
	uint64_t attachments;		/* so far */

	uint64_t in_flight;		/* bulk bytes not acknowledged */
	uint64_t delivered;		/* bulk bytes acknowledged, in all */
	uint64_t delivered_at;
	struct session_window rate;	/* bytes per second, greatest */
	struct session_window rtt;	/* microseconds, least */
	uint64_t brisk_at;		/* see session_brisk() */
	uint64_t sent_bytes, received_bytes;

	bool log_due;
	uint8_t log_level;
	char log_text[WIRE_TEXT_MAX + 1];
};

/* session.c */
void session_mark(struct session_request *req);	/* control frames are due */
void session_check_result(struct session_request *req);
void session_free_request(struct session_request *req);

/* session_flow.c */
void session_in_start(struct session_request *req);
void session_in_stop(struct session_request *req);
/* Account for len bytes at offset; 0, or -1 with *error. */
int session_in_data(struct session_request *req, unsigned index,
    uint64_t offset, struct wire_bytes bytes, struct error *error);
int session_in_end(struct session_request *req, unsigned index,
    uint64_t total, struct error *error);
void session_in_drop(struct session_request *req, unsigned index);
void session_body_turn(struct session_budget *budget);

/* session_store.c */
int session_store_init(struct session *session);
void session_store_free(struct session *session);
/* A frame slot for a message of size bytes, NULL if the store is full. */
struct session_frame *session_frame_new(struct session *session, size_t size);
void session_frame_free(struct session *session, struct session_frame *frame);
/* Whether a frame of a bulk flow, or of another, may be made now. */
bool session_bulk_fits(const struct session *session);
bool session_small_fits(const struct session *session);

/* session_out.c */
void session_out_start(struct session_request *req);
void session_out_stop(struct session_request *req);
void session_out_limit(struct session_request *req, unsigned index,
    uint64_t limit);
/* Whether a request of this kind moves bulk from its first byte. */
bool session_kind_is_bulk(uint8_t kind);
/* The flow is an opener's BODY, which the session itself sends. */
bool session_out_is_body(const struct session_out *out);
/* The next frame that was pushed, or that a flow in its turn fills. */
struct session_frame *session_pushed_frame(struct session *session);
struct session_frame *session_data_frame(struct session *session);

/* session_control.c: the next frame that some request or the log is due. */
struct session_frame *session_control_frame(struct session *session);

/* The channel number of in[index] or out[index]. */
static inline uint8_t
session_in_channel(const struct session *s, unsigned index)
{
	return (uint8_t)(s->config.server ? index : index + WIRE_CH_OUT);
}

static inline uint8_t
session_out_channel(const struct session *s, unsigned index)
{
	return (uint8_t)(s->config.server ? index + WIRE_CH_OUT : index);
}

#endif
