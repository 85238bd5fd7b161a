/* SPDX-License-Identifier: MIT */
/* attempt.c - how links come to the core, and terminals handed over. */
#include "attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "pipes.h"
#include "terminal.h"

#define WORDS_MAX 512u
#define PLACES (ATTEMPTS_PENDING + ATTEMPTS_KEPT)
#define REST_MS 100u			/* from accepting without files */

enum stage {
	FREE,
	CONNECTED,			/* its words are due */
	LINKED,				/* RESUME or TERMINAL is due */
	GIVING,				/* the stub gives the terminal up */
	COMMITTED,			/* the core is to take it, this turn */
	KEPT				/* an EXEC is due */
};

struct attempt {
	enum stage stage;
	int conn;			/* owned */
	struct link *link;		/* owned, until KEPT */
	int terminal;			/* KEPT: owned; before: the link's */
	uint32_t number;
	uint64_t deadline;
	size_t slot;
};

static struct {
	int fd;				/* listens, -1: not */
	size_t slot;
	uint64_t rest;			/* until then none is accepted */
	char session[LINK_SESSION + 1];
	struct link_config base;
	struct attempt all[PLACES];
} attempts = { .fd = -1 };

/* ---- words and descriptors -------------------------------------------- */

socklen_t
attempt_name(struct sockaddr_un *un, const char *session)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
	    (socklen_t)snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1,
	    "%s", session);
}

int
attempt_send(int fd, char *const words[5])
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

/* A file that another user serves could stop a loop: only these may come. */
static bool
fit_for_link(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) ||
	    S_ISSOCK(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(fd))) &&
	    fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0;
}

static int
split_words(char *buf, size_t len, char *words[5])
{
	size_t i, n = 0;

	if (len == 0 || buf[len - 1] != '\0') {
		return -1;
	}
	for (i = 0; i < len; i += strlen(buf + i) + 1) {
		if (n == 5) {
			return -1;
		}
		words[n++] = buf + i;
	}
	return n == 5 ? 0 : -1;
}

/* All that came is ours to close, however it came. */
static unsigned
received(struct msghdr *msg, int fds[2])
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	unsigned count = 0;

	if (c != NULL && c->cmsg_level == SOL_SOCKET &&
	    c->cmsg_type == SCM_RIGHTS) {
		count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
	}
	return count;
}

int
attempt_receive(int fd, struct link_config *config)
{
	union {
		char buf[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	char buf[WORDS_MAX], *words[5];
	const char *what;
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf) };
	int fds[2];
	unsigned count;
	ssize_t n;

	n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n == -1) {
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	}
	count = received(&msg, fds);
	if (count == 2 && (msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0 &&
	    split_words(buf, (size_t)n, words) == 0 &&
	    link_parse_terms(&config->terms, words, &what) == 0 &&
	    fit_for_link(fds[0]) && fit_for_link(fds[1])) {
		config->in = fds[0];
		config->out = fds[1];
		return 1;
	}
	while (count > 0) {
		close(fds[--count]);
	}
	return -1;
}

/* ---- one attempt ------------------------------------------------------ */

static unsigned
count(enum stage first, enum stage last)
{
	unsigned i, n = 0;

	for (i = 0; i < PLACES; i++) {
		n += attempts.all[i].stage >= first &&
		    attempts.all[i].stage <= last;
	}
	return n;
}

static void
drop(struct attempt *a)
{
	if (a->link != NULL) {
		link_free(a->link);
		a->link = NULL;
		a->terminal = -1;
	}
	close_fd(&a->terminal);
	close_fd(&a->conn);
	a->stage = FREE;
}

static void
take_words(struct attempt *a)
{
	struct link_config config = attempts.base;
	int rc = attempt_receive(a->conn, &config);

	if (rc == 0) {
		return;
	}
	if (rc == 1 && (config.terms.number == 1 ||
	    strcmp(config.terms.session, attempts.session) != 0)) {
		close(config.in);
		close(config.out);
		rc = -1;
	}
	if (rc == 1) {
		config.hands_over = true;
		config.unlinked = WIRE_UNLINK_NOT_ASKED;
		a->number = config.terms.number;
		a->terminal = config.in;
		a->link = link_new_agent(&config);
	}
	a->stage = LINKED;
	if (a->link == NULL) {
		a->terminal = -1;
		drop(a);
	}
}

/* The stub says whether it has given its terminal up. */
static void
take_terminal(struct attempt *a)
{
	uint8_t error = 0;
	int out;

	if (recv(a->conn, &error, 1, MSG_DONTWAIT) != 1) {
		drop(a);
		return;
	}
	if (error == 0 && count(KEPT, KEPT) >= ATTEMPTS_KEPT) {
		error = EBUSY;
	}
	if (error == 0 && terminal_cook(a->terminal, false) == -1) {
		error = (uint8_t)errno;
	}
	if (link_answer_terminal(a->link, error) == -1 || error != 0) {
		drop(a);
		return;
	}
	link_take_terminal(a->link, &a->terminal, &out);
	link_free(a->link);
	a->link = NULL;
	close(out);
	/* Its flags are to be those of a terminal that a job has opened. */
	fcntl(a->terminal, F_SETFL, O_RDWR);
	a->stage = KEPT;
	a->deadline = clock_now() + ATTEMPT_MS * (uint64_t)CLOCK_MS;
}

static void
advance(struct attempt *a, const struct pollset *set)
{
	bool ready = pollset_ready(set, a->slot) != 0;

	if (a->stage == CONNECTED && ready) {
		take_words(a);
	} else if (a->stage == GIVING && ready) {
		take_terminal(a);
	} else if (ready) {
		drop(a);		/* it ended, or says too much */
	} else if (a->stage == LINKED) {
		link_run(a->link, set);
		if (link_committed(a->link)) {
			a->stage = COMMITTED;
			return;
		}
		if (link_state(a->link) == LINK_TERMINAL) {
			a->stage = GIVING;
			if (send(a->conn, "", 1, MSG_NOSIGNAL |
			    MSG_DONTWAIT) != 1) {
				drop(a);
			}
		} else if (link_state(a->link) >= LINK_CLOSED) {
			drop(a);
		}
	}
	if (a->stage != FREE && clock_now() >= a->deadline) {
		drop(a);
	}
}

/* ---- all of them ------------------------------------------------------ */

int
attempts_listen(const char *session, const struct link_config *base)
{
	struct sockaddr_un un;
	socklen_t len = attempt_name(&un, session);
	unsigned i;

	for (i = 0; i < PLACES; i++) {
		attempts.all[i] = (struct attempt){ .conn = -1,
		    .terminal = -1, .slot = POLLSET_NONE };
	}
	strcpy(attempts.session, session);
	attempts.base = *base;
	attempts.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0);
	if (attempts.fd == -1 ||
	    bind(attempts.fd, (struct sockaddr *)&un, len) == -1 ||
	    listen(attempts.fd, (int)PLACES) == -1) {
		close_fd(&attempts.fd);
		return -1;
	}
	return 0;
}

/*
 * The one that has been here the longest, when there is no place for the
 * next, which waits in the socket's own queue meanwhile; NULL: there is one.
 */
static struct attempt *
in_the_way(void)
{
	struct attempt *a, *first = NULL;

	if (count(CONNECTED, GIVING) < ATTEMPTS_PENDING) {
		return NULL;
	}
	for (a = attempts.all; a < attempts.all + PLACES; a++) {
		if (a->stage >= CONNECTED && a->stage <= GIVING &&
		    (first == NULL || a->deadline < first->deadline)) {
			first = a;
		}
	}
	return first;
}

/* When it has had its least time. */
static uint64_t
due(const struct attempt *a)
{
	return a->deadline - (ATTEMPT_MS - ATTEMPT_LEAST_MS) *
	    (uint64_t)CLOCK_MS;
}

static void
accept_one(void)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct attempt *a = in_the_way();
	int fd = accept4(attempts.fd, NULL, NULL, SOCK_CLOEXEC |
	    SOCK_NONBLOCK);

	if (a != NULL && fd != -1) {
		drop(a);
	}
	a = attempts.all;
	if (fd == -1) {
		attempts.rest = clock_now() + REST_MS * (uint64_t)CLOCK_MS;
		return;
	}
	while (a->stage != FREE) {
		a++;
	}
	a->conn = fd;
	a->stage = CONNECTED;
	a->slot = POLLSET_NONE;
	a->deadline = clock_now() + ATTEMPT_MS * (uint64_t)CLOCK_MS;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == -1 ||
	    peer.uid != geteuid()) {
		drop(a);
	}
}

void
attempts_interest(struct pollset *set)
{
	struct attempt *a = in_the_way();
	uint64_t from = a != NULL && due(a) > attempts.rest ? due(a) :
	    attempts.rest;

	attempts.slot = POLLSET_NONE;
	if (clock_now() >= from) {
		attempts.slot = pollset_add(set, attempts.fd, POLLIN);
	} else {
		pollset_wake(set, from);
	}
	for (a = attempts.all; a < attempts.all + PLACES; a++) {
		a->slot = POLLSET_NONE;
		if (a->stage == FREE) {
			continue;
		}
		a->slot = pollset_add(set, a->conn, POLLIN);
		pollset_wake(set, a->deadline);
		if (a->stage == LINKED) {
			link_interest(a->link, set);
		}
	}
}

bool
attempts_run(const struct pollset *set, struct link **link, int *stub)
{
	struct attempt *a, *first = NULL;

	for (a = attempts.all; a < attempts.all + PLACES; a++) {
		if (a->stage != FREE) {
			advance(a, set);
		}
		if (a->stage == COMMITTED) {
			if (first != NULL) {
				drop(first);
			}
			first = a;
		}
	}
	if (first != NULL) {
		*link = first->link;
		*stub = first->conn;
		first->link = NULL;
		first->conn = first->terminal = -1;
		drop(first);
	}
	if (pollset_ready(set, attempts.slot) != 0) {
		accept_one();
	}
	return first != NULL;
}

int
attempts_take(uint32_t number, int *terminal, int *stub)
{
	struct attempt *a;

	for (a = attempts.all; a < attempts.all + PLACES; a++) {
		if (a->stage == KEPT && a->number == number) {
			*terminal = a->terminal;
			*stub = a->conn;
			a->terminal = a->conn = -1;
			a->stage = FREE;
			return 0;
		}
	}
	return -1;
}

void
attempts_wipe(void)
{
	unsigned i;

	for (i = 0; i < PLACES; i++) {
		link_wipe(attempts.all[i].link);
	}
}

void
attempts_close(void)
{
	unsigned i;

	for (i = 0; i < PLACES; i++) {
		if (attempts.all[i].stage != FREE) {
			drop(&attempts.all[i]);
		}
	}
	close_fd(&attempts.fd);
}
