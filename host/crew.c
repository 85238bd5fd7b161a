/* SPDX-License-Identifier: MIT */
/* crew.c - a process for each thing to do, side by side, and their answers. */
#include "crew.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "interrupt.h"
#include "pollset.h"
#include "system.h"

struct worker {
	struct child child;
	int fd;				/* its answer comes here; -1: over */
	unsigned index;
	size_t got;
	uint64_t deadline;
	bool late;			/* it was killed for that */
};

/* The worker's process: its answer is written whole, or it was killed. */
static void __attribute__((noreturn))
labour(int fd, unsigned index,
    int (*work)(void *ctx, unsigned index, struct error *error), void *ctx)
{
	struct crew_answer answer = { .rc = -1 };
	const char *from = (const char *)&answer;
	size_t left = sizeof(answer);
	ssize_t n;

	answer.rc = work(ctx, index, &answer.error);
	while (left > 0) {
		n = write(fd, from, left);
		if (n <= 0) {
			_exit(1);
		}
		from += n;
		left -= (size_t)n;
	}
	_exit(0);
}

static int
begin(struct worker *w, unsigned index,
    int (*work)(void *ctx, unsigned index, struct error *error), void *ctx)
{
	int fds[2];
	pid_t pid;

	if (system_pipe(fds) < 0) {
		return -1;
	}
	pid = child_fork(&w->child);
	if (pid == 0) {
		close(fds[0]);
		labour(fds[1], index, work, ctx);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -1;
	}
	system_nonblock(fds[0], 1);
	w->fd = fds[0];
	w->index = index;
	w->got = 0;
	w->late = false;
	w->deadline = CLOCK_NEVER;
	return 0;
}

/* Take what it says; true when that was all. */
static bool
listen_to(struct worker *w, struct crew_answer *answer)
{
	ssize_t n = read(w->fd, (char *)answer + w->got,
	    sizeof(*answer) - w->got);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		return false;
	}
	w->got += n > 0 ? (size_t)n : 0;
	if (n > 0 && w->got < sizeof(*answer)) {
		return false;
	}
	if (w->got < sizeof(*answer)) {
		answer->rc = -1;
		error_set(&answer->error, WIRE_STEP_START, w->late ?
		    ETIMEDOUT : 0, "its process was killed%s", w->late ?
		    " after so long a time" : "");
	}
	close(w->fd);
	w->fd = -1;
	return true;
}

static void
end_all(struct worker *workers, unsigned count)
{
	unsigned i;
	bool left = true;

	for (i = 0; i < count; i++) {
		child_kill(&workers[i].child, SIGKILL);
	}
	/* What they have started is killed with them; none may go on. */
	while (left) {
		left = false;
		child_reap();
		for (i = 0; i < count; i++) {
			left |= workers[i].child.pid > 0 &&
			    !workers[i].child.exited;
		}
		if (left) {
			usleep(CHILD_TICK_MS * 1000);
		}
	}
	for (i = 0; i < count; i++) {
		if (workers[i].fd >= 0) {
			close(workers[i].fd);
			workers[i].fd = -1;
		}
	}
}

int
crew_run(unsigned count, unsigned most, bool once, uint64_t ms,
    int (*work)(void *ctx, unsigned index, struct error *error), void *ctx,
    struct crew_answer *answers)
{
	struct worker workers[CREW_MAX];
	unsigned i, begun = 0, busy = 0;
	struct pollset set = { 0 };
	int number = 0;
	bool failed = false;

	for (i = 0; i < CREW_MAX; i++) {
		child_clear(&workers[i].child);
		workers[i].fd = -1;
	}
	for (i = 0; i < count; i++) {
		answers[i].rc = -1;
		error_set(&answers[i].error, WIRE_STEP_NONE, 0, "not begun");
	}
	interrupt_init();
	while (number == 0 && !(failed && once) &&
	    (busy > 0 || begun < count)) {
		while (begun < count && busy < most && busy < CREW_MAX) {
			for (i = 0; workers[i].fd >= 0; i++) {
			}
			if (begin(&workers[i], begun, work, ctx) < 0) {
				error_set(&answers[begun].error,
				    WIRE_STEP_START, errno, "a process");
				failed = true;
			} else {
				busy++;
				workers[i].deadline = ms == 0 ? CLOCK_NEVER :
				    clock_now() + ms * CLOCK_MS;
			}
			begun++;
		}
		pollset_clear(&set);
		pollset_add(&set, interrupt_fd(), POLLIN);
		for (i = 0; i < CREW_MAX; i++) {
			if (workers[i].fd >= 0) {
				pollset_add(&set, workers[i].fd, POLLIN);
				pollset_wake(&set, workers[i].deadline);
			}
		}
		pollset_wait(&set);
		number = interrupt_take();
		child_reap();
		for (i = 0; i < CREW_MAX; i++) {
			struct crew_answer *answer =
			    &answers[workers[i].index];

			if (workers[i].fd >= 0 && !workers[i].late &&
			    clock_now() >= workers[i].deadline) {
				workers[i].late = true;
				workers[i].deadline = CLOCK_NEVER;
				child_kill(&workers[i].child, SIGKILL);
			}
			if (workers[i].fd >= 0 &&
			    listen_to(&workers[i], answer)) {
				busy--;
				failed |= answer->rc < 0;
			}
		}
	}
	pollset_free(&set);
	end_all(workers, CREW_MAX);
	return number;
}
