/* SPDX-License-Identifier: MIT */
/* link_input.c - what arrives on a link: records opened, frames handed on. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "link_private.h"

#define RECORD_MIN (SEAL_OVERHEAD + WIRE_NUMBER + 1)
#define PING_LEAST 100u			/* what an agent accepts, in ms */
#define READS_TERMINAL 16u		/* each at most 4 KiB */
#define ACK_STEP 65536u			/* bytes: an ACK at once */
#define ACK_STEP_BRISK 16384u		/* the same while someone waits */

_Static_assert(4 * ACK_STEP <= SESSION_CAP_MIN, "several steps in flight");
_Static_assert(4 * ACK_STEP_BRISK <= SESSION_CAP_BRISK, "likewise");

/* Name what stands where a record should, escaped: it may be a login file's. */
static void
fail_stream(struct link *link, const char *what)
{
	char text[200];
	size_t i, at = 0;

	for (i = link->in_start; i < link->in_end && at < sizeof(text) - 5;
	    i++) {
		uint8_t c = link->in_buf[i];

		at += (size_t)snprintf(text + at, sizeof(text) - at,
		    c >= ' ' && c < 127 && c != '\\' ? "%c" : "\\x%02x", c);
	}
	text[at] = '\0';
	if (link->state < LINK_CLOSED) {
		error_set(&link->error, WIRE_STEP_LINK, 0, "%s; the link "
		    "went on with \"%s\"", what, text);
		link_end(link, LINK_FAILED);
	}
}

/* The host's keepalive holds for both; nonsense is brought into range. */
static void
take_times(struct link *link, const struct wire_resume *resume)
{
	uint64_t ping = resume->ping_ms < PING_LEAST ? PING_LEAST :
	    resume->ping_ms;
	uint64_t dead = resume->dead_ms < 2 * ping ? 2 * ping :
	    resume->dead_ms;

	link->ping = ping * CLOCK_MS;
	link->dead = dead * CLOCK_MS;
	link->stay = resume->linger_ms * (uint64_t)CLOCK_MS;
}

/*
 * Only this core's newest link counts: an attempt that the host has given up
 * may still bring its RESUME, after a later one.
 */
static int
commit(struct link *link, const struct wire_resume *resume,
    struct error *error)
{
	struct seal_binding b;

	if (link->terms.number <= *link->committed) {
		error_set(error, WIRE_STEP_LINK, 0, "an older link");
		return -1;
	}
	link_bind(link, &b);
	if (seal_settle(link->seal, link->secret, &b) == -1) {
		error_set(error, WIRE_STEP_LINK, 0, "key schedule");
		return -1;
	}
	*link->committed = link->terms.number;
	link->newest = true;
	take_times(link, resume);
	link->resume_due = true;
	return 0;
}

static int
on_close(struct link *link, const struct wire_close *msg)
{
	struct wire answer = { .type = WIRE_CLOSE };

	link->session_closed = msg->session != 0;
	link->stay = msg->session != 0 ? 0 : msg->park_s == WIRE_PARK_EVER ?
	    CLOCK_NEVER : msg->park_s * UINT64_C(1000) * CLOCK_MS;
	if (link->role == SEAL_CORE && msg->session == 0 &&
	    link_drain(link) == 0) {
		/* The host is not to doubt that we wait for it. */
		link_seal_message(link, &answer);
		link_drain(link);
	}
	error_set(&link->error, WIRE_STEP_SHUTDOWN, 0,
	    "the far end closed the link");
	link_end(link, LINK_CLOSED);
	return 0;
}

static int
on_resume(struct link *link, const struct wire *msg, struct error *error)
{
	if (link->state != LINK_RESUME_WAIT) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "a second RESUME");
		return -1;
	}
	if (link->role == SEAL_CORE &&
	    commit(link, &msg->u.resume, error) == -1) {
		return -1;
	}
	link->state = LINK_UP;
	/* On link 1 the host has begun already, with position 0. */
	if (link->role == SEAL_HOST && link->terms.number == 1) {
		return session_acked(link->session, msg->u.resume.next, error);
	}
	return link_attach(link, msg->u.resume.next, error);
}

/*
 * These descriptors are a terminal's from here on: what is sealed ends with
 * this record, so nothing may stand behind the host's.
 */
static int
on_terminal(struct link *link, const struct wire_terminal *msg,
    struct error *error)
{
	struct seal_binding b;

	if (link->role == SEAL_HOST) {
		error_set(error, WIRE_STEP_PTY, (int)(msg->error & INT_MAX),
		    "the terminal was not handed over");
		if (msg->error != 0) {
			return -1;
		}
	} else {
		link_bind(link, &b);
		if (link->in_start != link->in_end ||
		    seal_settle(link->seal, link->secret, &b) == -1) {
			error_set(error, WIRE_STEP_PROTOCOL, 0,
			    "more than a terminal");
			return -1;
		}
	}
	link->state = LINK_TERMINAL;
	return 0;
}

static int
on_link_frame(struct link *link, const uint8_t *frame, size_t len,
    struct error *error)
{
	struct wire msg;
	enum wire_err err = wire_decode(frame, len, &msg);

	if (err != WIRE_OK) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "%s message: %s",
		    wire_name(frame[0]), wire_err_text(err));
		return -1;
	}
	if (msg.type == WIRE_RESUME && (!link->hands_over ||
	    link->role == SEAL_CORE)) {
		return on_resume(link, &msg, error);
	}
	if (msg.type == WIRE_TERMINAL && link->hands_over &&
	    link->state == LINK_RESUME_WAIT) {
		return on_terminal(link, &msg.u.terminal, error);
	}
	if (link->state == LINK_RESUME_WAIT) {
		error_set(error, WIRE_STEP_PROTOCOL, 0,
		    "a message before RESUME");
		return -1;
	}
	switch (msg.type) {
	case WIRE_ACK:
		return session_acked(link->session, msg.u.ack.next, error);
	case WIRE_PING:
		link->pong_due = true;
		link->pong_id = msg.u.ping.id;
		return 0;
	case WIRE_PONG:
		link->peer_busy = msg.u.pong.busy != 0;
		link->pong_at = clock_now();
		if (msg.u.pong.id != 0 && msg.u.pong.id == link->ping_id) {
			link->rtt = clock_now() - link->ping_id;
		}
		return 0;
	case WIRE_CLOSE:
		return on_close(link, &msg.u.close);
	default:
		error_set(error, WIRE_STEP_PROTOCOL, 0,
		    "unexpected %s message", wire_name(msg.type));
		return -1;
	}
}

static void
on_record(struct link *link, const uint8_t *plain, size_t len)
{
	const uint8_t *frame = plain + WIRE_NUMBER;
	struct error error = { .step = WIRE_STEP_NONE };
	uint64_t number = wire_number_get(plain, WIRE_NUMBER);
	int rc;

	link->heard = clock_now();
	if (wire_class(frame[0]) == WIRE_CLASS_LINK && number != 0) {
		error_set(&error, WIRE_STEP_PROTOCOL, 0,
		    "a numbered link frame");
		rc = -1;
	} else if (wire_class(frame[0]) == WIRE_CLASS_LINK) {
		rc = on_link_frame(link, frame, len - WIRE_NUMBER, &error);
	} else if (link->state != LINK_UP) {
		error_set(&error, WIRE_STEP_PROTOCOL, 0,
		    "a message before RESUME");
		rc = -1;
	} else {
		rc = session_receive(link->session, number, frame,
		    len - WIRE_NUMBER, &error);
		link->unacked += len;
	}
	if (rc == -1) {
		link_fail(link, error.step, error.number, error.text);
	}
}

/* Take the host's 24-byte header off the input; false: more must come. */
static bool
take_header(struct link *link)
{
	if (link->role == SEAL_HOST || link->accepted) {
		return true;
	}
	if (link->in_end - link->in_start < SEAL_HEADER) {
		return false;
	}
	if (seal_accept(link->seal, link->in_buf + link->in_start) == -1) {
		link_fail(link, WIRE_STEP_LINK, 0, "the header was refused");
		return false;
	}
	link->in_start += SEAL_HEADER;
	link->accepted = true;
	return true;
}

static void
parse(struct link *link)
{
	const uint8_t *at;
	size_t have, n;

	if (link->state == LINK_HELLO_WAIT) {
		link_hello_search(link);
	}
	while ((link->state == LINK_RESUME_WAIT || link->state == LINK_UP) &&
	    !link_replaced(link) && take_header(link)) {
		at = link->in_buf + link->in_start;
		have = link->in_end - link->in_start;
		if (have < LINK_RECORD) {
			break;
		}
		n = wire_number_get(at, LINK_RECORD);
		if (n < RECORD_MIN || n > LINK_RECORD_MAX) {
			fail_stream(link, "something else wrote into it");
			break;
		}
		if (have < LINK_RECORD + n) {
			break;
		}
		if (seal_open(link->seal, link->plain, at + LINK_RECORD, n,
		    at, LINK_RECORD) == -1) {
			fail_stream(link, "a record does not open: it was "
			    "changed, or something was lost or added");
			break;
		}
		link->in_start += LINK_RECORD + n;
		on_record(link, link->plain, n - SEAL_OVERHEAD);
	}
	if (link->in_start > 0) {
		memmove(link->in_buf, link->in_buf + link->in_start,
		    link->in_end - link->in_start);
		link->in_end -= link->in_start;
		link->in_start = 0;
	}
}

/* What is read last decides: an early end is the end of everything. */
static void
input_end(struct link *link, int number)
{
	parse(link);
	if (link->state < LINK_CLOSED) {
		error_set(&link->error, WIRE_STEP_LINK, number,
		    "the transport ended");
		link_end(link, LINK_CLOSED);
	}
}

void
link_receive(struct link *link)
{
	size_t room;
	ssize_t n;
	unsigned i;

	for (i = 0; i < (link->terminal ? READS_TERMINAL : POLLSET_READS) &&
	    link->state < LINK_TERMINAL; i++) {
		room = LINK_IN - link->in_end;
		n = read(link->in, link->in_buf + link->in_end, room);
		if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
			break;
		}
		if (n <= 0) {
			/* EIO is how a terminal says that its end is gone. */
			input_end(link, n == 0 || errno == EIO ? 0 : errno);
			return;
		}
		link->in_end += (size_t)n;
		parse(link);
		if ((size_t)n < room && !link->terminal) {
			break;
		}
	}
	/*
	 * Not as soon as the input runs dry: a terminal or a container's pipe
	 * is dry after every few KiB, and each frame the other way costs such
	 * a transport as much as 64 KiB.  The cap on what is in flight is
	 * several steps, so no sender waits for an ACK that does not come.
	 */
	if (link->unacked >= (session_brisk(link->session) ?
	    ACK_STEP_BRISK : ACK_STEP)) {
		link->ack_due = true;
	} else if (link->unacked > 0 && link->ack_at == CLOCK_NEVER) {
		link->ack_at = clock_now() + SESSION_ACK_MS * CLOCK_MS;
	}
}
