/* SPDX-License-Identifier: MIT */
/* worker.c - a request that a short-lived process of the agent's serves. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "pipes.h"
#include "serve.h"
#include "tree.h"

#define NOTE_MAX (sizeof(struct worker_note) + WIRE_INFO_MAX)
#define TIDY_LONG_MS 60000u		/* for half a tree, or in place */
#define KILL_MS 4000u			/* to die, before that is not awaited */

struct worker {
	struct serve serve;
	struct list link;
	struct pipes pipes;
	pid_t pid;
	int note;			/* owned, -1: closed */
	bool exited, cancelled, tidies, killed;
	uint64_t started, kill_at;
	uint8_t *buf;			/* owned: the note's bytes */
	size_t len;
	size_t slot;
};

static struct list all = { &all, &all };

/* ---- in the worker ---------------------------------------------------- */

void
worker_fail(int note, enum wire_step step, int number, const char *text)
{
	struct worker_note n = { .step = (uint8_t)step, .number = number };

	strncpy(n.text, text, sizeof(n.text) - 1);
	/* Nobody is left to tell if this fails: the core is gone. */
	_exit(write(note, &n, sizeof(n)) == -1);
}

void
worker_done(int note, const uint8_t *info, size_t len)
{
	struct worker_note n = { .step = WIRE_STEP_NONE };

	_exit(write(note, &n, sizeof(n)) == -1 ||
	    (len > 0 && write(note, info, len) == -1));
}

void
worker_close_others(int a, int b, int c)
{
	int keep[3] = { a, b, c };
	int from = AGENT_NULL_FDS, next, i;

	for (;;) {
		next = INT_MAX;
		for (i = 0; i < 3; i++) {
			if (keep[i] >= from && keep[i] < next) {
				next = keep[i];
			}
		}
		child_close(from, next - 1);
		if (next == INT_MAX) {
			return;
		}
		from = next + 1;
	}
}

/* Workers end with the core and get none of its signals' meanings. */
static void
begin(const struct worker_child *c)
{
	const struct sched_param normal = { .sched_priority = 0 };

	core_wipe();
	worker_close_others(c->in, c->out, c->note);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	/*
	 * A group of its own in the core's session: if a job has stopped us
	 * when the core dies, the kernel lets us go on, to see its death.
	 */
	setpgid(0, 0);
	child_reset();
	signal(SIGHUP, SIG_IGN);	/* which comes with that */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);	/* EFBIG says it */
	/*
	 * Whoever waits for a command goes first: a batch process does not
	 * preempt.  (musl's own function refuses; no matter if this fails.)
	 */
	syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &normal);
}

/* ---- its request ------------------------------------------------------ */

/* IN's end alone could be the core's death: the note says that it is not. */
static void
commit(struct worker *w)
{
	struct worker_commit c = { .total = w->pipes.in_bytes };

	if (send(w->note, &c, sizeof(c), MSG_NOSIGNAL) !=
	    (ssize_t)sizeof(c)) {
		close_fd(&w->note);
	}
}

static size_t
on_data(struct session_request *req, const uint8_t *data, size_t len)
{
	struct worker *w = req->app;

	return pipes_data(&w->pipes, data, len);
}

static void
on_ended(struct session_request *req)
{
	struct worker *w = req->app;

	if (pipes_ended(&w->pipes)) {
		commit(w);
	}
}

static size_t
on_pull(struct session_request *req, unsigned index, uint8_t *buf, size_t max)
{
	struct worker *w = req->app;

	return pipes_pull(&w->pipes, index, buf, max);
}

static void
on_unwanted(struct session_request *req, unsigned index)
{
	struct worker *w = req->app;

	pipes_unwanted(&w->pipes, index);
}

static void
on_cancel(struct session_request *req)
{
	struct worker *w = req->app;

	if (!w->cancelled && !w->exited) {
		w->cancelled = true;
		w->kill_at = clock_now() + (w->tidies ? TIDY_LONG_MS :
		    AGENT_TIDY_MS) * (uint64_t)CLOCK_MS;
		tree_kill(w->pid, SIGTERM);
	}
}

static const struct serve_ops worker_ops = {
	.data = on_data, .ended = on_ended, .pull = on_pull,
	.unwanted = on_unwanted, .cancel = on_cancel
};

/* ---- start ------------------------------------------------------------ */

struct ends {
	int in[2], out[2], note[2];
};

static int
open_ends(struct ends *e, unsigned flags)
{
	if ((flags & WORKER_IN && pipe2(e->in, O_CLOEXEC) == -1) ||
	    (flags & WORKER_OUT && pipe2(e->out, O_CLOEXEC) == -1) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->note) == -1) {
		return -1;
	}
	/* Refused where the user's pipe memory is used up: no harm. */
	fcntl(e->in[1], F_SETPIPE_SZ, AGENT_PIPE);
	fcntl(e->out[0], F_SETPIPE_SZ, AGENT_PIPE);
	return fcntl(e->note[0], F_SETFL, O_RDWR | O_NONBLOCK);
}

static void
close_ends(struct ends *e)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		close_fd(&e->in[i]);
		close_fd(&e->out[i]);
		close_fd(&e->note[i]);
	}
}

static void
fail(struct session_request *req, enum wire_step step, const char *what)
{
	struct error error;

	error_set(&error, step, errno, "%s", what);
	session_fail(req, &error);
}

void
worker_start(struct session_request *req, unsigned flags,
    void (*child)(const struct worker_child *, void *arg), void *arg)
{
	struct ends e = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	struct worker *w = NULL;
	pid_t pid = -1;

	if (open_ends(&e, flags) == -1) {
		fail(req, WIRE_STEP_PIPE, "pipes");
		close_ends(&e);
		return;
	}
	w = calloc(1, sizeof(*w));
	pid = w == NULL ? -1 : fork();
	if (pid == 0) {
		struct worker_child c = { e.in[0], e.out[1], e.note[1] };

		begin(&c);
		child(&c, arg);
		_exit(1);
	}
	if (pid == -1) {
		fail(req, WIRE_STEP_FORK, "a new process");
		free(w);
		close_ends(&e);
		return;
	}
	w->serve.ops = &worker_ops;
	w->pid = pid;
	w->note = e.note[0];
	w->started = clock_now();
	w->kill_at = CLOCK_NEVER;
	w->tidies = (flags & WORKER_TIDIES) != 0;
	w->slot = POLLSET_NONE;
	pipes_init(&w->pipes, req);
	pipes_take(&w->pipes, e.in[1], e.out[0], -1);
	list_append(&all, &w->link);
	req->app = w;
	close_fd(&e.in[0]);
	close_fd(&e.out[1]);
	close_fd(&e.note[1]);
	if (!(flags & WORKER_IN)) {
		session_ignore(req, 1);
	}
}

/* ---- end -------------------------------------------------------------- */

static void
answer(struct worker *w, const struct wire_result *r)
{
	if (w->pipes.req != NULL) {
		w->pipes.req->app = NULL;
		session_result(w->pipes.req, r);
	}
	pipes_close(&w->pipes);
	close_fd(&w->note);
}

/*
 * A call that never returns, of a file server that is gone, holds even what
 * was killed.  What it was to do may still happen: that is no clean end.
 */
static void
give_up(struct worker *w)
{
	struct wire_result r = { .outcome = WIRE_FAILED,
	    .step = WIRE_STEP_WAIT, .text = wire_string("the worker process "
	    "could not be ended: the file's server does not answer") };

	r.in = w->pipes.in_bytes;
	r.wall_us = clock_now() - w->started;
	answer(w, &r);
}

static void
kill_or_leave(struct worker *w, uint64_t now)
{
	if (!w->killed) {
		w->killed = true;
		w->kill_at = now + KILL_MS * (uint64_t)CLOCK_MS;
		tree_kill(w->pid, SIGKILL);
	} else {
		w->kill_at = CLOCK_NEVER;
		give_up(w);
	}
}

static void
read_note(struct worker *w)
{
	ssize_t n;

	if (w->buf == NULL) {
		w->buf = malloc(NOTE_MAX);
		if (w->buf == NULL) {
			return;
		}
	}
	n = read(w->note, w->buf + w->len, NOTE_MAX - w->len);
	if (n > 0) {
		w->len += (size_t)n;
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close_fd(&w->note);
	}
}

static void
finish(struct worker *w)
{
	struct wire_result r = { .outcome = WIRE_EXITED };
	struct worker_note note = { .step = WIRE_STEP_WAIT,
	    .text = "the worker process died" };

	r.in = w->pipes.in_bytes;
	r.wall_us = clock_now() - w->started;
	if (w->len >= sizeof(note)) {
		memcpy(&note, w->buf, sizeof(note));
		note.text[sizeof(note.text) - 1] = '\0';
		r.info.at = w->buf + sizeof(note);
		r.info.len = (uint32_t)(w->len - sizeof(note));
	}
	if (w->cancelled) {
		r.outcome = WIRE_CANCELLED;
	} else if (note.step != WIRE_STEP_NONE) {
		r.outcome = WIRE_FAILED;
		r.step = note.step;
		r.error = (uint32_t)note.number;
		r.text = wire_string(note.text);
	}
	answer(w, &r);
	list_remove(&w->link);
	free(w->buf);
	free(w);
}

void
workers_interest(struct pollset *set)
{
	struct worker *w;
	struct list *l;
	uint64_t wake;

	for (l = all.next; l != &all; l = l->next) {
		w = LIST_OF(l, struct worker, link);
		pipes_interest(&w->pipes, set);
		w->slot = w->len < NOTE_MAX ?
		    pollset_add(set, w->note, POLLIN) : POLLSET_NONE;
		if (!w->exited) {
			pollset_wake(set, w->kill_at);
		} else if (w->note == -1) {
			pollset_wake(set, pipes_dry(&w->pipes, clock_now(),
			    &wake) ? 0 : wake);
		}
	}
}

void
workers_run(const struct pollset *set)
{
	uint64_t now = clock_now(), wake;
	struct list *l, *next;
	struct worker *w;

	for (l = all.next; l != &all; l = next) {
		next = l->next;
		w = LIST_OF(l, struct worker, link);
		if (pipes_run(&w->pipes, set)) {
			commit(w);
		}
		if (pollset_ready(set, w->slot) != 0) {
			read_note(w);
		}
		if (now >= w->kill_at && !w->exited) {
			kill_or_leave(w, now);
		}
		if (w->exited && w->note == -1 &&
		    pipes_dry(&w->pipes, now, &wake)) {
			finish(w);
		} else {
			pipes_tell(&w->pipes, now);
		}
	}
}

static struct worker *
find(pid_t pid)
{
	struct worker *w;
	struct list *l;

	for (l = all.next; l != &all; l = l->next) {
		w = LIST_OF(l, struct worker, link);
		if (w->pid == pid && !w->exited) {
			return w;
		}
	}
	return NULL;
}

bool
workers_know(pid_t pid)
{
	return find(pid) != NULL;
}

bool
workers_reaped(pid_t pid)
{
	struct worker *w = find(pid);

	if (w != NULL) {
		w->exited = true;
		pipes_over(&w->pipes);
	}
	return w != NULL;
}

bool
workers_stop(int number)
{
	struct worker *w;
	struct list *l;
	bool any = false;

	for (l = all.next; l != &all; l = l->next) {
		w = LIST_OF(l, struct worker, link);
		if (!w->exited) {
			/* A half tree goes even when we have gone. */
			tree_kill(w->pid, w->tidies ? SIGTERM : number);
			any = true;
		}
	}
	return any;
}
