/* SPDX-License-Identifier: MIT */
/*
 * listener.h - one controller in a runtime directory: its lock and socket.
 *
 * The lock says who is the controller; the socket's name may be stale and is
 * replaced by whoever holds the lock.  Used by controller.c only; may block
 * before there is a loop.
 */
#ifndef LISTENER_H
#define LISTENER_H

#include <stdbool.h>
#include <sys/stat.h>

#include "error.h"
#include "paths.h"

#define LISTENER_WAIT_MS 10000u	/* for another controller to answer */

struct listener {
	int lock, fd;			/* owned, -1: none */
	char path[PATHS_MAX];
	dev_t dev;
	ino_t ino;
};

/*
 * Take the lock and listen.  1: ours now; 0: another controller answers
 * there; -1 with *error.  Blocks up to LISTENER_WAIT_MS while another holds
 * the lock and does not answer.
 */
int listener_open(struct listener *listener, const char *directory,
    struct error *error);

/*
 * Whether that is the lock of this directory, held through this descriptor,
 * and a unix socket that listens.
 */
bool listener_fits(const char *directory, int lock, int fd);

/*
 * Be the controller there with another one's lock and socket, owned from now
 * on, also on failure: -1 with *error.
 */
int listener_adopt(struct listener *listener, const char *directory,
    int lock, int fd, struct error *error);

/* Whether the socket's name still leads to us. */
bool listener_there(const struct listener *listener);

/* Remove the socket and give the lock back. */
void listener_close(struct listener *listener);

#endif
