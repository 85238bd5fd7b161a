/* SPDX-License-Identifier: MIT */
/*
 * test_host_handover.c - controllers that hand over, each against a hostile
 * other: what is cut short, too long, miscounted or no descriptor of a
 * controller's is refused, and then nothing of it is kept or left open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handover.h"
#include "items.h"
#include "link.h"
#include "log.h"
#include "target_link.h"

#define FDS_MOST 6

static char dir[] = "/tmp/sandmux-handover-XXXXXX";
static struct listener listener;
static char session_id[LINK_SESSION + 1];
static const uint8_t secret[SEAL_KEY] = { 1, 2, 3 };

/* What the other side will have said, all of it before we listen. */
struct script {
	uint8_t bytes[16384];
	size_t len, fds_at;		/* where the descriptors come along */
	int fds[FDS_MOST];
	unsigned fd_count;
};

static void
say(struct script *s, const struct wire *msg)
{
	size_t len;

	assert_int_equal(wire_encode(msg, s->bytes + s->len + 4,
	    sizeof(s->bytes) - s->len - 4, &len), WIRE_OK);
	s->bytes[s->len] = s->bytes[s->len + 1] = 0;
	s->bytes[s->len + 2] = (uint8_t)(len >> 8);
	s->bytes[s->len + 3] = (uint8_t)len;
	s->len += 4 + len;
}

static void
say_welcome(struct script *s, uint32_t pid, uint32_t busy)
{
	const struct wire msg = { .type = WIRE_WELCOME, .u.welcome = {
		.version = 1, .pid = pid, .busy = busy,
		.program = wire_string("0.0.1") } };

	say(s, &msg);
	s->fds_at = s->len;
}

static void
say_handover(struct script *s, uint32_t count)
{
	const struct wire msg = { .type = WIRE_HANDOVER,
	    .u.handover = { count } };

	say(s, &msg);
}

static struct wire
live(const char *target)
{
	static const uint8_t none[4];

	return (struct wire){ .type = WIRE_LIVE, .u.live = {
		.number = 3, .session = wire_string(session_id),
		.secret = { secret, SEAL_KEY },
		.target = wire_string(target), .place = wire_string("id"),
		.env = { 0, { none, 0 } } } };
}

static void
say_live(struct script *s)
{
	struct wire msg = live("local");

	say(s, &msg);
}

/* A controller 7 that hands two sessions over. */
static struct script
script_new(void)
{
	struct script s = { .fds = { listener.lock, listener.fd },
	    .fd_count = 2 };

	say_welcome(&s, 7, 0);
	say_handover(&s, 2);
	say_live(&s);
	say_live(&s);
	return s;
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
	assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), len);
}

/* The two ends: ours, and the other's with all that it says and an end. */
static void
perform(const struct script *s, int ends[2])
{
	size_t at = s->fds_at < s->len ? s->fds_at : s->len;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
	    ends), 0);
	put(ends[1], s->bytes, at, NULL, 0);
	put(ends[1], s->bytes + at, s->len - at, s->fds, s->fd_count);
	shutdown(ends[1], SHUT_WR);
}

/* The lowest number that is free: the same again if nothing leaked. */
static int
lowest(void)
{
	int fd = dup(STDIN_FILENO);

	close(fd);
	return fd;
}

static int
receive(const struct script *s, struct handover *h, struct error *error)
{
	int ends[2], rc;

	perform(s, ends);
	rc = handover_receive(ends[0], dir, 7, h, error);
	close(ends[0]);
	close(ends[1]);
	return rc;
}

static void
refused(const struct script *s, const char *word)
{
	struct handover h;
	struct error error = { .step = WIRE_STEP_NONE };
	int free_fd = lowest();

	assert_int_equal(receive(s, &h, &error), -1);
	assert_non_null(strstr(error.text, word));
	assert_int_equal(h.count, 0);
	assert_int_equal(h.lock, -1);
	assert_int_equal(h.fd, -1);
	assert_int_equal(lowest(), free_fd);
}

static void
taken(const struct script *s, unsigned count)
{
	struct handover h;
	struct error error = { .step = WIRE_STEP_NONE };
	int free_fd = lowest();

	assert_int_equal(receive(s, &h, &error), 0);
	assert_int_equal(h.count, count);
	assert_int_not_equal(h.lock, -1);
	assert_int_not_equal(h.fd, -1);
	assert_true(fcntl(h.lock, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(h.fd, F_GETFD) & FD_CLOEXEC);
	handover_free(&h);
	assert_int_equal(h.count, 0);
	handover_free(&h);
	assert_int_equal(lowest(), free_fd);
}

/* ---- the one that comes -------------------------------------------------- */

static void
all_of_it_is_taken(void **state)
{
	struct script s = script_new(), none = { .fds = { listener.lock,
	    listener.fd }, .fd_count = 2 };

	(void)state;
	taken(&s, 2);
	say_welcome(&none, 7, 0);
	say_handover(&none, 0);
	taken(&none, 0);
	/* What comes behind was not announced: nobody reads it. */
	say_live(&none);
	taken(&none, 0);
}

static void
it_answers_when_it_has_all(void **state)
{
	struct script s = script_new();
	struct wire msg;
	struct handover h;
	struct error error;
	uint8_t said[4096];
	size_t first;
	ssize_t n;
	int ends[2];

	(void)state;
	perform(&s, ends);
	assert_int_equal(handover_receive(ends[0], dir, 0, &h, &error), 0);
	n = read(ends[1], said, sizeof(said));
	first = (size_t)said[2] << 8 | said[3];
	assert_int_equal(wire_decode(said + 4, first, &msg), WIRE_OK);
	assert_int_equal(msg.type, WIRE_HELLO);
	assert_int_equal(msg.u.hello.flags, WIRE_HELLO_STOP_IF_IDLE |
	    WIRE_HELLO_HAND_OVER);
	assert_int_equal(n, 4 + first + 4 + 5);
	assert_int_equal(wire_decode(said + first + 8, 5, &msg), WIRE_OK);
	assert_int_equal(msg.type, WIRE_HANDOVER);
	assert_int_equal(msg.u.handover.count, 2);
	handover_free(&h);
	close(ends[0]);
	close(ends[1]);
}

static void
it_ends_at_any_byte(void **state)
{
	struct script s = script_new();
	size_t all = s.len, welcome = s.fds_at;

	(void)state;
	for (s.len = 0; s.len < all; s.len++) {
		refused(&s, s.len < welcome ? "hangs up" : "nothing over");
	}
}

static void
not_now_or_not_that_one(void **state)
{
	struct script s = { .fd_count = 0 };

	(void)state;
	say_welcome(&s, 7, 3);
	refused(&s, "3 requests " HANDOVER_BUSY);
	s.len = 0;
	say_welcome(&s, 8, 0);
	refused(&s, "another controller");
	s.len = 0;
	say_handover(&s, 0);
	s.fds_at = s.len;
	refused(&s, "hangs up");
}

/* Nothing is allocated for it, and nothing is waited for. */
static void
lengths_that_cannot_be(void **state)
{
	static const uint32_t lengths[] = { 0, WIRE_FRAME_MAX + 1,
	    0x7fffffff, 0x80000000, 0xffffffff };
	struct script s;
	size_t i, k, at[3];

	(void)state;
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		s = script_new();
		at[0] = 0;
		at[1] = s.fds_at;
		at[2] = s.fds_at + 9;
		for (k = 0; k < 3; k++) {
			s = script_new();
			s.bytes[at[k]] = (uint8_t)(lengths[i] >> 24);
			s.bytes[at[k] + 1] = (uint8_t)(lengths[i] >> 16);
			s.bytes[at[k] + 2] = (uint8_t)(lengths[i] >> 8);
			s.bytes[at[k] + 3] = (uint8_t)lengths[i];
			refused(&s, k == 0 ? "hangs up" : "nothing over");
		}
	}
}

static void
counts_that_are_wrong(void **state)
{
	static const uint32_t counts[] = { 3, HUB_LINKS, HUB_LINKS + 1,
	    0xffffffff };
	struct script s;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		s = (struct script){ .fds = { listener.lock, listener.fd },
		    .fd_count = 2 };
		say_welcome(&s, 7, 0);
		say_handover(&s, counts[i]);
		say_live(&s);
		say_live(&s);
		refused(&s, "nothing over");
	}
}

static void
messages_out_of_place(void **state)
{
	struct script s = { .fds = { listener.lock, listener.fd },
	    .fd_count = 2 };
	size_t before;

	(void)state;
	say_welcome(&s, 7, 0);
	before = s.len;
	say_live(&s);
	refused(&s, "nothing over");
	s.len = before;
	say_welcome(&s, 7, 0);
	s.fds_at = before;
	refused(&s, "nothing over");
	s.len = before;
	say_handover(&s, 2);
	say_live(&s);
	say_handover(&s, 2);
	refused(&s, "nothing over");
	/* A LIVE that does not decode. */
	s = script_new();
	s.bytes[s.fds_at + 9 + 4] = 250;
	refused(&s, "nothing over");
}

static void
descriptors_that_are_wrong(void **state)
{
	char path[PATHS_MAX + 32];
	int pipes[2], pair[2], other, again, quiet;
	struct script s = script_new();
	size_t i;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	quiet = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(path, sizeof(path), "%s/other", dir);
	other = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	/* The right file, and not the description that is locked. */
	snprintf(path, sizeof(path), "%s/%s", dir, PATHS_LOCK);
	again = open(path, O_RDWR);
	const int wrong[][2] = {
		{ listener.fd, listener.lock },
		{ listener.lock, listener.lock },
		{ listener.fd, listener.fd },
		{ listener.lock, pipes[0] }, { listener.lock, pair[0] },
		{ listener.lock, quiet }, { listener.lock, other },
		{ other, listener.fd }, { again, listener.fd },
		{ pipes[1], listener.fd }, { pair[1], pair[0] },
	};
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(s.fds, wrong[i], sizeof(wrong[i]));
		refused(&s, "nothing over");
	}
	for (i = 0; i < 2; i++) {
		close(pipes[i]);
		close(pair[i]);
	}
	close(other);
	close(again);
	close(quiet);
}

static void
descriptors_miscounted(void **state)
{
	struct script s = script_new();
	size_t handover = s.fds_at;

	(void)state;
	s.fd_count = 0;
	refused(&s, "nothing over");
	s.fd_count = 1;
	refused(&s, "nothing over");
	/* More than two: those two, and the rest is closed. */
	s = script_new();
	for (s.fd_count = 3; s.fd_count <= FDS_MOST; s.fd_count++) {
		s.fds[s.fd_count - 1] = STDIN_FILENO;
		taken(&s, 2);
	}
	/* Elsewhere nobody wants any. */
	s = script_new();
	s.fds_at = 0;
	refused(&s, "nothing over");
	s.fds_at = handover + 9;
	refused(&s, "nothing over");
}

/* ---- a session of the other one's ------------------------------------------ */

static void
sessions_that_cannot_be(void **state)
{
	struct controller_options options = { .directory = dir };
	struct hub hub = { .options = &options, .link_count = HUB_LINKS };
	struct error error;
	struct wire msg;
	char text[512];

	(void)state;
	list_init(&hub.links);
	list_init(&hub.peers);
#define REFUSED(field, value, word) do { \
		msg = live("local"); \
		msg.u.live.field = (value); \
		assert_int_equal(target_link_adopt(&hub, &msg.u.live, \
		    &error), -1); \
		assert_non_null(strstr(error.text, word)); \
	} while (0)
	memset(text, 'x', sizeof(text));
	REFUSED(number, 0, "cannot be read");
	REFUSED(secret, wire_string("short"), "cannot be read");
	REFUSED(session, wire_string(""), "cannot be read");
	REFUSED(session, wire_string("0123456789abcdef0123456789abcdeg"),
	    "cannot be read");
	REFUSED(place, ((struct wire_bytes){ (uint8_t *)text, 512 }),
	    "cannot be read");
	REFUSED(place, ((struct wire_bytes){ (const uint8_t *)"a\0b", 3 }),
	    "cannot be read");
	REFUSED(target, wire_string(""), "needs a target");
	REFUSED(target, ((struct wire_bytes){ (const uint8_t *)"local\0", 6 }),
	    "NUL");
	REFUSED(target, ((struct wire_bytes){ (uint8_t *)text, 512 }),
	    "512 bytes");
	REFUSED(target, wire_string("nowhere:x"), "nowhere");
	/* A bare name whose record nobody can find. */
	REFUSED(target, wire_string("bare"), "XDG_STATE_HOME");
	/* All in order, and no room. */
	REFUSED(number, 4, "local: no room");
	assert_true(list_empty(&hub.links));
#undef REFUSED
}

/* ---- the one that goes ------------------------------------------------------- */

static int
give(const struct script *s, struct error *error)
{
	struct controller_options options = { .directory = dir };
	struct hub hub = { .options = &options };
	int ends[2], rc;

	list_init(&hub.links);
	list_init(&hub.peers);
	perform(s, ends);
	rc = handover_give(&hub, &listener, ends[0], error);
	close(ends[0]);
	close(ends[1]);
	return rc;
}

static void
kept(const struct script *s)
{
	struct error error = { .step = WIRE_STEP_NONE };
	ino_t ino = listener.ino;
	int free_fd = lowest();

	assert_int_not_equal(ino, 0);
	assert_int_equal(give(s, &error), -1);
	assert_int_equal(error.step, WIRE_STEP_PROTOCOL);
	assert_int_equal(listener.ino, ino);
	assert_int_equal(lowest(), free_fd);
}

static void
what_is_no_answer(void **state)
{
	struct script s = { .fds = { 0, 0, 0 }, .fd_count = 0 }, good;
	struct error error;
	ino_t ino = listener.ino;
	size_t all;

	(void)state;
	say_handover(&s, 0);
	good = s;
	all = s.len;
	for (s.len = 0; s.len < all; s.len++) {
		kept(&s);
	}
	/* Another count than the one that was given. */
	s.len = 0;
	say_handover(&s, 1);
	kept(&s);
	s.len = 0;
	say_welcome(&s, 7, 0);
	s.fds_at = 0;
	kept(&s);
	s.len = 0;
	say_live(&s);
	kept(&s);
	s = good;
	memset(s.bytes, 0xff, 4);
	kept(&s);
	/* Descriptors are not asked for; with the answer they are closed. */
	s = good;
	s.fd_count = 3;
	all = (size_t)lowest();
	assert_int_equal(give(&s, &error), 0);
	assert_int_equal(lowest(), all);
	assert_int_equal(listener.ino, 0);
	listener.ino = ino;
}

static int
setup(void **state)
{
	struct error error;
	uint8_t raw[LINK_SESSION / 2] = { 0xab };
	char path[PATHS_MAX];

	(void)state;
	if (seal_init() < 0 || mkdtemp(dir) == NULL ||
	    listener_open(&listener, dir, &error) != 1) {
		return -1;
	}
	seal_hex(raw, sizeof(raw), session_id);
	snprintf(path, sizeof(path), "%s/log", dir);
	return log_open(path, LOG_ERROR);
}

static int
teardown(void **state)
{
	static const char *const names[] = { "lock", "log", "other" };
	char path[PATHS_MAX];
	size_t i;

	(void)state;
	listener_close(&listener);
	log_close();
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it_is_taken),
		cmocka_unit_test(it_answers_when_it_has_all),
		cmocka_unit_test(it_ends_at_any_byte),
		cmocka_unit_test(not_now_or_not_that_one),
		cmocka_unit_test(lengths_that_cannot_be),
		cmocka_unit_test(counts_that_are_wrong),
		cmocka_unit_test(messages_out_of_place),
		cmocka_unit_test(descriptors_that_are_wrong),
		cmocka_unit_test(descriptors_miscounted),
		cmocka_unit_test(sessions_that_cannot_be),
		cmocka_unit_test(what_is_no_answer),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
