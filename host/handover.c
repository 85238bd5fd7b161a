/* SPDX-License-Identifier: MIT */
/* handover.c - lock, socket and sessions go to another controller. */
#include "handover.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "launch.h"
#include "log.h"
#include "system.h"
#include "target_link.h"
#include "version.h"

#define LENGTH 4u
#define FDS 2u

/* ---- frames, blocking ---------------------------------------------------- */

static uint64_t
within(unsigned ms)
{
	return clock_now() + ms * (uint64_t)CLOCK_MS;
}

static int
wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	do {
		n = poll(&p, 1, clock_poll_ms(clock_now(), deadline));
	} while (n < 0 && errno == EINTR);
	if (n == 0) {
		errno = ETIMEDOUT;
	}
	return n > 0 ? 0 : -1;
}

/* All of it, the descriptors with its first byte. */
static int
send_all(int fd, const uint8_t *data, size_t len, const int fds[FDS],
    uint64_t deadline)
{
	union {
		char buf[CMSG_SPACE(FDS * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct cmsghdr *c;
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (fds != NULL) {
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(FDS * sizeof(int));
		memcpy(CMSG_DATA(c), fds, FDS * sizeof(int));
	}
	while (len > 0) {
		if (wait_for(fd, POLLOUT, deadline) < 0) {
			return -1;
		}
		iov = (struct iovec){ (void *)(uintptr_t)data, len };
		n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			return -1;
		}
		if (n > 0) {
			data += n;
			len -= (size_t)n;
			msg.msg_control = NULL;
			msg.msg_controllen = 0;
		}
	}
	return 0;
}

static int
send_message(int fd, const struct wire *msg, const int fds[FDS],
    uint64_t deadline)
{
	size_t size = wire_size(msg), len;
	uint8_t *frame = malloc(LENGTH + size);
	int rc = -1;

	if (frame != NULL && wire_encode(msg, frame + LENGTH, size, &len) ==
	    WIRE_OK) {
		frame[0] = (uint8_t)(len >> 24);
		frame[1] = (uint8_t)(len >> 16);
		frame[2] = (uint8_t)(len >> 8);
		frame[3] = (uint8_t)len;
		rc = send_all(fd, frame, LENGTH + len, fds, deadline);
		explicit_bzero(frame, LENGTH + size);
	}
	free(frame);
	return rc;
}

/* Descriptors that come along go into fds where those are still -1. */
static int
receive_all(int fd, uint8_t *data, size_t len, int fds[FDS],
    uint64_t deadline)
{
	union {
		char buf[CMSG_SPACE(FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	int got[FDS];
	size_t i, n;
	ssize_t rc;

	while (len > 0) {
		if (wait_for(fd, POLLIN, deadline) < 0) {
			return -1;
		}
		iov = (struct iovec){ data, len };
		msg.msg_control = control.buf;
		msg.msg_controllen = sizeof(control.buf);
		rc = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (rc < 0 && (errno == EAGAIN || errno == EINTR)) {
			continue;
		}
		if (rc <= 0) {
			errno = rc == 0 ? ECONNRESET : errno;
			return -1;
		}
		data += rc;
		len -= (size_t)rc;
		c = CMSG_FIRSTHDR(&msg);
		n = c == NULL || c->cmsg_level != SOL_SOCKET ||
		    c->cmsg_type != SCM_RIGHTS ? 0 :
		    (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n && i < FDS; i++) {
			memcpy(&got[i], CMSG_DATA(c) + i * sizeof(int),
			    sizeof(int));
			if (fds != NULL && fds[i] == -1) {
				fds[i] = got[i];
			} else {
				close(got[i]);
			}
		}
	}
	return 0;
}

/* One message; what it borrows is *frame, malloc, the caller's. */
static int
receive_message(int fd, struct wire *msg, uint8_t **frame, size_t *len,
    int fds[FDS], uint64_t deadline)
{
	uint8_t head[LENGTH];

	*frame = NULL;
	if (receive_all(fd, head, LENGTH, fds, deadline) < 0) {
		return -1;
	}
	*len = (size_t)head[0] << 24 | (size_t)head[1] << 16 |
	    (size_t)head[2] << 8 | head[3];
	errno = EPROTO;
	if (*len == 0 || *len > WIRE_FRAME_MAX ||
	    (*frame = malloc(*len)) == NULL) {
		return -1;
	}
	if (receive_all(fd, *frame, *len, fds, deadline) < 0) {
		return -1;
	}
	errno = EPROTO;
	return wire_decode(*frame, *len, msg) == WIRE_OK ? 0 : -1;
}

/* ---- the one that goes ----------------------------------------------------- */

unsigned
handover_held(const struct hub *hub)
{
	const struct list *l;
	unsigned held = 0;

	for (l = hub->links.next; l != &hub->links; l = l->next) {
		const struct target_link *link = LIST_OF(l,
		    const struct target_link, link);

		held += !target_link_can_go(link) && (target_link_left(link) ||
		    (target_link_takes(link) && target_link_prized(link)));
	}
	return held;
}

unsigned
handover_unsettled(const struct hub *hub)
{
	const struct list *l;
	unsigned unsettled = 0;

	for (l = hub->links.next; l != &hub->links; l = l->next) {
		const struct target_link *link = LIST_OF(l,
		    const struct target_link, link);

		unsettled += target_link_takes(link) &&
		    !target_link_can_go(link);
	}
	return unsettled;
}

static int
give_all(struct hub *hub, const int fds[FDS], int fd, uint64_t deadline)
{
	struct wire msg = { .type = WIRE_HANDOVER };
	uint8_t secret[SEAL_KEY], *frame;
	struct list *l;
	uint32_t count;
	size_t len;
	int rc;

	for (l = hub->links.next; l != &hub->links; l = l->next) {
		msg.u.handover.count += target_link_can_go(LIST_OF(l,
		    struct target_link, link));
	}
	count = msg.u.handover.count;
	rc = send_message(fd, &msg, fds, deadline);
	for (l = hub->links.next; rc == 0 && l != &hub->links; l = l->next) {
		struct target_link *link = LIST_OF(l, struct target_link,
		    link);
		struct wire live = { .type = WIRE_LIVE };

		if (target_link_can_go(link)) {
			target_link_describe(link, &live.u.live, secret);
			rc = send_message(fd, &live, NULL, deadline);
			target_link_undescribe(&live.u.live);
			explicit_bzero(secret, sizeof(secret));
		}
	}
	if (rc == 0) {
		rc = receive_message(fd, &msg, &frame, &len, NULL, deadline);
		free(frame);
		if (rc == 0 && (msg.type != WIRE_HANDOVER ||
		    msg.u.handover.count != count)) {
			errno = EPROTO;
			rc = -1;
		}
	}
	return rc;
}

int
handover_give(struct hub *hub, struct listener *listener, int fd,
    struct error *error)
{
	uint64_t deadline = within(HANDOVER_MS);
	const int fds[FDS] = { listener->lock, listener->fd };
	struct list *l;

	if (give_all(hub, fds, fd, deadline) < 0) {
		error_set(error, WIRE_STEP_PROTOCOL, errno, "the handover");
		return -1;
	}
	for (l = hub->links.next; l != &hub->links; l = l->next) {
		struct target_link *link = LIST_OF(l, struct target_link,
		    link);

		if (target_link_can_go(link)) {
			target_link_let_go(link);
		}
	}
	/* The socket and its name are the other one's. */
	listener->ino = 0;
	return 0;
}

/* ---- the one that comes ------------------------------------------------------ */

static int
say_hello(int fd, uint64_t deadline)
{
	struct wire hello = { .type = WIRE_HELLO, .u.hello = {
		.min = WIRE_VERSION_MIN, .max = WIRE_VERSION_MAX,
		.flags = WIRE_HELLO_STOP_IF_IDLE | WIRE_HELLO_HAND_OVER,
		.program = wire_string(SANDMUX_VERSION)
	} };
	static const uint8_t none[4];

	hello.u.hello.env = (struct wire_list){ 0, { none, 0 } };
	return send_message(fd, &hello, NULL, deadline);
}

/* Whether WELCOME lets us go on; *error says why not. */
static int
hear_welcome(int fd, pid_t from, uint64_t deadline, struct error *error)
{
	struct wire msg = { 0 };
	uint8_t *frame;
	size_t len;
	int rc = receive_message(fd, &msg, &frame, &len, NULL, deadline);

	if (rc < 0 || msg.type != WIRE_WELCOME) {
		error_set(error, WIRE_STEP_NONE, errno, "the controller there "
		    "hangs up");
		rc = -1;
	} else if (from != 0 && msg.u.welcome.pid != (uint32_t)from) {
		error_set(error, WIRE_STEP_START, 0, "another controller is "
		    "there by now");
		rc = -1;
	} else if (msg.u.welcome.busy > 0) {
		error_set(error, WIRE_STEP_START, 0, "it has %u request%s "
		    HANDOVER_BUSY "; wait for the end",
		    (unsigned)msg.u.welcome.busy,
		    msg.u.welcome.busy == 1 ? "" : "s");
		rc = -1;
	}
	free(frame);
	return rc;
}

void
handover_free(struct handover *h)
{
	int saved = errno;

	while (h->count > 0) {
		h->count--;
		explicit_bzero(h->frames[h->count], h->lens[h->count]);
		free(h->frames[h->count]);
	}
	if (h->lock != -1) {
		close(h->lock);
	}
	if (h->fd != -1) {
		close(h->fd);
	}
	h->lock = h->fd = -1;
	errno = saved;
}

/* One LIVE; what else came instead is gone. */
static int
take_one(int fd, struct handover *h, uint64_t deadline)
{
	struct wire live;
	uint8_t *frame;
	size_t len;
	int rc = receive_message(fd, &live, &frame, &len, NULL, deadline);

	if (rc == 0 && live.type == WIRE_LIVE) {
		h->frames[h->count] = frame;
		h->lens[h->count++] = len;
		return 0;
	}
	if (frame != NULL) {
		explicit_bzero(frame, len);
		free(frame);
	}
	errno = rc == 0 ? EPROTO : errno;
	return -1;
}

static int
take_all(int fd, const char *directory, struct handover *h,
    uint64_t deadline)
{
	struct wire msg;
	uint8_t *frame;
	int fds[FDS] = { -1, -1 };
	size_t len;
	uint32_t i;
	int rc;

	rc = receive_message(fd, &msg, &frame, &len, fds, deadline);
	free(frame);
	h->lock = fds[0];
	h->fd = fds[1];
	if (rc < 0) {
		return -1;
	}
	errno = EPROTO;
	if (msg.type != WIRE_HANDOVER || msg.u.handover.count > HUB_LINKS ||
	    !listener_fits(directory, h->lock, h->fd)) {
		return -1;
	}
	for (i = 0; i < msg.u.handover.count; i++) {
		if (take_one(fd, h, deadline) < 0) {
			return -1;
		}
	}
	return send_message(fd, &msg, NULL, deadline);
}

int
handover_receive(int fd, const char *directory, pid_t from,
    struct handover *h, struct error *error)
{
	*h = (struct handover){ .lock = -1, .fd = -1 };
	if (say_hello(fd, within(HANDOVER_MS)) < 0) {
		error_set(error, WIRE_STEP_NONE, errno, "the controller "
		    "there does not listen");
		return -1;
	}
	if (hear_welcome(fd, from, within(HANDOVER_DRAIN_MS + HANDOVER_MS),
	    error) < 0) {
		return -1;
	}
	if (take_all(fd, directory, h, within(HANDOVER_MS)) < 0) {
		/* One that does not know how has ended all and goes. */
		error_set(error, WIRE_STEP_NONE, errno, "the controller "
		    "there hands nothing over");
		handover_free(h);
		return -1;
	}
	return 0;
}

int
handover_take(const char *directory, pid_t from, struct handover *h,
    struct error *error)
{
	int fd = launch_connect(directory, error), rc;
	uid_t uid;
	pid_t pid;

	*h = (struct handover){ .lock = -1, .fd = -1 };
	if (fd < 0) {
		return -1;
	}
	/* Two that come at once must not take turns. */
	if (from != 0 && system_peer(fd, &uid, &pid) == 0 && pid != from) {
		error_set(error, WIRE_STEP_START, 0, "another controller is "
		    "there by now");
		close(fd);
		return -1;
	}
	rc = handover_receive(fd, directory, from, h, error);
	close(fd);
	return rc;
}

void
handover_adopt(struct hub *hub, struct handover *h)
{
	struct wire msg;
	struct error error;
	unsigned i;

	for (i = 0; i < h->count; i++) {
		if (wire_decode(h->frames[i], h->lens[i], &msg) != WIRE_OK) {
			continue;
		}
		if (target_link_adopt(hub, &msg.u.live, &error) < 0) {
			log_write(LOG_ERROR, "a session that was handed over "
			    "is lost: %s", error.text);
		}
	}
	log_write(LOG_NOTE, "took %u session%s over", h->count,
	    h->count == 1 ? "" : "s");
	h->lock = h->fd = -1;		/* the listener's */
	handover_free(h);
}
