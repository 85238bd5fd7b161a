/* SPDX-License-Identifier: MIT */
/*
 * stub.c - the process that the transport started: it makes the terminal
 * usable, hands argv's words and its stdio to the core, and waits for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "agent.h"
#include "attempt.h"
#include "child.h"

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

static void
settle(void)
{
	/* The terminal may hang up; the core decides what that means. */
	signal(SIGHUP, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
	if (isatty(0)) {
		make_raw(0);
		take_foreground(0);
	}
}

/* Later links have stubs of their own: this one holds no descriptor up. */
void
stub_let_go(void)
{
	int fd = open("/dev/null", O_RDWR), pair[2], i;

	if (fd == -1 && pipe(pair) == 0) {
		fd = pair[0];
	}
	for (i = 0; fd != -1 && i < AGENT_NULL_FDS; i++) {
		dup2(fd, i);
	}
	if (fd >= AGENT_NULL_FDS) {
		close(fd);
	}
}

static uint8_t
remove_self(const struct agent_start *start)
{
	if (!start->unlink) {
		return WIRE_UNLINK_NOT_ASKED;
	}
	return probe_unlink(start->exe) == 0 ? WIRE_UNLINK_DONE :
	    WIRE_UNLINK_FAILED;
}

/*
 * The job's leader can have the terminal once no session has it, and only
 * the leader of the one that does can give it up.  0 or an errno.
 */
static uint8_t
give_up_terminal(void)
{
	pid_t leader = tcgetsid(0);

	if (leader == getpid()) {
		return ioctl(0, TIOCNOTTY) == 0 ? 0 : (uint8_t)errno;
	}
	return leader == -1 ? 0 : EBUSY;
}

int
stub_attach(const struct agent_start *start)
{
	struct sockaddr_un un;
	socklen_t len = attempt_name(&un, start->words[2]);
	uint8_t byte = EPIPE;
	ssize_t n;
	int fd, rc;

	settle();
	/* What the transport has left open may be this terminal's other end. */
	child_close(AGENT_NULL_FDS, INT_MAX);
	remove_self(start);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd == -1 || connect(fd, (struct sockaddr *)&un, len) == -1 ||
	    attempt_send(fd, start->words) == -1) {
		rc = errno == ECONNREFUSED ? LINK_NO_SESSION : 1;
		perror("sandmux-agent: the session's socket");
		return rc;
	}
	while ((n = recv(fd, &byte, 1, 0)) == 1 ||
	    (n == -1 && errno == EINTR)) {
		if (n == 1) {
			byte = give_up_terminal();
			send(fd, &byte, 1, MSG_NOSIGNAL);
		}
	}
	return byte == 0 ? 0 : 1;
}

int
stub_run(const struct agent_start *start)
{
	uint8_t unlinked;
	int pair[2], status;
	pid_t core;

	settle();
	unlinked = remove_self(start);
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
	if (attempt_send(pair[0], start->words) == -1) {
		perror("sandmux-agent: hand-over");
	}
	/* The core lets go when its first link is over, or by its own end. */
	while (recv(pair[0], &unlinked, 1, 0) == -1 && errno == EINTR) {
		continue;
	}
	stub_let_go();
	while (waitpid(core, &status, 0) == -1) {
		if (errno != EINTR) {
			return 1;
		}
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
