/* SPDX-License-Identifier: MIT */
/*
 * fuzz_host_handover.c - what a hostile controller hands over: everything
 * that a successor reads before it believes a word of it.
 *
 * The first byte chooses the descriptors and where they come along, the rest
 * is what the other one says until it hangs up.  The same bytes, as LIVE and
 * as an answer, then go to the other readers.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_input.h"
#include "handover.h"
#include "log.h"
#include "target_link.h"

#define SAID_MAX 65536u			/* fits into a socket at once */
#define FDS_MOST 5u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/sandmux-fuzz-XXXXXX";
static struct listener listener;

static void
tidy(void)
{
	char lock[PATHS_MAX];
	struct error error;

	CHECK(paths_join(lock, sizeof(lock), dir, PATHS_LOCK, &error) == 0);
	unlink(lock);
	listener_close(&listener);
	rmdir(dir);
}

static void
begin(void)
{
	static bool begun;
	struct error error;

	if (begun) {
		return;
	}
	begun = true;
	CHECK(seal_init() == 0);
	CHECK(mkdtemp(dir) != NULL);
	CHECK(listener_open(&listener, dir, &error) == 1);
	CHECK(log_open("/dev/null", LOG_ERROR) == 0);
	atexit(tidy);
}

static int
lowest(void)
{
	int fd = dup(STDERR_FILENO);

	close(fd);
	return fd;
}

static void
put(int fd, const uint8_t *data, size_t len, const int *fds, unsigned count)
{
	union {
		char buf[CMSG_SPACE(FDS_MOST * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { (void *)(uintptr_t)data, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (len == 0) {
		return;
	}
	if (count > 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	CHECK(sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)len);
}

/* Two ends; all is said, with descriptors as the first byte wants them. */
static void
say(uint8_t how, const uint8_t *data, size_t size, int ends[2])
{
	const int ours[2] = { listener.lock, listener.fd };
	int fds[FDS_MOST] = { 0 };
	size_t at = how >> 5 == 0 && size >= 4 ? 4 +
	    (size_t)data[2] * 256 + data[3] : (size_t)(how >> 5) * 9;
	unsigned count = how % (FDS_MOST + 1), i;

	for (i = 0; i < count; i++) {
		fds[i] = i < 2 ? ours[i ^ (how >> 3 & 1)] : STDERR_FILENO;
	}
	if ((how >> 4 & 1) != 0) {
		fds[1] = STDERR_FILENO;
	}
	at = at < size ? at : size;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	put(ends[1], data, at, NULL, 0);
	put(ends[1], data + at, size - at, fds, count);
	shutdown(ends[1], SHUT_WR);
}

static void
close_both(int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

/* No link is made: the controller is full, or what it has is no session. */
static void
adopt(const struct wire_live *live)
{
	struct controller_options options = { .directory = dir };
	struct hub hub = { .options = &options, .link_count = HUB_LINKS };
	struct error error = { .step = WIRE_STEP_NONE };

	/* A bare name's record is in a directory that the other one names. */
	if (live->target.len == 0 ||
	    (memchr(live->target.at, ':', live->target.len) == NULL &&
	    (live->target.len != 5 ||
	    memcmp(live->target.at, "local", 5) != 0))) {
		return;
	}
	list_init(&hub.links);
	list_init(&hub.peers);
	CHECK(target_link_adopt(&hub, live, &error) == -1);
	CHECK(error.step != WIRE_STEP_NONE && list_empty(&hub.links));
}

static void
successor(uint8_t how, const uint8_t *data, size_t size)
{
	struct handover h;
	struct error error = { .step = WIRE_STEP_USAGE };
	struct wire msg;
	unsigned i;
	int ends[2], rc;

	say(how, data, size, ends);
	rc = handover_receive(ends[0], dir, (how & 64) != 0 ? 7 : 0, &h,
	    &error);
	close_both(ends);
	if (rc < 0) {
		CHECK(error.step != WIRE_STEP_USAGE && error.text[0] != '\0');
		CHECK(h.count == 0 && h.lock == -1 && h.fd == -1);
		return;
	}
	CHECK(h.count <= HUB_LINKS);
	CHECK(listener_fits(dir, h.lock, h.fd));
	for (i = 0; i < h.count; i++) {
		CHECK(wire_decode(h.frames[i], h.lens[i], &msg) == WIRE_OK);
		CHECK(msg.type == WIRE_LIVE);
		adopt(&msg.u.live);
	}
	handover_free(&h);
}

static void
predecessor(uint8_t how, const uint8_t *data, size_t size)
{
	struct controller_options options = { .directory = dir };
	struct hub hub = { .options = &options };
	struct error error;
	ino_t ino = listener.ino;
	int ends[2];

	list_init(&hub.links);
	list_init(&hub.peers);
	say(how, data, size, ends);
	if (handover_give(&hub, &listener, ends[0], &error) == 0) {
		CHECK(listener.ino == 0);
		listener.ino = ino;
	}
	CHECK(listener.ino == ino);
	close_both(ends);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int before;

	begin();
	if (size == 0 || size > SAID_MAX) {
		return 0;
	}
	before = lowest();
	successor(data[0], data + 1, size - 1);
	CHECK(lowest() == before);
	predecessor(data[0], data + 1, size - 1);
	CHECK(lowest() == before);
	return 0;
}
