/* SPDX-License-Identifier: MIT */
/* link.c - an exec between its CLI and its supervisor. */
#include "link.h"

#include "keepalive.h"
#include "request.h"
#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINK_READ (256 * 1024)
#define LINK_PREVIEW 120
#define NS_PER_S 1000000000LL

enum link_state {
	LINK_CLIENT,	/* nothing asked yet but a look-up */
	LINK_ASKED,	/* a request for the gateway itself */
	LINK_STARTING,	/* start is held back */
	LINK_RUNNING,
	LINK_ENDING	/* the last frame is in down */
};

struct link {
	const struct link_config *cf;	/* borrowed */
	enum link_state state;
	int cli;		/* owned */
	int sup;		/* owned; -1 before and after */
	char name[64];
	struct wire_buf crx;
	struct wire_buf srx;
	struct queue up;
	struct queue down;
	struct wire_buf start;
	int64_t start_ns;
	int64_t timeout_ns;	/* 0 for none */
	int64_t budget;		/* -1 for none */
	struct keepalive ka;
	int frozen;
	int over;
	enum wire_type asked;
	struct wire_buf request;
};

static const char relay_closed[] =
    "exec relay closed before the command reported an exit status";

struct link *
link_new(int fd, const struct link_config *cf)
{
	struct link *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		abort();
	}
	l->cf = cf;
	l->cli = fd;
	l->sup = -1;
	l->budget = -1;
	l->ka.fd = -1;
	return l;
}

static void
close_supervisor(struct link *l)
{
	keepalive_stop(&l->ka);
	if (l->sup != -1) {
		(void)close(l->sup);
		l->sup = -1;
	}
}

void
link_free(struct link *l)
{
	if (l == NULL) {
		return;
	}
	close_supervisor(l);
	(void)close(l->cli);
	wire_free(&l->crx);
	wire_free(&l->srx);
	wire_free(&l->start);
	wire_free(&l->request);
	queue_clear(&l->up);
	queue_clear(&l->down);
	free(l);
}

const char *
link_name(const struct link *l)
{
	return l->name;
}

int
link_client(const struct link *l)
{
	return l->cli;
}

void
link_set_budget(struct link *l, int64_t bytes)
{
	l->budget = bytes;
	l->over = bytes == 0;
}

void
link_set_frozen(struct link *l, int frozen)
{
	l->frozen = frozen;
	if (!frozen) {		/* look at both again at once */
		l->up.wake_ns = 1;
		l->down.wake_ns = 1;
	}
}

int
link_take_request(struct link *l, enum wire_type *t, struct wire_buf *b)
{
	if (l->asked == 0) {
		return 0;
	}
	*t = l->asked;
	*b = l->request;
	memset(&l->request, 0, sizeof(l->request));
	l->asked = 0;
	return 1;
}

void
link_answer(struct link *l, enum wire_type t, const void *p, size_t n)
{
	queue_push(&l->down, t, p, n, 0);
	l->state = LINK_ENDING;
}

/* The last thing the CLI hears: a status name and a message. */
static void
fail(struct link *l, const char *code, const char *message)
{
	struct wire_buf b = {0};

	wire_put_str(&b, code);
	wire_put_str(&b, message);
	link_answer(l, WIRE_FAIL, b.p, b.len);
	wire_free(&b);
	close_supervisor(l);
}

/* No secret belongs into argv or env: the real log has this much of it. */
static void
log_command(const struct link *l, const struct wire_buf *cmd)
{
	size_t i;

	(void)fprintf(stderr, "exec %s command_len=%zu command_preview=",
	    l->name, cmd->len);
	for (i = 0; i < cmd->len && i < LINK_PREVIEW; i++) {
		(void)fputc(isprint(cmd->p[i]) ? cmd->p[i] : '?', stderr);
	}
	(void)fputc('\n', stderr);
}

/* The real one trims the string, and it is UTF-8 by then. */
static void
trim(struct wire_buf *cmd)
{
	size_t skip = 0;

	while (cmd->len > 0 && isspace(cmd->p[cmd->len - 1])) {
		cmd->len--;
	}
	while (skip < cmd->len && isspace(cmd->p[skip])) {
		skip++;
	}
	memmove(cmd->p, cmd->p + skip, cmd->len - skip);
	cmd->len -= skip;
	wire_put(cmd, "", 1);
}

static void
queue_input(struct link *l, const struct request *rq, int64_t now)
{
	size_t off = 0;

	while (off < rq->input_len) {
		size_t n = rq->input_len - off;

		n = n > WIRE_PIECE ? WIRE_PIECE : n;
		queue_push(&l->up, WIRE_DATA, rq->input + off, n, now);
		off += n;
	}
	if ((rq->flags & WIRE_F_INTERACTIVE) == 0) {
		queue_push(&l->up, WIRE_EOF, NULL, 0, now);
	}
}

static void
begin_exec(struct link *l, struct request *rq)
{
	int64_t now = wire_now_ns();
	struct wire_buf cmd = {0};
	char dir[STATE_PATH];
	struct state_sandbox sb;

	if (state_load(&sb, rq->name) == -1) {
		fail(l, "NotFound", "sandbox not found");
		return;
	}
	(void)snprintf(l->name, sizeof(l->name), "%s", sb.name);
	state_link_dir(dir, sb.name);
	l->sup = wire_connect(dir, "sock");
	if (l->sup == -1) {
		fail(l, "FailedPrecondition", "sandbox is not ready");
		return;
	}
	if (request_command(&cmd, rq) == -1) {
		fail(l, "InvalidArgument", "command construction failed: "
		    "assembled command string exceeds 262144 byte limit");
		wire_free(&cmd);
		return;
	}
	log_command(l, &cmd);
	trim(&cmd);
	wire_put_u32(&l->start, rq->flags);
	wire_put_u32(&l->start, rq->cols);
	wire_put_u32(&l->start, rq->rows);
	wire_put_bytes(&l->start, cmd.p, cmd.len);
	wire_free(&cmd);
	queue_input(l, rq, now);
	l->start_ns = now + l->cf->exec_ns;
	if (rq->timeout > 0) {
		l->timeout_ns = now + rq->timeout * NS_PER_S;
	}
	l->state = LINK_STARTING;
	queue_push(&l->down, WIRE_OK, NULL, 0, 0);
}

static void
take_exec(struct link *l, const uint8_t *p, size_t n)
{
	struct request rq;
	char why[128];
	const char *bad;
	size_t size;

	if (request_unpack(&rq, p, n) == -1) {
		l->over = 1;
		return;
	}
	size = request_size(&rq);
	if (size > REQUEST_MESSAGE_MAX) {
		(void)snprintf(why, sizeof(why), "Error, decoded message length "
		    "too large: found %zu bytes, the limit is: %d bytes", size,
		    REQUEST_MESSAGE_MAX);
		fail(l, "OutOfRange", why);
	} else if ((bad = request_check(&rq)) != NULL) {
		fail(l, "InvalidArgument", bad);
	} else {
		begin_exec(l, &rq);
	}
	request_free(&rq);
}

static void
take_lookup(struct link *l, const uint8_t *p, size_t n)
{
	struct wire_cur c = { p, n, 0 };
	const char *name = wire_get_str(&c);
	struct state_sandbox sb;
	const char *phase;
	char why[256];

	if (state_load(&sb, name) == -1) {
		fail(l, "NotFound", "sandbox not found");
		return;
	}
	phase = state_phase(name);
	if (strcmp(phase, "Ready") != 0) {
		(void)snprintf(why, sizeof(why), "sandbox '%s' is not ready "
		    "(phase: %s); wait for it to reach Ready state", name,
		    phase);
		fail(l, "", why);
		return;
	}
	(void)snprintf(l->name, sizeof(l->name), "%s", sb.name);
	queue_push(&l->down, WIRE_OK, NULL, 0, 0);
}

static void
from_client(struct link *l, enum wire_type t, const uint8_t *p, size_t n)
{
	if (l->state == LINK_CLIENT && t == WIRE_LOOKUP) {
		take_lookup(l, p, n);
	} else if (l->state == LINK_CLIENT && t == WIRE_EXEC) {
		take_exec(l, p, n);
	} else if (l->state == LINK_CLIENT) {
		l->state = LINK_ASKED;
		l->asked = t;
		wire_put(&l->request, p, n);
	} else if (t == WIRE_DATA || t == WIRE_RESIZE) {
		queue_push(&l->up, t, p, n, wire_now_ns());
	}
}

static void
from_supervisor(struct link *l, enum wire_type t, const uint8_t *p, size_t n)
{
	queue_push(&l->down, t, p, n, wire_now_ns());
	if (t == WIRE_EXIT) {
		l->state = LINK_ENDING;
		close_supervisor(l);
	}
}

/* 1 bytes came, 0 nothing now, -1 the peer is gone. */
static int
receive(int fd, struct wire_buf *rx)
{
	static uint8_t block[LINK_READ];
	ssize_t r = recv(fd, block, sizeof(block), MSG_DONTWAIT);

	if (r > 0) {
		wire_put(rx, block, (size_t)r);
		return 1;
	}
	return r < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static void
split(struct link *l, struct wire_buf *rx,
    void (*take)(struct link *, enum wire_type, const uint8_t *, size_t))
{
	size_t off = 0;
	enum wire_type t;
	size_t n;

	while (rx->len - off >= WIRE_HEAD && !l->over) {
		if (wire_head(rx->p + off, &t, &n) == -1) {
			l->over = 1;
			break;
		}
		if (rx->len - off < WIRE_HEAD + n) {
			break;
		}
		take(l, t, rx->p + off + WIRE_HEAD, n);
		off += WIRE_HEAD + n;
	}
	if (off > 0) {
		memmove(rx->p, rx->p + off, rx->len - off);
		rx->len -= off;
	}
}

static int
reads_client(const struct link *l)
{
	return !l->frozen && l->state != LINK_ENDING &&
	    l->up.bytes < l->cf->up_max;
}

static int
reads_supervisor(const struct link *l)
{
	return l->sup != -1 && !l->frozen && l->state == LINK_RUNNING &&
	    l->down.bytes < l->cf->down_max;
}

static int64_t
sooner(int64_t a, int64_t b)
{
	if (a == 0 || b == 0) {
		return a + b;
	}
	return a < b ? a : b;
}

/* A queue that was filled after its last send wants to run at once. */
static int64_t
queue_wake(const struct queue *q)
{
	return q->head != NULL && q->wake_ns == 0 ? 1 : q->wake_ns;
}

int64_t
link_poll(struct link *l, struct pollfd p[2])
{
	int64_t wake = sooner(l->timeout_ns, l->ka.next_ns);

	memset(p, 0, 2 * sizeof(*p));
	p[0].fd = l->cli;
	p[1].fd = l->sup;
	p[0].events = reads_client(l) ? POLLIN : 0;
	p[1].events = reads_supervisor(l) ? POLLIN : 0;
	/* A hang-up that nobody reads would be reported for ever. */
	if (p[1].events == 0 && !l->up.blocked) {
		p[1].fd = -1;
	}
	if (l->over) {
		return 1;
	}
	if (l->frozen) {
		return wake;
	}
	if (l->state == LINK_STARTING) {
		wake = sooner(wake, l->start_ns);
	} else if (l->up.blocked) {
		p[1].events |= POLLOUT;
	} else if (l->sup != -1) {
		wake = sooner(wake, queue_wake(&l->up));
	}
	if (l->down.blocked) {
		p[0].events |= POLLOUT;
	} else {
		wake = sooner(wake, queue_wake(&l->down));
	}
	return wake;
}

static void
check_clock(struct link *l, int64_t now)
{
	uint32_t code = 124;

	if (l->timeout_ns != 0 && now >= l->timeout_ns) {
		l->timeout_ns = 0;
		if (l->state == LINK_RUNNING || l->state == LINK_STARTING) {
			queue_push(&l->down, WIRE_EXIT, &code, sizeof(code),
			    now);
			l->state = LINK_ENDING;
			close_supervisor(l);
		}
	}
	if (l->state == LINK_STARTING && now >= l->start_ns && !l->frozen) {
		if (wire_send(l->sup, WIRE_START, l->start.p,
		    l->start.len) == -1) {
			fail(l, "Unavailable", "supervisor relay failed");
			return;
		}
		wire_free(&l->start);
		l->state = LINK_RUNNING;
		keepalive_heard(&l->ka, now, l->cf->keepalive_ns);
	}
	if (l->state == LINK_RUNNING && keepalive_tick(&l->ka, l->name, now,
	    l->cf->keepalive_ns) == -1) {
		fail(l, "Unavailable", relay_closed);
	}
}

static void
send_queues(struct link *l, int64_t now)
{
	static const struct queue_pace none;
	const struct queue_pace *pace = &l->cf->pace;
	int up_busy = queue_busy(&l->up, now);
	int down_busy = queue_busy(&l->down, now);
	int64_t *budget = l->budget >= 0 ? &l->budget : NULL;
	int r;

	if (l->state == LINK_RUNNING && l->up.head != NULL) {
		r = queue_send(&l->up, l->sup, pace, down_busy, budget);
		l->over |= r == 1;
		if (r == -1) {
			queue_clear(&l->up);
		}
	}
	if (l->over) {
		return;
	}
	if (l->state == LINK_CLIENT || l->state == LINK_ASKED) {
		pace = &none;
	}
	if (l->down.head != NULL &&
	    queue_send(&l->down, l->cli, pace, up_busy, budget) != 0) {
		l->over = 1;
	}
	if (l->state == LINK_ENDING && l->down.head == NULL) {
		l->over = 1;
	}
}

int
link_run(struct link *l, const struct pollfd p[2])
{
	int64_t now = wire_now_ns();
	int r;

	if (l->over || (p[0].revents & (POLLHUP | POLLERR)) != 0) {
		return 1;	/* the CLI is gone, and with it all it sent */
	}
	if ((p[0].revents & POLLIN) != 0) {
		if (receive(l->cli, &l->crx) == -1) {
			return 1;
		}
		split(l, &l->crx, from_client);
	}
	if (p[1].fd != -1 && l->sup != -1 &&
	    (p[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
		r = receive(l->sup, &l->srx);
		keepalive_heard(&l->ka, now, l->cf->keepalive_ns);
		split(l, &l->srx, from_supervisor);
		if (r == -1 && l->sup != -1) {
			fail(l, "Unavailable", relay_closed);
		}
	}
	if (l->over) {
		return 1;
	}
	check_clock(l, now);
	if (!l->frozen) {
		send_queues(l, now);
	}
	return l->over;
}
