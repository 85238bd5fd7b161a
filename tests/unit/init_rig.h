/* SPDX-License-Identifier: MIT */
/*
 * init_rig.h - a job's init in a process of its own, and the test as its core.
 *
 * Include after cmocka.h.  What is started ends by rig_end() or, if the test
 * fails before, with the test: its end of the socket is the core's.
 */
#ifndef INIT_RIG_H
#define INIT_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init.h"

#define RIG_MS 20000			/* for anything; never a measure */

struct init_rig {
	int fd;				/* our socket to it */
	pid_t pid;
	struct init_msg msg;		/* the last one heard */
	char text[INIT_TEXT + 1];
	int fds[3];			/* with INIT_START; owned */
	unsigned files;
};

/* A list of words; its bytes are in raw. */
static inline struct wire_list
rig_list(uint8_t *raw, const char *const *words)
{
	struct wire_list list = { 0, { raw, 0 } };
	size_t n;

	for (; words != NULL && *words != NULL; words++, list.count++) {
		n = strlen(*words);
		memcpy(raw + list.raw.len, (uint8_t[4]){ 0, 0,
		    (uint8_t)(n >> 8), (uint8_t)n }, 4);
		memcpy(raw + list.raw.len + 4, *words, n);
		list.raw.len += 4 + (uint32_t)n;
	}
	return list;
}

/* EXEC's body in buf[4096]: exec, and argv in place of its own. */
static inline uint32_t
rig_body(uint8_t *buf, struct wire_exec exec, const char *const *argv)
{
	struct wire msg = { .type = WIRE_EXEC };
	uint8_t raw[2048];
	size_t len;

	exec.argv = rig_list(raw, argv);
	msg.u.exec = exec;
	assert_int_equal(wire_encode(&msg, buf, 4096, &len), WIRE_OK);
	return (uint32_t)len;
}

/* before, if any, is the last that runs before the init. */
static inline void
rig_start(struct init_rig *rig, const uint8_t *body, uint32_t len,
    int terminal, void (*before)(void))
{
	static const struct agent_start start;
	int pair[2];

	memset(rig, 0, sizeof(*rig));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
	    pair), 0);
	if (body != NULL) {
		assert_int_equal(send(pair[0], "", 1, 0), 1);
	}
	rig->fd = pair[0];
	rig->pid = fork();
	assert_true(rig->pid >= 0);
	if (rig->pid == 0) {
		if (before != NULL) {
			before();
		}
		init_run(pair[1], terminal, body, len, &start);
	}
	close(pair[1]);
}

/* One message; false at the socket's end, or when nothing comes for ms. */
static inline bool
rig_hear(struct init_rig *rig, int ms)
{
	union {
		char buf[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { &rig->msg, sizeof(rig->msg) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf) };
	struct pollfd p = { rig->fd, POLLIN, 0 };
	struct cmsghdr *c;
	ssize_t n;

	memset(&rig->msg, 0, sizeof(rig->msg));
	if (poll(&p, 1, ms) != 1) {
		return false;
	}
	n = recvmsg(rig->fd, &m, MSG_CMSG_CLOEXEC);
	if (n == -1 && errno == ECONNRESET) {	/* see init.h */
		return rig_hear(rig, ms);
	}
	if (n <= 0) {
		return false;
	}
	assert_true((size_t)n >= offsetof(struct init_msg, text));
	rig->msg.len = (uint32_t)((size_t)n - offsetof(struct init_msg, text));
	memcpy(rig->text, rig->msg.text, rig->msg.len);
	rig->text[rig->msg.len] = '\0';
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL) {
		rig->files = (unsigned)((c->cmsg_len - CMSG_LEN(0)) /
		    sizeof(int));
		memcpy(rig->fds, CMSG_DATA(c), rig->files * sizeof(int));
	}
	return true;
}

/* The next message must be this one. */
static inline void
rig_expect(struct init_rig *rig, enum init_word word)
{
	assert_true(rig_hear(rig, RIG_MS));
	if (rig->msg.word != word) {
		fail_msg("said %d (step %d, %d, %s) and not %d",
		    rig->msg.word, rig->msg.step, rig->msg.number, rig->text,
		    (int)word);
	}
}

static inline void
rig_order(struct init_rig *rig, enum init_word word, int32_t number)
{
	struct init_msg msg = { .word = (uint8_t)word, .number = number };

	assert_int_equal(init_send(rig->fd, &msg, NULL, 0), 0);
}

/* Close what is ours; the init is gone, or goes by that: its wait status. */
static inline int
rig_end(struct init_rig *rig)
{
	int status = -1;

	close(rig->fd);
	while (rig->files > 0) {
		close(rig->fds[--rig->files]);
	}
	assert_int_equal(waitpid(rig->pid, &status, 0), rig->pid);
	return status;
}

#endif
