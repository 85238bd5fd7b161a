/* SPDX-License-Identifier: MIT */
/*
 * stub.c - the process that the transport started: it makes the terminal
 * usable, hands argv's words and its stdio to the core, and waits for it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "agent.h"

static void
make_raw(int fd)
{
	struct termios t;

	if (tcgetattr(fd, &t) == -1) {
		return;
	}
	cfmakeraw(&t);
	/*
	 * A background process that writes is stopped (TOSTOP), so what a
	 * login file left running cannot print into the link.
	 */
	t.c_lflag |= TOSTOP;
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	tcsetattr(fd, TCSANOW, &t);
}

/*
 * Everything else in our terminal's session becomes background: a child
 * takes the foreground for its own group and is gone at once.  The core is
 * in another session, where job control does not bind it.
 */
static void
take_foreground(int fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		setpgid(0, 0);
		tcsetpgrp(fd, getpid());
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) == -1 && errno == EINTR) {
		continue;
	}
}

/* Words, each with its NUL, and fds 0 and 1: what a core needs for a link. */
static int
hand_over(int fd, char *const words[5])
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov[5];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 5,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int fds[2] = { 0, 1 }, i;

	for (i = 0; i < 5; i++) {
		iov[i].iov_base = words[i];
		iov[i].iov_len = strlen(words[i]) + 1;
	}
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == -1 ? -1 : 0;
}

int
stub_run(const struct agent_start *start)
{
	uint8_t unlinked = WIRE_UNLINK_NOT_ASKED;
	int pair[2], status;
	pid_t core;

	/* The terminal may hang up under us; the core decides what that means. */
	signal(SIGHUP, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
	if (isatty(0)) {
		make_raw(0);
		take_foreground(0);
	}
	if (start->unlink) {
		unlinked = probe_unlink(start->exe) == 0 ?
		    WIRE_UNLINK_DONE : WIRE_UNLINK_FAILED;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1) {
		perror("sandmux-agent: socketpair");
		return 1;
	}
	core = fork();
	if (core == -1) {
		perror("sandmux-agent: fork");
		return 1;
	}
	if (core == 0) {
		close(pair[0]);
		_exit(core_run(pair[1], start, unlinked));
	}
	close(pair[1]);
	if (hand_over(pair[0], start->words) == -1) {
		perror("sandmux-agent: hand-over");
	}
	while (waitpid(core, &status, 0) == -1) {
		if (errno != EINTR) {
			return 1;
		}
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
