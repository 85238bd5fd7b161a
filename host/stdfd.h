/* SPDX-License-Identifier: MIT */
/*
 * stdfd.h - reads and writes inherited descriptors without ever blocking.
 *
 * fds 0 to 2 are shared with other processes, so they are never made
 * non-blocking.  A pipe is opened a second time, which gives a description
 * of our own; a socket is used with MSG_DONTWAIT; a terminal, and a pipe that
 * cannot be opened again, is asked by poll() before each small piece; files
 * are simply used.
 */
#ifndef STDFD_H
#define STDFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum stdfd_way {
	STDFD_DIRECT,			/* a file: does not block for long */
	STDFD_OWN,			/* non-blocking, opened by us */
	STDFD_SOCKET,
	STDFD_ASK			/* poll() before each piece */
};

struct stdfd {
	int fd;				/* to poll, read and write */
	size_t piece;			/* STDFD_ASK: at most so much */
	enum stdfd_way way;
	bool owned;			/* fd is closed by stdfd_close() */
};

/* Take fd (borrowed) for reading or for writing; always works. */
void stdfd_open(struct stdfd *std, int fd, bool writing);
void stdfd_close(struct stdfd *std);

/*
 * At most len bytes.  Reading: 0 is the end.  -1 with errno: EAGAIN means
 * poll and come back (EINTR does not occur).
 */
ssize_t stdfd_read(const struct stdfd *std, void *buf, size_t len);
ssize_t stdfd_write(const struct stdfd *std, const void *buf, size_t len);

#endif
