/* SPDX-License-Identifier: MIT */
/*
 * session.c - one exec inside the container, from START to EXIT.
 *
 * A thread each.  It moves bytes between the gateway's socket and the
 * command's terminal or pipes and never blocks in either direction alone.
 * When the socket goes away the command is told NOTHING: no HUP, no end of
 * file on its terminal.  What it writes then is thrown away.
 */
#include "supervisor.h"

#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSION_RX (128 * 1024)
#define SESSION_COMPACT (1024 * 1024)
#define SESSION_OUT (64 * 1024)
#define SESSION_TTY_RETRY_MS 10
#define SESSION_DRAIN_TTY_US 2000000
#define SESSION_DRAIN_PIPE_US 3000000

enum { FD_SOCK, FD_IN, FD_OUT, FD_ERR, FD_EXIT, FD_COUNT };

struct session {
	int sock;		/* owned; -1 once the link is gone */
	uint32_t flags;
	struct child ch;
	struct wire_buf rx;	/* without limit, like the real one's */
	size_t rx_off;
	size_t piece;		/* bytes left of the DATA frame at rx_off */
	int in_blocked;
	struct wire_buf out;
	size_t out_off;
	int exited;
	int status;
	int64_t deadline;	/* of draining, once exited */
	int out_over;		/* nothing more comes from the command */
	int finished;		/* EXIT is in out */
};

static void
lose_link(struct session *s)
{
	if (s->sock != -1) {
		(void)close(s->sock);
		s->sock = -1;
	}
}

static void
close_input(struct session *s)
{
	if (s->ch.in != -1) {
		(void)close(s->ch.in);
		s->ch.in = -1;
	}
}

/* Bytes taken of p; 0 with in_blocked set when there is no room. */
static size_t
give_input(struct session *s, const uint8_t *p, size_t n)
{
	int fd = (s->flags & WIRE_F_TTY) != 0 ? s->ch.tty : s->ch.in;
	ssize_t w;

	if (fd == -1) {
		return n;
	}
	w = write(fd, p, n > WIRE_PIECE ? WIRE_PIECE : n);
	if (w >= 0) {
		return (size_t)w;
	}
	if (errno == EAGAIN || errno == EINTR) {
		s->in_blocked = errno == EAGAIN;
		return 0;
	}
	close_input(s);
	return n;
}

static void
resize(struct session *s, const uint8_t *p, size_t n)
{
	struct wire_cur c = { p, n, 0 };
	struct winsize ws;

	memset(&ws, 0, sizeof(ws));
	ws.ws_col = (unsigned short)wire_get_u32(&c);
	ws.ws_row = (unsigned short)wire_get_u32(&c);
	if (c.err == 0 && s->ch.tty != -1) {
		(void)ioctl(s->ch.tty, TIOCSWINSZ, &ws);
	}
}

/* One step on the bytes received; 0 when it needs more of them or room. */
static int
take_frame(struct session *s)
{
	const uint8_t *p = s->rx.p + s->rx_off;
	size_t left = s->rx.len - s->rx_off;
	enum wire_type t;
	size_t n;

	if (s->piece > 0 && left > 0) {
		n = give_input(s, p, left < s->piece ? left : s->piece);
		s->piece -= n;
		s->rx_off += n;
		return n > 0;
	}
	if (left < WIRE_HEAD) {
		return 0;
	}
	if (wire_head(p, &t, &n) == -1) {
		lose_link(s);
		return 0;
	}
	if (t == WIRE_DATA) {
		s->piece = n;
		n = 0;
	} else if (left < WIRE_HEAD + n) {
		return 0;
	} else if (t == WIRE_RESIZE) {
		resize(s, p + WIRE_HEAD, n);
	} else if (t == WIRE_EOF && (s->flags & WIRE_F_TTY) == 0) {
		close_input(s);
	}
	s->rx_off += WIRE_HEAD + n;
	return 1;
}

static void
receive(struct session *s)
{
	uint8_t block[SESSION_RX];
	ssize_t r;

	if (s->rx_off == s->rx.len || (s->rx_off > SESSION_COMPACT &&
	    s->rx_off > s->rx.len / 2)) {
		s->rx.len -= s->rx_off;
		memmove(s->rx.p, s->rx.p + s->rx_off, s->rx.len);
		s->rx_off = 0;
	}
	r = recv(s->sock, block, sizeof(block), MSG_DONTWAIT);
	if (r > 0) {
		wire_put(&s->rx, block, (size_t)r);
	} else if (r == 0 || (errno != EAGAIN && errno != EINTR)) {
		lose_link(s);
	}
}

static size_t
out_room(const struct session *s)
{
	size_t used = s->out.len - s->out_off;

	return used < SESSION_OUT ? SESSION_OUT - used : 0;
}

/* 1 when something was read, 0 when there is nothing now, -1 at the end. */
static int
take_output(struct session *s, int fd, enum wire_type t)
{
	uint8_t piece[WIRE_PIECE];
	int got = 0;

	while (out_room(s) > 0) {
		ssize_t r = read(fd, piece, sizeof(piece));

		if (r < 0 && errno == EINTR) {
			continue;
		}
		if (r < 0 && errno == EAGAIN) {
			return got;
		}
		if (r <= 0) {
			return -1;
		}
		got = 1;
		if (s->sock != -1) {
			wire_put_frame(&s->out, t, piece, (size_t)r);
		}
	}
	return 1;
}

static int
drain_one(struct session *s, int *fd, enum wire_type t)
{
	int r;

	if (*fd == -1) {
		return -1;
	}
	r = take_output(s, *fd, t);
	if (r == -1 && fd != &s->ch.tty) {
		(void)close(*fd);
		*fd = -1;
	}
	return r;
}

static void
drain(struct session *s)
{
	int out, err;

	if (s->out_over) {
		return;
	}
	if ((s->flags & WIRE_F_TTY) != 0) {
		if (s->sock == -1 && (s->flags & WIRE_F_STOP) != 0) {
			return;
		}
		s->out_over = drain_one(s, &s->ch.tty, WIRE_DATA) == -1;
		return;
	}
	out = drain_one(s, &s->ch.out, WIRE_DATA);
	err = drain_one(s, &s->ch.err, WIRE_ERRDATA);
	if (out == -1 && err == -1) {
		s->out_over = 1;
	} else if (s->exited && out <= 0 && err <= 0 &&
	    (s->flags & WIRE_F_AT_ONCE) != 0) {
		s->out_over = 1;	/* only a background child holds it */
	}
}

static void
flush_out(struct session *s)
{
	while (s->sock != -1 && s->out_off < s->out.len) {
		ssize_t w = send(s->sock, s->out.p + s->out_off,
		    s->out.len - s->out_off, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR) {
			continue;
		}
		if (w < 0 && errno == EAGAIN) {
			return;
		}
		if (w < 0) {
			lose_link(s);
			break;
		}
		s->out_off += (size_t)w;
	}
	s->out.len = 0;
	s->out_off = 0;
}

static void
check_exit(struct session *s)
{
	uint32_t code;
	int64_t wait_us = (s->flags & WIRE_F_TTY) != 0 ?
	    SESSION_DRAIN_TTY_US : SESSION_DRAIN_PIPE_US;

	if (!s->exited || s->finished) {
		return;
	}
	if (s->deadline == 0) {
		s->deadline = wire_now_us() + wait_us;
	}
	if (!s->out_over && wire_now_us() < s->deadline) {
		return;
	}
	/* A signal is status 1: the real one has no other answer either. */
	code = WIFEXITED(s->status) ? (uint32_t)WEXITSTATUS(s->status) : 1;
	wire_put_frame(&s->out, WIRE_EXIT, &code, sizeof(code));
	s->finished = 1;
	s->out_over = 1;
}

static int
poll_timeout(const struct session *s)
{
	int64_t left;

	if (s->exited && !s->finished && s->sock != -1) {
		left = (s->deadline - wire_now_us()) / 1000 + 1;
		return left > 0 ? (int)left : 0;
	}
	return s->in_blocked && s->ch.tty != -1 ? SESSION_TTY_RETRY_MS : -1;
}

static void
wait_events(struct session *s)
{
	struct pollfd p[FD_COUNT];
	int reading = !s->out_over && out_room(s) > 0;
	int tty = (s->flags & WIRE_F_TTY) != 0;
	int i;

	memset(p, 0, sizeof(p));
	for (i = 0; i < FD_COUNT; i++) {
		p[i].fd = -1;
	}
	p[FD_SOCK].fd = s->sock;
	if (!s->in_blocked || (s->flags & WIRE_F_BOUNDED) == 0) {
		p[FD_SOCK].events = POLLIN;
	}
	if (s->out_off < s->out.len) {
		p[FD_SOCK].events |= POLLOUT;
	}
	if (s->in_blocked) {
		p[FD_IN].fd = tty ? s->ch.tty : s->ch.in;
		p[FD_IN].events = POLLOUT;
	}
	if (reading && !(tty && s->sock == -1 &&
	    (s->flags & WIRE_F_STOP) != 0)) {
		p[FD_OUT].fd = tty ? s->ch.tty : s->ch.out;
		p[FD_OUT].events = POLLIN;
		p[FD_ERR].fd = tty ? -1 : s->ch.err;
		p[FD_ERR].events = POLLIN;
	}
	p[FD_EXIT].fd = s->exited ? -1 : s->ch.exited;
	p[FD_EXIT].events = POLLIN;
	(void)poll(p, FD_COUNT, poll_timeout(s));
	/* What came before the cut is still given to the command. */
	if ((p[FD_SOCK].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
		receive(s);
	}
	s->in_blocked = 0;
	if (!s->exited && (p[FD_EXIT].revents & POLLIN) != 0) {
		s->status = reaper_take(s->ch.slot);
		s->exited = 1;
	}
}

static void
relay(struct session *s)
{
	for (;;) {
		while (take_frame(s)) {
		}
		if (s->sock == -1 && !s->in_blocked) {
			close_input(s);	/* pipes only; a tty stays as it is */
		}
		drain(s);
		check_exit(s);
		flush_out(s);
		if (s->exited && s->sock == -1) {
			return;
		}
		if (s->finished && s->out_off == s->out.len) {
			return;
		}
		wait_events(s);
	}
}

/*
 * The reader of the real one outlives its session: a background child that
 * goes on writing to the pipes is read and thrown away, never killed.
 */
static void
absorb(struct session *s)
{
	int fds[] = { s->ch.out, s->ch.err };
	struct pollfd p[2];
	uint8_t piece[WIRE_PIECE];
	int i;

	close_input(s);
	while (fds[0] != -1 || fds[1] != -1) {
		for (i = 0; i < 2; i++) {
			p[i].fd = fds[i];
			p[i].events = POLLIN;
			p[i].revents = 0;
		}
		(void)poll(p, 2, -1);
		for (i = 0; i < 2; i++) {
			if (p[i].revents != 0 &&
			    read(fds[i], piece, sizeof(piece)) <= 0 &&
			    errno != EAGAIN && errno != EINTR) {
				fds[i] = -1;
			}
			errno = 0;
		}
	}
}

/* The START frame: flags, cols, rows, command. */
static int
start_command(struct session *s)
{
	struct wire_buf b = {0};
	struct spawn_request rq;
	struct wire_cur c;
	enum wire_type t;
	int r = -1;

	memset(&rq, 0, sizeof(rq));
	if (wire_recv(s->sock, &t, &b) != 1) {
		wire_free(&b);
		return -1;
	}
	if (t == WIRE_PING) {
		(void)wire_send(s->sock, WIRE_OK, NULL, 0);
	} else if (t == WIRE_START) {
		c.p = b.p;
		c.left = b.len;
		c.err = 0;
		rq.flags = wire_get_u32(&c);
		rq.cols = wire_get_u32(&c);
		rq.rows = wire_get_u32(&c);
		rq.command = wire_get_str(&c);
		s->flags = rq.flags;
		if (c.err == 0) {
			r = spawn_start(&s->ch, &rq);
		}
	}
	wire_free(&b);
	return r;
}

static void *
run(void *arg)
{
	struct session *s = arg;

	if (start_command(s) == 0) {
		relay(s);
		lose_link(s);
		absorb(s);
		spawn_close(&s->ch);
	}
	lose_link(s);
	wire_free(&s->out);
	wire_free(&s->rx);
	free(s);
	return NULL;
}

void
session_start(int fd)
{
	struct session *s = calloc(1, sizeof(*s));
	pthread_attr_t attr;
	pthread_t th;

	if (s == NULL) {
		(void)close(fd);
		return;
	}
	s->sock = fd;
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, 256 * 1024);
	if (pthread_create(&th, &attr, run, s) != 0) {
		(void)close(fd);
		free(s);
	}
	(void)pthread_attr_destroy(&attr);
}
