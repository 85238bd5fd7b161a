/* SPDX-License-Identifier: MIT */
/*
 * cli_tty.c - the running half of an exec.
 *
 * One thread reads the terminal in pieces of 4096 bytes, one passes on new
 * window sizes, the main one writes what comes.  Both ways block apart.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define CLI_RX 65536

static pthread_mutex_t send_lock = PTHREAD_MUTEX_INITIALIZER;
static struct termios saved;
static int raw;

void
cli_size(uint32_t *cols, uint32_t *rows)
{
	struct winsize ws;
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
	int r;

	memset(&ws, 0, sizeof(ws));
	r = ioctl(fd != -1 ? fd : 1, TIOCGWINSZ, &ws);
	if (fd != -1) {
		(void)close(fd);
	}
	*cols = r == 0 && ws.ws_col > 0 ? ws.ws_col : 80;
	*rows = r == 0 && ws.ws_row > 0 ? ws.ws_row : 24;
}

static int
send_locked(int fd, enum wire_type t, const void *p, size_t n)
{
	int r;

	(void)pthread_mutex_lock(&send_lock);
	r = wire_send(fd, t, p, n);
	(void)pthread_mutex_unlock(&send_lock);
	return r;
}

/* At the end of its stdin it says nothing: the remote side gets no EOF. */
static void *
read_stdin(void *arg)
{
	int fd = *(const int *)arg;
	uint8_t piece[WIRE_PIECE];

	for (;;) {
		ssize_t r = read(0, piece, sizeof(piece));

		if (r < 0 && errno == EINTR) {
			continue;
		}
		if (r <= 0 ||
		    send_locked(fd, WIRE_DATA, piece, (size_t)r) == -1) {
			return NULL;
		}
	}
}

static void *
watch_size(void *arg)
{
	int fd = *(const int *)arg;
	uint32_t size[2];
	sigset_t set;
	int sig;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	while (sigwait(&set, &sig) == 0) {
		cli_size(&size[0], &size[1]);
		if (send_locked(fd, WIRE_RESIZE, size, sizeof(size)) == -1) {
			break;
		}
	}
	return NULL;
}

static void
start_input(int *fd)
{
	struct termios t;
	pthread_t th;
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (tcgetattr(0, &saved) == 0) {
		t = saved;
		cfmakeraw(&t);
		raw = tcsetattr(0, TCSANOW, &t) == 0;
	}
	(void)pthread_create(&th, NULL, read_stdin, fd);
	(void)pthread_create(&th, NULL, watch_size, fd);
}

static int
write_all(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t w = write(fd, p, n);

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

/* What came from the gateway and was not looked at yet. */
struct rx {
	uint8_t b[CLI_RX];
	size_t off;
	size_t len;
};

/*
 * The next frame, borrowed from rx.  1, 0 at the end, -1 for an error; the
 * gateway sends nothing longer than a piece or an error text.
 */
static int
next_frame(struct rx *rx, int fd, enum wire_type *t, struct wire_buf *b)
{
	for (;;) {
		size_t left = rx->len - rx->off;
		ssize_t r;

		if (left >= WIRE_HEAD) {
			if (wire_head(rx->b + rx->off, t, &b->len) == -1 ||
			    b->len > CLI_RX / 2) {
				return -1;
			}
			if (left >= WIRE_HEAD + b->len) {
				b->p = rx->b + rx->off + WIRE_HEAD;
				rx->off += WIRE_HEAD + b->len;
				return 1;
			}
		}
		memmove(rx->b, rx->b + rx->off, left);
		rx->off = 0;
		rx->len = left;
		r = read(fd, rx->b + left, CLI_RX - left);
		if (r < 0 && errno == EINTR) {
			continue;
		}
		if (r <= 0) {
			return (int)r;
		}
		rx->len += (size_t)r;
	}
}

/* 1 go on, 0 the end with *status. */
static int
take(enum wire_type t, const struct wire_buf *b, int *status)
{
	struct wire_cur c = { b->p, b->len, 0 };
	int r = 0;

	if (t == WIRE_DATA) {
		r = write_all(1, b->p, b->len);
	} else if (t == WIRE_ERRDATA) {
		r = write_all(2, b->p, b->len);
	} else if (t == WIRE_EXIT) {
		*status = (int)wire_get_u32(&c);
		return 0;
	} else if (t == WIRE_FAIL) {
		*status = cli_fail(b);
		return 0;
	}
	if (r == -1) {
		*status = cli_error("", strerror(errno));
		return 0;
	}
	return 1;
}

int
cli_relay(int fd, int interactive)
{
	static int sock;
	static struct rx rx;
	struct wire_buf b = {0};	/* borrows from rx */
	enum wire_type t;
	int status = 0;
	int r;

	sock = fd;
	while ((r = next_frame(&rx, fd, &t, &b)) == 1) {
		if (t == WIRE_OK && interactive) {
			start_input(&sock);
		} else if (!take(t, &b, &status)) {
			break;
		}
	}
	if (raw) {
		(void)tcsetattr(0, TCSANOW, &saved);
	}
	if (r != 1) {
		status = cli_error("Unknown", "h2 protocol error: error "
		    "reading a body from connection");
	}
	return status;
}
