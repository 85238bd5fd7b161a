/* SPDX-License-Identifier: MIT */
/*
 * attempt.h - how descriptors come to the core: a stub hands over argv's
 * words and its fds 0 and 1.
 *
 * The stub of `start` does it over the socketpair with its core, a stub of
 * `attach` over the session's abstract socket, to which every process of our
 * uid can connect.  So what comes there is hostile until a record opened: it
 * costs one of a few places for a few seconds, and never a descriptor.
 */
#ifndef ATTEMPT_H
#define ATTEMPT_H

#include <sys/socket.h>
#include <sys/un.h>

#include "link.h"

#define ATTEMPTS_PENDING 4u		/* neither committed nor handed over */
#define ATTEMPT_LEAST_MS 1000u		/* then one makes room for the next */
#define ATTEMPTS_KEPT 8u		/* terminals that no job has yet */
#define ATTEMPT_MS 10000u		/* for either */

/* The session's socket as *un; the length for bind() and connect(). */
socklen_t attempt_name(struct sockaddr_un *un, const char *session);

/* The stub: words, each with its NUL, and fds 0 and 1.  0, or -1 + errno. */
int attempt_send(int fd, char *const words[5]);
/*
 * The core: 1 with config's terms and its descriptors, which are the
 * caller's and non-blocking; 0: nothing is there yet; -1: it is nothing that
 * a link could come of.
 */
int attempt_receive(int fd, struct link_config *config);

/*
 * Listen for attempts at this session, whose links are made of base (copied).
 * Without the socket, which only errno tells, none will come.
 */
int attempts_listen(const char *session, const struct link_config *base);

void attempts_interest(struct pollset *set);
/*
 * True: an attempt's RESUME has committed, or broken, the session.  *link
 * and the connection to its stub, which waits for its end, are the caller's.
 */
bool attempts_run(const struct pollset *set, struct link **link, int *stub);

/*
 * The terminal that this link has handed over and the connection to its
 * stub, which holds it until that is closed: both the caller's.  0, or -1.
 */
int attempts_take(uint32_t number, int *terminal, int *stub);

/* In a child: wipe all keys. */
void attempts_wipe(void);
/* The core ends. */
void attempts_close(void);

#endif
