/* SPDX-License-Identifier: MIT */
/*
 * session.h - requests and their flows: numbering, store, credit, priorities.
 *
 * One struct session is one end of a conversation that outlives links.  The
 * opener (controller to agent, client to controller) opens requests, the
 * server (agent; controller to client) answers them.  A carrier (link.c, or
 * plain.c on the client socket) asks it for the next frame when its
 * descriptor is writable and hands it each frame that arrived; what the
 * frames mean goes to the owner through struct session_events.
 *
 * Data is pulled: the owner says that a flow has something (session_ready),
 * and when the flow has its turn, credit and room, the pull event reads it
 * straight into the frame that is sealed and kept until acknowledged.
 *
 * Nothing here does I/O, blocks or logs.
 */
#ifndef SESSION_H
#define SESSION_H

#include "error.h"
#include "list.h"
#include "pool.h"
#include "wire.h"

#define SESSION_REQUESTS 256		/* open at once, per session */
#define SESSION_WINDOW_MIN 8192u	/* bytes reserved for every flow */
#define SESSION_WINDOW_MAX 1048576u	/* granted to one flow at most */
#define SESSION_POOL 3145728u		/* bytes granted beyond the minimum */
#define SESSION_CHUNK 8192u		/* buffered data is kept in these */
#define SESSION_STORE_BIG 64u		/* frames of up to WIRE_FRAME_MAX */
#define SESSION_STORE_SMALL 2048u	/* frames of up to SESSION_SMALL */
#define SESSION_SMALL 192u
#define SESSION_CAP_MIN 262144u		/* bulk bytes in flight, at least */
#define SESSION_ACK_MS 5u		/* the carrier acknowledges by then */
#define SESSION_CAP_BRISK 65536u	/* the same while someone waits */
#define SESSION_BRISK_MS 20u		/* after a flow with little to say */
#define SESSION_BODY_MS 2000u		/* a body may stall while others wait */
#define SESSION_BULK_AFTER 65536u	/* bytes without running dry */

struct session;

/*
 * Memory for received data, shared by the sessions of one direction (all
 * clients of a controller, or one agent link).
 */
struct session_budget {
	struct pool chunks;
	size_t granted;			/* bytes beyond each flow's minimum */
	unsigned requests;		/* open in all its sessions */
	unsigned limit;			/* of requests */
	struct list bodies;		/* requests: the body wants credit */
	uint64_t body_since;		/* the first one's last bytes */
	size_t unwritten;		/* in output buffers of plain.c */
	unsigned carriers;		/* of plain.c */
};
/* For that many requests at once; 0, or -1 with errno. */
int session_budget_init(struct session_budget *budget, unsigned limit);
void session_budget_free(struct session_budget *budget);
/*
 * Server: one body at a time has credit for all of it.  If that one has
 * stalled for SESSION_BODY_MS while others wait, its session's unfinished
 * requests fail as busy.  Returns when to call it again, or CLOCK_NEVER.
 */
uint64_t session_budget_check(struct session_budget *budget, uint64_t now);

/* One frame in the store: the number, then the frame itself. */
struct session_frame {
	struct session_frame *next;
	uint64_t number;
	uint64_t sent_at;		/* clock.h, 0: not on this link yet */
	uint64_t delivered;		/* session's count when it was sent */
	bool alone;			/* little was in flight before it */
	struct session_out *flow;	/* of a pushed frame, until sent */
	uint32_t length;		/* of bytes[], number included */
	bool bulk, big;
	uint8_t bytes[];
};

/* Received bytes not yet taken by the owner. */
struct session_queue {
	void *head, *tail;		/* chunks */
	size_t start;			/* offset in the head chunk */
	size_t length;
};

/* A flow towards us. */
struct session_in {
	uint64_t received, consumed, granted, total;
	uint64_t window, mark;		/* size, and where it last grew */
	struct session_queue queue;
	bool ended;			/* total is known */
	bool drop;			/* nobody reads: count and drop */
	bool credit_due;
};

/* A flow from us. */
struct session_out {
	struct session_request *req;
	struct list link;		/* in the small or the bulk ring */
	uint64_t sent, limit, burst;
	uint64_t burst_at;		/* clock.h, of the last frame */
	unsigned queued;		/* pushed frames not sent yet */
	bool ready;			/* the owner has data, or the end */
	bool ending;			/* no more will come; EOF is due */
	bool ended;			/* EOF was sent */
	bool unwanted;			/* the far end reads no more */
};

enum session_state {
	SESSION_OPENING,		/* opener: OPEN not sent yet */
	SESSION_BODY,			/* server: the body is arriving */
	SESSION_RUNNING,
	SESSION_RESULT_DUE,		/* server: RESULT waits to be sent */
	SESSION_DONE			/* opener: RESULT delivered */
};

/*
 * One request.  Index 0 and 1 of in[] and out[] are its first and second
 * flow in that direction: opener out = BODY, IN; opener in = OUT, ERR;
 * server in = BODY, IN; server out = OUT, ERR.
 */
struct session_request {
	struct session *session;
	void *app;			/* the owner's; never touched here */
	uint32_t id;
	uint8_t kind;
	enum session_state state;
	struct session_in in[2];
	struct session_out out[2];

	/* private to session.c */
	struct list link;		/* all requests of the session */
	struct list dirty;		/* those with control frames to send */
	uint8_t *body;			/* owned */
	uint32_t body_len;
	struct list body_wait;		/* in budget.bodies */
	struct wire_result result;	/* text and info point to held */
	uint8_t *held;			/* owned */
	uint64_t signals;		/* a bit for each unsent number */
	uint16_t rows, columns;
	bool resize_due, cancel_due, cancelled, result_here, abandoned;
	bool refused;			/* server: over the budget's limit */
};

/* What a session tells its owner; ctx is session_config.ctx. */
struct session_events {
	/*
	 * Server: a request and its whole body (body[len], valid during the
	 * call).  Answer now or later with session_result().  What came on
	 * in[1] before is in its queue.
	 */
	void (*opened)(void *ctx, struct session_request *req,
	    const uint8_t *body, uint32_t len);
	/*
	 * len bytes arrived on in[index].  Returns how many were taken; the
	 * rest is queued and had later by session_peek().  Called only while
	 * the queue is empty: an owner that left something there fetches what
	 * comes behind it with session_peek() too.
	 */
	size_t (*data)(void *ctx, struct session_request *req, unsigned index,
	    const uint8_t *data, size_t len);
	/* in[index] has ended; queued bytes may remain. */
	void (*ended)(void *ctx, struct session_request *req, unsigned index);
	/*
	 * Fill buf with up to max bytes of out[index].  Returns the number,
	 * or 0: nothing now (the flow is not ready until session_ready()).
	 * The owner calls session_end() once nothing more will come.
	 */
	size_t (*pull)(void *ctx, struct session_request *req, unsigned index,
	    uint8_t *buf, size_t max);
	/* Nobody reads out[index] any more: pull is not called again. */
	void (*unwanted)(void *ctx, struct session_request *req,
	    unsigned index);
	void (*signal)(void *ctx, struct session_request *req, int number);
	void (*resize)(void *ctx, struct session_request *req, unsigned rows,
	    unsigned columns);
	void (*cancel)(void *ctx, struct session_request *req);
	/*
	 * Opener: the request is over and all its bytes were taken.  result
	 * is valid during the call; call session_forget() in it or later.
	 */
	void (*result)(void *ctx, struct session_request *req,
	    const struct wire_result *result);
	/* Server: RESULT was sent; req is gone after the call. */
	void (*closed)(void *ctx, struct session_request *req);
	void (*log)(void *ctx, const struct wire_log *log);
};

struct session_config {
	const struct session_events *events;	/* borrowed */
	void *ctx;
	struct session_budget *budget;		/* borrowed */
	bool server;				/* answers requests */
	bool stored;				/* keep frames until ACK */
};

/* A session, or NULL with errno.  The caller owns it. */
struct session *session_new(const struct session_config *config);
/* Frees all requests without events; the owner has let go of them. */
void session_free(struct session *session);
/* Visit every open request; it may be forgotten in the call. */
void session_each(struct session *session,
    void (*visit)(void *ctx, struct session_request *req), void *ctx);
unsigned session_count(const struct session *session);
struct session_budget *session_budget_of(const struct session *session);

/* ---- the owner's side ----------------------------------------------- */

/*
 * Opener: open a request of this kind; body[len] is taken over (malloc) on
 * success.  NULL with errno: EBUSY at a limit, ENOMEM, EMSGSIZE.
 */
struct session_request *session_open(struct session *session, uint8_t kind,
    uint8_t *body, uint32_t len, void *app);

/* out[index] may have data: its pull event will be called in its turn. */
void session_ready(struct session_request *req, unsigned index);
/*
 * Offer data for out[index] now, to save the pull.  Takes what credit, room
 * and order allow and returns how much; call session_ready() for the rest.
 */
size_t session_push(struct session_request *req, unsigned index,
    const uint8_t *data, size_t len);
/* Nothing more will come on out[index] than what pull still returns. */
void session_end(struct session_request *req, unsigned index);
/* Whether pull could be called for out[index] soon: poll its source then. */
bool session_hungry(const struct session_request *req, unsigned index);

/* The next contiguous queued bytes of in[index]; 0 if there are none. */
size_t session_peek(const struct session_request *req, unsigned index,
    const uint8_t **data);
/*
 * n bytes of the queue are done with.  On an opener this and session_drop()
 * may call the result event, after which req may be gone.
 */
void session_consume(struct session_request *req, unsigned index, size_t n);
/* Nothing should come on in[index], whose sender need not be told. */
void session_ignore(struct session_request *req, unsigned index);
/* Nobody reads in[index] any more: the far end is told, bytes are dropped. */
void session_drop(struct session_request *req, unsigned index);

/* Opener: to the server, 1 to 63; a number still unsent is sent once. */
void session_signal(struct session_request *req, int number);
void session_resize(struct session_request *req, unsigned rows,
    unsigned columns);
void session_cancel(struct session_request *req);
/* Opener: req->app is gone: cancel, drop the data, free at the RESULT. */
void session_abandon(struct session_request *req);
/* Opener: free a request whose result event has been called. */
void session_forget(struct session_request *req);

/*
 * Server: end the request, once, after pull or push have delivered all of
 * both out flows: totals are what was delivered until now.  result's text
 * and info are copied.  req is gone after its closed event, which may come
 * in any later call into the session.
 */
void session_result(struct session_request *req,
    const struct wire_result *result);
/* The same for a request that failed before it ran. */
void session_fail(struct session_request *req, const struct error *error);

/* Server: a diagnostic for the opener; dropped when one is still unsent. */
void session_log(struct session *session, int level, const char *text);

/* ---- the carrier's side --------------------------------------------- */

/* Start over on a (new) carrier whose far end expects number next. */
int session_attach(struct session *session, uint64_t next,
    struct error *error);
/* No carrier now: nothing is sent until the next session_attach(). */
void session_detach(struct session *session);
/*
 * Which session_attach() holds, a number that never comes again; 0: none.  A
 * carrier that remembers its own sees by it that another has taken over.
 */
uint64_t session_attachment(const struct session *session);

/* The number expected next from the far end. */
uint64_t session_expected(const struct session *session);
/*
 * A session without a request and with nothing to acknowledge is these three
 * numbers: 0, or -1 if it is more by now.
 */
struct session_rest {
	uint64_t next, expected;	/* frame numbers */
	uint32_t last;			/* request id */
};
int session_rest(const struct session *session, struct session_rest *rest);
/* Make a new session that one. */
void session_adopt(struct session *session, const struct session_rest *rest);

/* Grows with every frame that arrived, here or (acknowledged) there. */
uint64_t session_progress(const struct session *session);

/*
 * A frame (without its number) arrived.  0, or -1 with *error: the far end
 * broke the protocol and the carrier must end.
 */
int session_receive(struct session *session, uint64_t number,
    const uint8_t *frame, size_t len, struct error *error);

/* The far end has stored all frames below next. */
int session_acked(struct session *session, uint64_t next,
    struct error *error);

/*
 * The next frame to send, NULL if there is none now.  It stays valid until
 * the next call of this function (stored = false) or its ACK.  What makes a
 * frame possible again is always an event of the owner's loop (data, credit,
 * ACK), so a carrier asks session_pending() once each turn.
 */
bool session_pending(const struct session *session);
const struct session_frame *session_next(struct session *session);

/*
 * Whether a command or a keystroke went by a moment ago: bulk makes room, and
 * the far end's bulk is acknowledged at once.
 */
bool session_brisk(const struct session *session);

/* For status and tests: bytes sent and received in DATA, cap, round trip. */
struct session_figures {
	uint64_t sent, received;	/* payload bytes */
	uint64_t in_flight, cap;	/* bulk bytes; while nobody waits */
	uint64_t rtt_us;		/* least in the window, 0: unknown */
	size_t stored_big, stored_small;	/* frames */
};
void session_figures(const struct session *session,
    struct session_figures *figures);

/* Give idle memory back to the kernel. */
void session_trim(struct session *session);

#endif
