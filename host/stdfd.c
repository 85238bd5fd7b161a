/* SPDX-License-Identifier: MIT */
/* stdfd.c - each kind of inherited descriptor, never blocking. */
#include "stdfd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define STDFD_TERMINAL 512u		/* a piece for a terminal */

/* A second description of a pipe; -1 where that is not possible. */
static int
reopen(int fd, bool writing)
{
	char path[40];
	struct stat was, is;
	int own;

	/* Linux has it as a link to the very object, others have /dev/fd. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, (writing ? O_WRONLY : O_RDONLY) | O_NONBLOCK |
	    O_CLOEXEC | O_NOCTTY);
	if (own < 0) {
		return -1;
	}
	if (fstat(fd, &was) < 0 || fstat(own, &is) < 0 ||
	    was.st_dev != is.st_dev || was.st_ino != is.st_ino) {
		close(own);
		return -1;
	}
	return own;
}

void
stdfd_open(struct stdfd *std, int fd, bool writing)
{
	struct stat st;
	int own;

	*std = (struct stdfd){ .fd = fd, .way = STDFD_DIRECT };
	if (fstat(fd, &st) < 0 || S_ISREG(st.st_mode) ||
	    S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode) ||
	    (S_ISCHR(st.st_mode) && !isatty(fd))) {
		/* Other devices may block a read: see what poll says. */
		if (S_ISCHR(st.st_mode) && !writing) {
			std->way = STDFD_ASK;
			std->piece = SSIZE_MAX;
		}
		return;
	}
	if (S_ISSOCK(st.st_mode)) {
		std->way = STDFD_SOCKET;
		return;
	}
	if (S_ISFIFO(st.st_mode) && (own = reopen(fd, writing)) >= 0) {
		std->fd = own;
		std->owned = true;
		std->way = STDFD_OWN;
		return;
	}
	/* Writable means room for this much in a pipe; reads give what is. */
	std->way = STDFD_ASK;
	std->piece = !writing ? SSIZE_MAX : S_ISFIFO(st.st_mode) ? PIPE_BUF :
	    STDFD_TERMINAL;
}

void
stdfd_close(struct stdfd *std)
{
	int saved = errno;

	if (std->owned) {
		close(std->fd);
	}
	*std = (struct stdfd){ .fd = -1 };
	errno = saved;
}

/* Whether the descriptor can be used now. */
static bool
ask(const struct stdfd *std, short events)
{
	struct pollfd p = { .fd = std->fd, .events = events };

	return poll(&p, 1, 0) == 1;
}

static ssize_t
done(ssize_t n)
{
	if (n < 0 && (errno == EINTR || errno == EWOULDBLOCK)) {
		errno = EAGAIN;
	}
	return n;
}

ssize_t
stdfd_read(const struct stdfd *std, void *buf, size_t len)
{
	if (std->way == STDFD_SOCKET) {
		return done(recv(std->fd, buf, len, MSG_DONTWAIT));
	}
	if (std->way == STDFD_ASK) {
		if (!ask(std, POLLIN)) {
			errno = EAGAIN;
			return -1;
		}
		len = len < std->piece ? len : std->piece;
	}
	return done(read(std->fd, buf, len));
}

ssize_t
stdfd_write(const struct stdfd *std, const void *buf, size_t len)
{
	if (std->way == STDFD_SOCKET) {
		/* A reader that is gone is SIGPIPE, as for a pipe. */
		return done(send(std->fd, buf, len, MSG_DONTWAIT));
	}
	if (std->way == STDFD_ASK) {
		if (!ask(std, POLLOUT)) {
			errno = EAGAIN;
			return -1;
		}
		len = len < std->piece ? len : std->piece;
	}
	return done(write(std->fd, buf, len));
}
