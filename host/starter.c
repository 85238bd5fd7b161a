/* SPDX-License-Identifier: MIT */
/* starter.c - a forked helper, its one answer, its deadline. */
#include "starter.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "system.h"

#define STARTER_MAGIC 0x53746172u
/* Beyond the work's own deadline. */
#define GRACE ((TRANSPORT_CLEAN_MS + 2000u) * CLOCK_MS)

/* What one does, and within how long. */
static int
run_task(enum starter_task task, const struct transport *transport,
    struct transport_place *place, uint64_t deadline, struct error *error)
{
	switch (task) {
	case STARTER_RESOLVE:
		return transport->resolve(place, deadline, error);
	case STARTER_INJECT:
		return transport->inject(place, deadline, error);
	case STARTER_LOOK:
		return transport->look(place, deadline, error);
	case STARTER_REMOVE:
	default:
		return transport->remove(place, deadline, error);
	}
}

static uint64_t
limit(enum starter_task task)
{
	return task == STARTER_INJECT ? TRANSPORT_INJECT_MS :
	    task == STARTER_REMOVE ? TRANSPORT_REMOVE_MS :
	    TRANSPORT_RESOLVE_MS;
}

void
starter_clear(struct starter *starter)
{
	memset(starter, 0, sizeof(*starter));
	child_clear(&starter->child);
	starter->fd = -1;
	starter->slot = POLLSET_NONE;
}

/* The helper: only the answer's pipe stays open, then the work. */
static void __attribute__((noreturn))
work(int fd, enum starter_task task, const struct transport *transport,
    const struct transport_place *place, uint64_t deadline)
{
	static struct starter_answer answer;
	static struct transport_place mine;
	const char *from = (const char *)&answer;
	size_t left = sizeof(answer);
	ssize_t n;

	log_close();
	if (fd != 3) {
		dup2(fd, 3);
	}
	system_close_from(4);
	mine = *place;
	answer.magic = STARTER_MAGIC;
	answer.rc = run_task(task, transport, &mine, deadline, &answer.error);
	answer.facts = mine.facts;
	while (left > 0) {
		n = write(3, from, left);
		if (n <= 0) {
			_exit(1);
		}
		from += n;
		left -= (size_t)n;
	}
	_exit(0);
}

static void
fail(struct starter *starter, int number, const char *what)
{
	error_set(&starter->answer.error, WIRE_STEP_START, number, "%s",
	    what);
	starter->state = STARTER_FAILED;
}

void
starter_begin(struct starter *starter, enum starter_task task,
    const struct transport *transport, const struct transport_place *place)
{
	uint64_t deadline = clock_now() + limit(task) * CLOCK_MS;
	int fds[2];
	pid_t pid;

	starter_clear(starter);
	if (system_pipe(fds) < 0) {
		fail(starter, errno, "a pipe for the starter");
		return;
	}
	pid = child_fork(&starter->child);
	if (pid == 0) {
		close(fds[0]);
		work(fds[1], task, transport, place, deadline);
	}
	close(fds[1]);
	if (pid < 0) {
		fail(starter, errno, "a process for the starter");
		close(fds[0]);
		return;
	}
	system_nonblock(fds[0], 1);
	starter->fd = fds[0];
	starter->deadline = deadline + GRACE;
	starter->state = STARTER_BUSY;
}

void
starter_interest(struct starter *starter, struct pollset *set)
{
	starter->slot = POLLSET_NONE;
	if (starter->state == STARTER_BUSY) {
		starter->slot = pollset_add(set, starter->fd, POLLIN);
		pollset_wake(set, starter->deadline);
	}
}

static void
finish(struct starter *starter)
{
	const struct starter_answer *answer = &starter->answer;
	bool whole = starter->got == sizeof(*answer) &&
	    answer->magic == STARTER_MAGIC;

	child_drop(&starter->child);
	close(starter->fd);
	starter->fd = -1;
	if (!whole) {
		fail(starter, 0, "the starter's process ended without an "
		    "answer");
	} else {
		starter->state = answer->rc == 0 ? STARTER_DONE :
		    STARTER_FAILED;
	}
}

void
starter_run(struct starter *starter, const struct pollset *set)
{
	char *to = (char *)&starter->answer;
	ssize_t n;

	if (starter->state != STARTER_BUSY) {
		return;
	}
	if (clock_now() >= starter->deadline) {
		finish(starter);
		fail(starter, ETIMEDOUT, "the transport's program does not "
		    "answer");
		return;
	}
	if (pollset_ready(set, starter->slot) == 0) {
		return;
	}
	n = read(starter->fd, to + starter->got, sizeof(starter->answer) -
	    starter->got);
	if (n > 0) {
		starter->got += (size_t)n;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
	    starter->got == sizeof(starter->answer)) {
		finish(starter);
	}
}

void
starter_stop(struct starter *starter)
{
	child_drop(&starter->child);
	if (starter->fd >= 0) {
		close(starter->fd);
	}
	starter_clear(starter);
}
