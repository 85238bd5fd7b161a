/* SPDX-License-Identifier: MIT */
/* wire.c - frames, byte strings and unix sockets of the stand-in. */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

void
wire_put(struct wire_buf *b, const void *p, size_t n)
{
	if (b->len + n > b->cap) {
		size_t cap = (b->len + n) * 2 + 256;
		uint8_t *q = realloc(b->p, cap);

		if (q == NULL) {
			abort();
		}
		b->p = q;
		b->cap = cap;
	}
	if (n > 0) {
		memcpy(b->p + b->len, p, n);
	}
	b->len += n;
}

void
wire_put_u32(struct wire_buf *b, uint32_t v)
{
	wire_put(b, &v, sizeof(v));
}

void
wire_put_bytes(struct wire_buf *b, const void *p, size_t n)
{
	wire_put_u32(b, (uint32_t)n);
	wire_put(b, p, n);
}

/* The NUL travels, so that a reader can borrow the string. */
void
wire_put_str(struct wire_buf *b, const char *s)
{
	wire_put_bytes(b, s, strlen(s) + 1);
}

static void
make_head(uint8_t head[WIRE_HEAD], enum wire_type t, size_t n)
{
	uint32_t len = (uint32_t)n;

	memset(head, 0, WIRE_HEAD);
	memcpy(head, &len, sizeof(len));
	head[4] = (uint8_t)t;
}

void
wire_put_frame(struct wire_buf *b, enum wire_type t, const void *p, size_t n)
{
	uint8_t head[WIRE_HEAD];

	make_head(head, t, n);
	wire_put(b, head, sizeof(head));
	wire_put(b, p, n);
}

void
wire_free(struct wire_buf *b)
{
	free(b->p);
	memset(b, 0, sizeof(*b));
}

const uint8_t *
wire_get_bytes(struct wire_cur *c, size_t *n)
{
	const uint8_t *p;
	uint32_t len = wire_get_u32(c);

	if (c->err != 0 || len > c->left) {
		c->err = 1;
		*n = 0;
		return NULL;
	}
	p = c->p;
	c->p += len;
	c->left -= len;
	*n = len;
	return p;
}

uint32_t
wire_get_u32(struct wire_cur *c)
{
	uint32_t v;

	if (c->err != 0 || c->left < sizeof(v)) {
		c->err = 1;
		return 0;
	}
	memcpy(&v, c->p, sizeof(v));
	c->p += sizeof(v);
	c->left -= sizeof(v);
	return v;
}

const char *
wire_get_str(struct wire_cur *c)
{
	size_t n;
	const uint8_t *p = wire_get_bytes(c, &n);

	if (p == NULL || n == 0 || p[n - 1] != '\0') {
		c->err = 1;
		return "";
	}
	return (const char *)p;
}

int
wire_head(const uint8_t *p, enum wire_type *t, size_t *n)
{
	uint32_t len;

	memcpy(&len, p, sizeof(len));
	if (len > WIRE_MAX || p[4] == 0 || p[4] > WIRE_CONTROL) {
		errno = EPROTO;
		return -1;
	}
	*t = (enum wire_type)p[4];
	*n = len;
	return 0;
}

static int
send_all(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR) {
			continue;
		}
		if (w < 0) {
			return -1;
		}
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

int
wire_send(int fd, enum wire_type t, const void *p, size_t n)
{
	struct wire_buf b = {0};
	uint8_t piece[WIRE_HEAD + WIRE_PIECE];
	int r;

	if (n <= WIRE_PIECE) {		/* the common case, without malloc */
		make_head(piece, t, n);
		if (n > 0) {
			memcpy(piece + WIRE_HEAD, p, n);
		}
		return send_all(fd, piece, WIRE_HEAD + n);
	}
	wire_put_frame(&b, t, p, n);
	r = send_all(fd, b.p, b.len);
	wire_free(&b);
	return r;
}

/* 1 all read, 0 end of file before the first byte, -1 + errno. */
static int
recv_all(int fd, uint8_t *p, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = read(fd, p + got, n - got);

		if (r < 0 && errno == EINTR) {
			continue;
		}
		if (r < 0) {
			return -1;
		}
		if (r == 0) {
			errno = EPROTO;
			return got == 0 ? 0 : -1;
		}
		got += (size_t)r;
	}
	return 1;
}

int
wire_recv(int fd, enum wire_type *t, struct wire_buf *b)
{
	uint8_t head[WIRE_HEAD];
	size_t n;
	int r = recv_all(fd, head, sizeof(head));

	if (r <= 0) {
		return r;
	}
	if (wire_head(head, t, &n) == -1) {
		return -1;
	}
	if (n > b->cap) {
		uint8_t *q = realloc(b->p, n);

		if (q == NULL) {
			return -1;
		}
		b->p = q;
		b->cap = n;
	}
	b->len = n;
	if (n > 0 && recv_all(fd, b->p, n) <= 0) {
		errno = EPROTO;
		return -1;
	}
	return 1;
}

/* An address through /proc/self/fd: sun_path holds only 107 bytes. */
static int
make_addr(const char *dir, const char *name, struct sockaddr_un *un)
{
	int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd == -1) {
		return -1;
	}
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	(void)snprintf(un->sun_path, sizeof(un->sun_path),
	    "/proc/self/fd/%d/%.60s", fd, name);
	return fd;
}

enum open_how { OPEN_CONNECT, OPEN_CONNECT_NOW, OPEN_LISTEN };

static int
open_socket(const char *dir, const char *name, enum open_how how)
{
	struct sockaddr_un un;
	int dirfd = make_addr(dir, name, &un);
	int fd, r, saved;

	if (dirfd == -1) {
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
	    (how == OPEN_CONNECT_NOW ? SOCK_NONBLOCK : 0), 0);
	if (how == OPEN_LISTEN) {
		(void)unlink(un.sun_path);
		r = bind(fd, (struct sockaddr *)&un, sizeof(un));
		if (r == 0) {
			(void)chmod(un.sun_path, 0666);
			r = listen(fd, 128);
		}
	} else {
		r = connect(fd, (struct sockaddr *)&un, sizeof(un));
	}
	saved = errno;
	(void)close(dirfd);
	if (r == -1) {
		(void)close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

int
wire_connect(const char *dir, const char *name)
{
	return open_socket(dir, name, OPEN_CONNECT);
}

int
wire_connect_now(const char *dir, const char *name)
{
	return open_socket(dir, name, OPEN_CONNECT_NOW);
}

int
wire_listen(const char *dir, const char *name)
{
	return open_socket(dir, name, OPEN_LISTEN);
}

int64_t
wire_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t
wire_now_us(void)
{
	return wire_now_ns() / 1000;
}
