/* SPDX-License-Identifier: MIT */
/* pipes.c - the core's ends of a process's stdio, and a request's flows. */
#include "pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"

void
close_fd(int *fd)
{
	int saved = errno;

	if (*fd != -1) {
		close(*fd);
		*fd = -1;
	}
	errno = saved;
}

void
pipes_init(struct pipes *p, struct session_request *req)
{
	*p = (struct pipes){ .req = req, .in = -1, .out = { -1, -1 },
	    .quiet = clock_now(), .eof_at = CLOCK_NEVER,
	    .slot_in = POLLSET_NONE,
	    .slot_out = { POLLSET_NONE, POLLSET_NONE } };
}

static void
not_blocking(int fd)
{
	if (fd != -1) {
		fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	}
}

void
pipes_take(struct pipes *p, int in, int out, int err)
{
	unsigned i;

	p->awaited = false;
	p->in = in;
	p->out[0] = out;
	p->out[1] = err;
	not_blocking(in);
	not_blocking(out);
	not_blocking(err);
	for (i = 0; p->req != NULL && i < 2; i++) {
		if (p->req->out[i].unwanted) {
			pipes_unwanted(p, i);
		}
	}
}

void
pipes_serve(struct pipes *p, struct session_request *req)
{
	p->req = req;
	p->eof_at = CLOCK_NEVER;
}

/* ---- bytes ------------------------------------------------------------ */

size_t
pipes_data(struct pipes *p, const uint8_t *data, size_t len)
{
	ssize_t n;

	if (p->in == -1) {
		return 0;
	}
	do {
		n = write(p->in, data, len);
	} while (n == -1 && errno == EINTR);
	if (n == -1 && errno == EAGAIN) {
		return 0;
	}
	if (n == -1) {
		/* It reads no more: that is its own affair. */
		close_fd(&p->in);
		session_drop(p->req, 1);
		return len;
	}
	p->in_bytes += (size_t)n;
	return (size_t)n;
}

/* A terminal has no end of its own: its end-of-file character is one. */
static void
type_end(int fd)
{
	struct termios t;

	if (tcgetattr(fd, &t) == 0 && (t.c_lflag & ICANON) != 0 &&
	    write(fd, &t.c_cc[VEOF], 1) == -1) {
		return;			/* nobody reads it */
	}
}

bool
pipes_ended(struct pipes *p)
{
	if (p->in == -1 || p->req->in[1].queue.length > 0) {
		return false;
	}
	if (p->terminal) {
		type_end(p->in);
	}
	close_fd(&p->in);
	return true;
}

/* What waited in the queue because the pipe was full or not there. */
static bool
write_queued(struct pipes *p)
{
	const uint8_t *data;
	size_t len, n;

	while (p->in != -1 && (len = session_peek(p->req, 1, &data)) > 0) {
		n = pipes_data(p, data, len);
		if (p->in == -1 || n == 0) {
			return false;
		}
		session_consume(p->req, 1, n);
	}
	return p->req->in[1].ended && pipes_ended(p);
}

/*
 * Most jobs end right after their output, and RESULT is its end too: EOF is
 * told only of one that lives on, since each frame costs a transport dear.
 */
void
pipes_unwanted(struct pipes *p, unsigned index)
{
	close_fd(&p->out[index]);
	if (p->eof_at == CLOCK_NEVER) {
		p->eof_at = clock_now() + PIPES_EOF_MS * CLOCK_MS;
	}
}

void
pipes_tell(struct pipes *p, uint64_t now)
{
	unsigned i;

	if (p->req == NULL || now < p->eof_at) {
		return;
	}
	p->eof_at = CLOCK_NEVER;
	for (i = 0; i < 2 && !p->awaited; i++) {
		if (p->out[i] == -1) {
			session_end(p->req, i);
		}
	}
}

size_t
pipes_read(struct pipes *p, unsigned index, uint8_t *buf, size_t max)
{
	uint64_t n = 0;
	ssize_t got;

	if (p->out[index] == -1) {
		return 0;
	}
	do {
		got = read(p->out[index], buf, max);
	} while (got == -1 && errno == EINTR);
	if (got > 0) {
		n = (uint64_t)got;
		p->owed[index] -= n < p->owed[index] ? n : p->owed[index];
		p->quiet = clock_now();
	} else if (got == 0 || errno != EAGAIN) {
		/* A terminal without slaves says EIO. */
		close_fd(&p->out[index]);
	}
	return (size_t)n;
}

size_t
pipes_pull(struct pipes *p, unsigned index, uint8_t *buf, size_t max)
{
	bool open = p->out[index] != -1;
	size_t n = pipes_read(p, index, buf, max);

	if (open && p->out[index] == -1) {
		pipes_unwanted(p, index);
	}
	return n;
}

static unsigned
waiting(int fd)
{
	int n = 0;

	return fd == -1 || ioctl(fd, FIONREAD, &n) == -1 || n < 0 ? 0 :
	    (unsigned)n;
}

void
pipes_over(struct pipes *p)
{
	unsigned i;

	p->over_at = p->quiet = clock_now();
	for (i = 0; i < 2; i++) {
		p->owed[i] = waiting(p->out[i]);
	}
}

/* Someone else holds an end; is the process's own output out? */
static bool
settled(const struct pipes *p, uint64_t now)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		if (p->out[i] != -1 && p->owed[i] > 0) {
			return false;
		}
	}
	if (p->req == NULL || now >= p->over_at + PIPES_HELD_MS * CLOCK_MS) {
		return true;
	}
	return waiting(p->out[0]) == 0 && waiting(p->out[1]) == 0 &&
	    !p->req->out[0].ready && !p->req->out[1].ready;
}

bool
pipes_dry(struct pipes *p, uint64_t now, uint64_t *wake)
{
	uint64_t until = p->over_at + PIPES_HELD_MS * CLOCK_MS;

	if (p->out[0] == -1 && p->out[1] == -1) {
		return true;
	}
	if (p->quiet + PIPES_DRAIN_MS * CLOCK_MS < until) {
		until = p->quiet + PIPES_DRAIN_MS * CLOCK_MS;
	}
	if (now >= until) {
		if (settled(p, now)) {
			return true;
		}
		until = now + PIPES_DRAIN_MS * CLOCK_MS;
	}
	*wake = until;
	return false;
}

void
pipes_interest(struct pipes *p, struct pollset *set)
{
	unsigned i;

	p->slot_in = p->slot_out[0] = p->slot_out[1] = POLLSET_NONE;
	if (p->req == NULL) {
		return;
	}
	/* Only what came before the pipe did can end unnoticed. */
	if (p->in != -1 && (p->req->in[1].queue.length > 0 ||
	    p->req->in[1].ended)) {
		p->slot_in = pollset_add(set, p->in, POLLOUT);
	}
	for (i = 0; i < 2; i++) {
		if (session_hungry(p->req, i)) {
			p->slot_out[i] = pollset_add(set, p->out[i], POLLIN);
		}
	}
	pollset_wake(set, p->eof_at);
}

bool
pipes_run(struct pipes *p, const struct pollset *set)
{
	bool ended = false;
	unsigned i;
	short ready;

	if (p->req == NULL) {
		return false;
	}
	if (pollset_ready(set, p->slot_in) != 0) {
		ended = write_queued(p);
	}
	for (i = 0; i < 2; i++) {
		ready = pollset_ready(set, p->slot_out[i]);
		if ((ready & POLLIN) != 0) {
			session_ready(p->req, i);
		} else if (ready != 0) {
			/* The end alone needs no turn among the flows. */
			pipes_unwanted(p, i);
		}
	}
	return ended;
}

/* ---- pipes that nobody listens to ------------------------------------- */

static struct {
	int fds[PIPES_DRAINS];		/* owned */
	size_t slots[PIPES_DRAINS];
	unsigned count;
} drains;

/* Background children keep their pipe: it is read to nowhere from now on. */
static void
drain(int *fd)
{
	if (*fd != -1 && drains.count < PIPES_DRAINS) {
		drains.slots[drains.count] = POLLSET_NONE;
		drains.fds[drains.count++] = *fd;
		*fd = -1;
	}
	close_fd(fd);
}

void
pipes_close(struct pipes *p)
{
	close_fd(&p->in);
	drain(&p->out[0]);
	drain(&p->out[1]);
	p->req = NULL;
}

void
drains_interest(struct pollset *set)
{
	unsigned i;

	for (i = 0; i < drains.count; i++) {
		drains.slots[i] = pollset_add(set, drains.fds[i], POLLIN);
	}
}

void
drains_run(const struct pollset *set)
{
	static char nowhere[16384];
	unsigned i;
	ssize_t n;

	for (i = 0; i < drains.count; ) {
		n = 1;
		if (pollset_ready(set, drains.slots[i]) != 0) {
			n = read(drains.fds[i], nowhere, sizeof(nowhere));
		}
		if (n > 0 || (n == -1 && (errno == EAGAIN || errno == EINTR))) {
			i++;
			continue;
		}
		close(drains.fds[i]);
		drains.count--;
		drains.fds[i] = drains.fds[drains.count];
		drains.slots[i] = drains.slots[drains.count];
	}
}
