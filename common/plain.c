/* SPDX-License-Identifier: MIT */
/* plain.c - frames over a unix socket, unsealed: greeting and session. */
#include "plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLAIN_LENGTH 4u			/* f(frame)'s length field */
#define PLAIN_IN 131072u
#define PLAIN_OUT (2 * (PLAIN_LENGTH + WIRE_FRAME_MAX))
#define PLAIN_HELD 1048576u		/* unwritten, of all carriers */
#define PLAIN_MANY 32u			/* carriers that may keep their pages */
#define PLAIN_PAGE 4096u

struct plain {
	struct plain_config config;
	struct error error;
	/*
	 * Shared by all carriers of a program: what they have unwritten, and
	 * how many they are.  Above a limit each holds one frame only, so
	 * that many that nobody reads stay small.
	 */
	struct session_budget *budget;	/* borrowed */
	bool dead, greeted, more;
	int broken;			/* errno of a failed write */
	size_t slot_in;
	size_t in_start, in_end, out_start, out_end;
	uint8_t out[PLAIN_OUT];
	uint8_t in[PLAIN_IN];
};

struct plain *
plain_new(const struct plain_config *config)
{
	struct plain *plain = calloc(1, sizeof(*plain));

	if (plain == NULL) {
		close(config->fd);
		errno = ENOMEM;
		return NULL;
	}
	plain->config = *config;
	plain->budget = session_budget_of(config->session);
	plain->budget->carriers++;
	plain->slot_in = POLLSET_NONE;
	return plain;
}

void
plain_free(struct plain *plain)
{
	int saved = errno;

	if (plain != NULL) {
		close(plain->config.fd);
		plain->budget->unwritten -= plain->out_end - plain->out_start;
		plain->budget->carriers--;
		free(plain);
	}
	errno = saved;
}

static void
fail(struct plain *plain, const struct error *error)
{
	if (!plain->dead) {
		plain->dead = true;
		plain->error = *error;
		session_detach(plain->config.session);
	}
}

static void
fail_io(struct plain *plain, int number)
{
	struct error error;

	error_set(&error, WIRE_STEP_LINK, number,
	    number == 0 ? "the other end closed the socket" : "socket");
	fail(plain, &error);
}

int
plain_greet(struct plain *plain, const struct wire *message)
{
	size_t len;

	if (wire_encode(message, plain->out + plain->out_end + PLAIN_LENGTH,
	    PLAIN_OUT - plain->out_end - PLAIN_LENGTH, &len) != WIRE_OK ||
	    len > WIRE_FRAME_MAX) {
		errno = EMSGSIZE;
		return -1;
	}
	wire_number_put(plain->out + plain->out_end, len, PLAIN_LENGTH);
	plain->out_end += PLAIN_LENGTH + len;
	plain->budget->unwritten += PLAIN_LENGTH + len;
	return 0;
}

static void
release(uint8_t *buf, size_t used, size_t size)
{
#ifdef MADV_DONTNEED
	uintptr_t from = ((uintptr_t)buf + used + PLAIN_PAGE - 1) &
	    ~(uintptr_t)(PLAIN_PAGE - 1);
	uintptr_t to = ((uintptr_t)buf + size) & ~(uintptr_t)(PLAIN_PAGE - 1);

	if (to > from) {
		madvise((void *)from, to - from, MADV_DONTNEED);
	}
#else
	(void)buf;
	(void)used;
	(void)size;
#endif
}

/* 0 all written, 1 the socket is full, -1 it is gone. */
static int
drain(struct plain *plain)
{
	ssize_t n;

	while (plain->out_start < plain->out_end) {
		n = write(plain->config.fd, plain->out + plain->out_start,
		    plain->out_end - plain->out_start);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0 && errno == EAGAIN) {
			return 1;
		}
		if (n < 0) {
			/* What it said last may still be readable. */
			plain->broken = errno;
			return -1;
		}
		plain->out_start += (size_t)n;
		plain->budget->unwritten -= (size_t)n;
	}
	if (plain->budget->carriers > PLAIN_MANY &&
	    plain->out_end > PLAIN_PAGE) {
		release(plain->out, 0, PLAIN_OUT);
	}
	plain->out_start = plain->out_end = 0;
	return 0;
}

static bool
fill(struct plain *plain)
{
	const struct session_frame *f;
	size_t n;

	while (plain->greeted && PLAIN_OUT - plain->out_end >=
	    PLAIN_LENGTH + WIRE_FRAME_MAX &&
	    (plain->out_end == 0 || plain->budget->unwritten < PLAIN_HELD) &&
	    (f = session_next(plain->config.session)) != NULL) {
		n = f->length - WIRE_NUMBER;
		wire_number_put(plain->out + plain->out_end, n, PLAIN_LENGTH);
		memcpy(plain->out + plain->out_end + PLAIN_LENGTH,
		    f->bytes + WIRE_NUMBER, n);
		plain->out_end += PLAIN_LENGTH + n;
		plain->budget->unwritten += PLAIN_LENGTH + n;
	}
	return plain->out_end > 0;
}

void
plain_flush(struct plain *plain)
{
	unsigned i;

	plain->more = false;
	for (i = 0; i < POLLSET_WRITES && !plain->dead && plain->broken == 0;
	    i++) {
		if (drain(plain) != 0 || !fill(plain)) {
			return;
		}
	}
	plain->more = i == POLLSET_WRITES;
}

static void
greet(struct plain *plain, const uint8_t *frame, size_t n)
{
	struct error error;
	struct wire msg;
	enum wire_err err = wire_decode(frame, n, &msg);

	if (err != WIRE_OK || wire_class(msg.type) != WIRE_CLASS_CLIENT) {
		error_set(&error, WIRE_STEP_PROTOCOL, 0,
		    "no sandmux greeting: %s", wire_err_text(err));
		fail(plain, &error);
		return;
	}
	plain->greeted = true;
	if (plain->config.greeting(plain->config.ctx, &msg, &error) == -1) {
		fail(plain, &error);
	} else if (!plain->dead &&
	    session_attach(plain->config.session, 0, &error) == -1) {
		fail(plain, &error);
	}
}

static void
parse(struct plain *plain)
{
	struct error error;
	const uint8_t *at;
	size_t have, n;

	while (!plain->dead) {
		at = plain->in + plain->in_start;
		have = plain->in_end - plain->in_start;
		if (have < PLAIN_LENGTH) {
			break;
		}
		n = wire_number_get(at, PLAIN_LENGTH);
		if (n == 0 || n > WIRE_FRAME_MAX) {
			error_set(&error, WIRE_STEP_PROTOCOL, 0,
			    "a frame of %zu bytes", n);
			fail(plain, &error);
			break;
		}
		if (have < PLAIN_LENGTH + n) {
			break;
		}
		plain->in_start += PLAIN_LENGTH + n;
		if (!plain->greeted) {
			greet(plain, at + PLAIN_LENGTH, n);
		} else if (session_receive(plain->config.session, 0,
		    at + PLAIN_LENGTH, n, &error) == -1) {
			fail(plain, &error);
		}
	}
	if (plain->in_start > 0) {
		memmove(plain->in, plain->in + plain->in_start,
		    plain->in_end - plain->in_start);
		plain->in_end -= plain->in_start;
		plain->in_start = 0;
	}
}

static void
receive(struct plain *plain)
{
	size_t room;
	ssize_t n;
	unsigned i;

	for (i = 0; i < POLLSET_READS && !plain->dead; i++) {
		room = PLAIN_IN - plain->in_end;
		n = read(plain->config.fd, plain->in + plain->in_end, room);
		if (n < 0 && (errno == EINTR || (errno == EAGAIN &&
		    plain->broken == 0))) {
			return;
		}
		if (n <= 0) {
			fail_io(plain, n == 0 ? 0 : plain->broken != 0 ?
			    plain->broken : errno);
			return;
		}
		plain->in_end += (size_t)n;
		parse(plain);
		if ((size_t)n < room) {
			return;
		}
	}
}

void
plain_interest(struct plain *plain, struct pollset *set)
{
	bool write_due;

	plain->slot_in = POLLSET_NONE;
	if (plain->dead) {
		return;
	}
	if (plain->broken != 0) {
		pollset_wake(set, 0);
	}
	write_due = plain->broken == 0 && (plain->more ||
	    plain->out_start < plain->out_end || (plain->greeted &&
	    session_pending(plain->config.session)));
	plain->slot_in = pollset_add(set, plain->config.fd,
	    write_due ? POLLIN | POLLOUT : POLLIN);
}

void
plain_run(struct plain *plain, const struct pollset *set)
{
	if (plain->broken != 0 || pollset_ready(set, plain->slot_in) &
	    (POLLIN | POLLHUP | POLLERR)) {
		receive(plain);
	}
	plain_flush(plain);
}

const struct error *
plain_error(const struct plain *plain)
{
	return plain->dead ? &plain->error : NULL;
}

bool
plain_drained(const struct plain *plain)
{
	return plain->out_start == plain->out_end && !plain->more;
}

void
plain_trim(struct plain *plain)
{
	release(plain->in, plain->in_end, PLAIN_IN);
	release(plain->out, plain->out_end, PLAIN_OUT);
}
