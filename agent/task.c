/* SPDX-License-Identifier: MIT */
/* task.c - processes that serve requests: pipes, ends, kills. */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"

#define NOTE_MAX (sizeof(struct task_note) + WIRE_INFO_MAX)

void
tasks_init(struct tasks *tasks)
{
	memset(tasks, 0, sizeof(*tasks));
	list_init(&tasks->all);
}

static void
close_fd(int *fd)
{
	int saved = errno;

	if (*fd != -1) {
		close(*fd);
		*fd = -1;
	}
	errno = saved;
}

/* ---- start ------------------------------------------------------------ */

/* Descriptors of a start in the making: ours and the child's. */
struct ends {
	int in[2], out[2], err[2], note[2];
};

static void
close_ends(struct ends *e)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		close_fd(&e->in[i]);
		close_fd(&e->out[i]);
		close_fd(&e->err[i]);
		close_fd(&e->note[i]);
	}
}

static int
open_ends(struct ends *e, unsigned flags)
{
	*e = (struct ends){ { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if ((flags & TASK_IN && pipe2(e->in, O_CLOEXEC) == -1) ||
	    (flags & TASK_OUT && pipe2(e->out, O_CLOEXEC) == -1) ||
	    (flags & TASK_ERR && pipe2(e->err, O_CLOEXEC) == -1) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->note) == -1) {
		return -1;
	}
	if (flags & TASK_FILE) {
		/* Refused where the user's pipe memory is used up: no harm. */
		fcntl(e->in[1], F_SETPIPE_SZ, AGENT_PIPE);
		fcntl(e->out[0], F_SETPIPE_SZ, AGENT_PIPE);
	}
	fcntl(e->in[1], F_SETFL, O_NONBLOCK);
	fcntl(e->out[0], F_SETFL, O_NONBLOCK);
	fcntl(e->err[0], F_SETFL, O_NONBLOCK);
	fcntl(e->note[0], F_SETFL, O_NONBLOCK);
	return 0;
}

static void
fail_request(struct session_request *req, enum wire_step step, int number,
    const char *what)
{
	struct error error;

	error_set(&error, step, number, "%s", what);
	session_fail(req, &error);
}

static struct task *
task_new(struct tasks *tasks, struct session_request *req, unsigned flags,
    struct ends *e)
{
	struct task *task = calloc(1, sizeof(*task));

	if (task == NULL) {
		return NULL;
	}
	task->req = req;
	task->job = (flags & TASK_JOB) != 0;
	task->commit = (flags & TASK_COMMIT) != 0;
	task->in = e->in[1];
	task->out[0] = e->out[0];
	task->out[1] = e->err[0];
	task->note = e->note[0];
	task->started = task->quiet = clock_now();
	task->deadline = task->kill_at = task->eof_at = CLOCK_NEVER;
	task->grace_ms = AGENT_TIDY_MS;
	task->slot_in = task->slot_note = POLLSET_NONE;
	task->slot_out[0] = task->slot_out[1] = POLLSET_NONE;
	list_append(&tasks->all, &task->link);
	req->app = task;
	return task;
}

struct task *
task_start(struct tasks *tasks, struct session_request *req, unsigned flags,
    void (*child)(const struct task_child *, void *arg), void *arg)
{
	struct task *task;
	struct ends e;
	pid_t pid;

	if (open_ends(&e, flags) == -1) {
		fail_request(req, WIRE_STEP_PIPE, errno, "pipes");
		close_ends(&e);
		return NULL;
	}
	task = task_new(tasks, req, flags, &e);
	pid = task == NULL ? -1 : fork();
	if (pid == -1) {
		fail_request(req, WIRE_STEP_FORK, errno, "a new process");
		if (task != NULL) {
			list_remove(&task->link);
			req->app = NULL;
			free(task);
		}
		close_ends(&e);
		return NULL;
	}
	if (pid == 0) {
		struct task_child c = { e.in[0], e.out[1], e.err[1],
		    e.note[1] };

		core_wipe();
		child_close_others(&c);
		child(&c, arg);
		_exit(127);
	}
	task->pid = pid;
	close_fd(&e.in[0]);
	close_fd(&e.out[1]);
	close_fd(&e.err[1]);
	close_fd(&e.note[1]);
	if (!(flags & TASK_IN)) {
		session_ignore(req, 1);
	}
	return task;
}

/* ---- bytes ------------------------------------------------------------ */

size_t
task_data(struct task *task, const uint8_t *data, size_t len)
{
	ssize_t n;

	if (task->in == -1) {
		return 0;
	}
	do {
		n = write(task->in, data, len);
	} while (n == -1 && errno == EINTR);
	if (n == -1 && errno == EAGAIN) {
		return 0;
	}
	if (n == -1) {
		/* It reads no more: that is its own affair. */
		close_fd(&task->in);
		session_drop(task->req, 1);
		return len;
	}
	task->in_bytes += (size_t)n;
	return (size_t)n;
}

void
task_ended(struct task *task)
{
	struct task_commit commit = { .total = task->in_bytes };

	if (task->in == -1 || task->req->in[1].queue.length > 0) {
		return;
	}
	close_fd(&task->in);
	if (task->commit && send(task->note, &commit, sizeof(commit),
	    MSG_NOSIGNAL) != (ssize_t)sizeof(commit)) {
		close_fd(&task->note);
	}
}

/* What waited in the queue because the pipe was full. */
static void
write_queued(struct task *task)
{
	const uint8_t *data;
	size_t len, n;

	while (task->in != -1 &&
	    (len = session_peek(task->req, 1, &data)) > 0) {
		n = task_data(task, data, len);
		if (task->in == -1 || n == 0) {
			return;
		}
		session_consume(task->req, 1, n);
	}
	if (task->req->in[1].ended) {
		task_ended(task);
	}
}

/*
 * Most jobs end right after their output, and RESULT is its end too: EOF is
 * told only of one that lives on, since each frame costs a transport dear.
 */
void
task_unwanted(struct task *task, unsigned index)
{
	close_fd(&task->out[index]);
	if (task->eof_at == CLOCK_NEVER) {
		task->eof_at = clock_now() + AGENT_EOF_MS * CLOCK_MS;
	}
}

static void
tell_ends(struct task *task)
{
	unsigned i;

	task->eof_at = CLOCK_NEVER;
	for (i = 0; i < 2; i++) {
		if (task->out[i] == -1) {
			session_end(task->req, i);
		}
	}
}

size_t
task_pull(struct task *task, unsigned index, uint8_t *buf, size_t max)
{
	ssize_t n;

	if (task->out[index] == -1) {
		return 0;
	}
	do {
		n = read(task->out[index], buf, max);
	} while (n == -1 && errno == EINTR);
	if (n > 0) {
		task->quiet = clock_now();
		return (size_t)n;
	}
	if (n == 0 || errno != EAGAIN) {
		task_unwanted(task, index);
	}
	return 0;
}

static void
read_note(struct task *task)
{
	uint8_t *buf;
	ssize_t n;

	if (task->note_buf == NULL) {
		/* Nearly always the note just closes: look before allocating. */
		uint8_t first;

		n = recv(task->note, &first, 1, MSG_PEEK);
		if (n == 0) {
			close_fd(&task->note);
			return;
		}
		buf = n < 0 ? NULL : malloc(NOTE_MAX);
		if (buf == NULL) {
			return;
		}
		task->note_buf = buf;
	}
	n = read(task->note, task->note_buf + task->note_len,
	    NOTE_MAX - task->note_len);
	if (n > 0) {
		task->note_len += (size_t)n;
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close_fd(&task->note);
	}
}

/* ---- end -------------------------------------------------------------- */

static void
kill_task(const struct task *task, int number)
{
	if (task->exited && !task->job) {
		return;
	}
	/* A job that has not reached setsid() yet has no group. */
	if (!task->job || (kill(-task->pid, number) == -1 && !task->exited)) {
		kill(task->pid, number);
	}
}

/* A member of this group is our child, so the number cannot be reused. */
static bool
group_alive(pid_t pgid)
{
	siginfo_t info;

	return waitid(P_PGID, (id_t)pgid, &info,
	    WEXITED | WNOHANG | WNOWAIT) == 0;
}

void
task_signal(struct task *task, int number)
{
	if (task->job && !task->exited) {
		kill_task(task, number);
	}
}

void
task_stop(struct task *task, uint8_t outcome)
{
	if (task->stage != TASK_RUNNING) {
		return;
	}
	task->stage = TASK_TERM;
	task->outcome = outcome;
	task->kill_at = clock_now() + task->grace_ms * (uint64_t)CLOCK_MS;
	kill_task(task, SIGTERM);
}

static void
keep_group(struct tasks *tasks, pid_t pgid)
{
	if (!group_alive(pgid)) {
		return;
	}
	if (tasks->group_count == AGENT_GROUPS) {
		/* Rather end it than lose sight of it. */
		kill(-pgid, SIGKILL);
		return;
	}
	tasks->groups[tasks->group_count++] = pgid;
}

/* Background children keep their pipe: it is read to nowhere from now on. */
static void
keep_drain(struct tasks *tasks, int *fd)
{
	if (*fd != -1 && tasks->drain_count < AGENT_DRAINS) {
		tasks->drain_slots[tasks->drain_count] = POLLSET_NONE;
		tasks->drains[tasks->drain_count++] = *fd;
		*fd = -1;
	}
	close_fd(fd);
}

static void
fill_result(const struct task *task, struct wire_result *r)
{
	struct task_note note = { .step = WIRE_STEP_NONE };

	r->in = task->in_bytes;
	r->wall_us = clock_now() - task->started;
	r->detached = task->detached;
	if (task->note_len >= sizeof(note)) {
		memcpy(&note, task->note_buf, sizeof(note));
		note.text[sizeof(note.text) - 1] = '\0';
		r->info.at = task->note_buf + sizeof(note);
		r->info.len = (uint32_t)(task->note_len - sizeof(note));
	} else if (!task->job) {
		note.step = WIRE_STEP_WAIT;
		strcpy(note.text, "the file worker died");
	}
	if (task->outcome != WIRE_EXITED) {
		r->outcome = task->outcome;
	} else if (note.step != WIRE_STEP_NONE) {
		r->outcome = WIRE_FAILED;
		r->step = note.step;
		r->error = (uint32_t)note.number;
	} else if (WIFSIGNALED(task->status)) {
		r->outcome = WIRE_SIGNALED;
		r->code = WTERMSIG(task->status);
	} else {
		r->outcome = WIRE_EXITED;
		r->code = WEXITSTATUS(task->status);
	}
}

static void
finish(struct tasks *tasks, struct task *task)
{
	struct wire_result r = { 0 };
	struct task_note note = { .step = WIRE_STEP_NONE };

	task->detached = task->out[0] != -1 || task->out[1] != -1;
	fill_result(task, &r);
	if (r.outcome == WIRE_FAILED && task->note_len >= sizeof(note)) {
		memcpy(&note, task->note_buf, sizeof(note));
		note.text[sizeof(note.text) - 1] = '\0';
		r.text = wire_string(note.text);
	} else if (r.outcome == WIRE_FAILED) {
		r.text = wire_string("the worker process died");
	}
	if (task->req != NULL) {
		task->req->app = NULL;
		session_result(task->req, &r);
	}
	if (task->job) {
		keep_group(tasks, task->pid);
	}
	keep_drain(tasks, &task->out[0]);
	keep_drain(tasks, &task->out[1]);
	close_fd(&task->in);
	close_fd(&task->note);
	list_remove(&task->link);
	free(task->note_buf);
	free(task);
}

static bool
pipe_empty(int fd)
{
	int n = 0;

	return fd == -1 || ioctl(fd, FIONREAD, &n) == -1 || n == 0;
}

/*
 * Everything the job itself wrote has gone out: both pipes ended, or someone
 * else holds one and it has been empty for a while.
 */
static bool
dry(struct task *task, uint64_t now)
{
	if (task->out[0] == -1 && task->out[1] == -1) {
		return true;
	}
	if (now < task->quiet + AGENT_DRAIN_MS * CLOCK_MS) {
		return false;
	}
	if (pipe_empty(task->out[0]) && pipe_empty(task->out[1]) &&
	    !task->req->out[0].ready && !task->req->out[1].ready) {
		return true;
	}
	task->quiet = now;
	return false;
}

/* A stopped job is over when its whole group is, or has been killed. */
static bool
stopped(struct task *task)
{
	if (task->stage == TASK_RUNNING || !task->job) {
		return true;
	}
	return task->stage == TASK_KILL || !group_alive(task->pid);
}

static void
advance(struct tasks *tasks, struct task *task, uint64_t now)
{
	if (task->stage == TASK_RUNNING && now >= task->deadline &&
	    !task->exited) {
		task_stop(task, WIRE_TIMED_OUT);
	}
	if (task->stage == TASK_TERM && now >= task->kill_at &&
	    (!task->exited || (task->job && group_alive(task->pid)))) {
		task->stage = TASK_KILL;
		kill_task(task, SIGKILL);
	}
	if (task->exited && task->note == -1 && stopped(task) &&
	    dry(task, now)) {
		finish(tasks, task);
	} else if (now >= task->eof_at) {
		tell_ends(task);
	}
}

/* ---- the loop's turn -------------------------------------------------- */

static void
task_interest(struct task *task, struct pollset *set)
{
	unsigned i;

	task->slot_in = task->slot_note = POLLSET_NONE;
	if (task->in != -1 && task->req->in[1].queue.length > 0) {
		task->slot_in = pollset_add(set, task->in, POLLOUT);
	}
	for (i = 0; i < 2; i++) {
		task->slot_out[i] = POLLSET_NONE;
		if (session_hungry(task->req, i)) {
			task->slot_out[i] = pollset_add(set, task->out[i],
			    POLLIN);
		}
	}
	if (task->note != -1 && task->note_len < NOTE_MAX) {
		task->slot_note = pollset_add(set, task->note, POLLIN);
	}
	pollset_wake(set, task->eof_at);
	if (!task->exited) {
		pollset_wake(set, task->deadline);
	} else if (task->note == -1) {
		pollset_wake(set, task->out[0] == -1 && task->out[1] == -1 &&
		    stopped(task) ? 0 :
		    task->quiet + AGENT_DRAIN_MS * CLOCK_MS);
	}
	if (task->stage == TASK_TERM) {
		pollset_wake(set, task->kill_at);
	}
}

void
tasks_interest(struct tasks *tasks, struct pollset *set)
{
	struct list *at;
	unsigned i;

	for (at = tasks->all.next; at != &tasks->all; at = at->next) {
		task_interest(LIST_OF(at, struct task, link), set);
	}
	for (i = 0; i < tasks->drain_count; i++) {
		tasks->drain_slots[i] = pollset_add(set, tasks->drains[i],
		    POLLIN);
	}
}

static void
run_drains(struct tasks *tasks, const struct pollset *set)
{
	static char nowhere[16384];
	unsigned i;
	ssize_t n;

	for (i = 0; i < tasks->drain_count; ) {
		n = 1;
		if (pollset_ready(set, tasks->drain_slots[i]) != 0) {
			n = read(tasks->drains[i], nowhere, sizeof(nowhere));
		}
		if (n > 0 || (n == -1 && (errno == EAGAIN || errno == EINTR))) {
			i++;
			continue;
		}
		close(tasks->drains[i]);
		tasks->drain_count--;
		tasks->drains[i] = tasks->drains[tasks->drain_count];
		tasks->drain_slots[i] = tasks->drain_slots[tasks->drain_count];
	}
}

/* The end alone needs no turn among the flows: take it at once. */
static void
output_ready(struct task *task, unsigned index, short ready)
{
	if ((ready & POLLIN) != 0) {
		session_ready(task->req, index);
	} else if (ready != 0) {
		task_unwanted(task, index);
	}
}

void
tasks_run(struct tasks *tasks, const struct pollset *set)
{
	uint64_t now = clock_now();
	struct list *at, *next;
	struct task *task;
	unsigned i;

	for (at = tasks->all.next; at != &tasks->all; at = next) {
		next = at->next;
		task = LIST_OF(at, struct task, link);
		if (pollset_ready(set, task->slot_in) != 0) {
			write_queued(task);
		}
		for (i = 0; i < 2; i++) {
			output_ready(task, i,
			    pollset_ready(set, task->slot_out[i]));
		}
		if (pollset_ready(set, task->slot_note) != 0) {
			read_note(task);
		}
		advance(tasks, task, now);
	}
	run_drains(tasks, set);
}

void
tasks_reap(struct tasks *tasks)
{
	struct list *at;
	unsigned i;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (at = tasks->all.next; at != &tasks->all; at = at->next) {
			struct task *task = LIST_OF(at, struct task, link);

			if (task->pid == pid) {
				task->exited = true;
				task->status = status;
				task->quiet = clock_now();
				break;
			}
		}
	}
	for (i = 0; i < tasks->group_count; ) {
		if (group_alive(tasks->groups[i])) {
			i++;
		} else {
			tasks->groups[i] = tasks->groups[--tasks->group_count];
		}
	}
}

bool
tasks_alive(const struct tasks *tasks)
{
	return !list_empty(&tasks->all) || tasks->group_count > 0;
}

/* Workers get a signal of their own: they may have to tidy up first. */
static void
kill_all(struct tasks *tasks, int worker)
{
	struct list *at;
	unsigned i;

	for (at = tasks->all.next; at != &tasks->all; at = at->next) {
		struct task *task = LIST_OF(at, struct task, link);

		if (!task->exited || (task->job && group_alive(task->pid))) {
			kill_task(task, task->job ? SIGKILL : worker);
		}
	}
	for (i = 0; i < tasks->group_count; i++) {
		if (group_alive(tasks->groups[i])) {
			kill(-tasks->groups[i], SIGKILL);
		}
	}
}

void
tasks_kill(struct tasks *tasks)
{
	uint64_t start = clock_now();
	uint64_t end = start + AGENT_END_MS * (uint64_t)CLOCK_MS;
	uint64_t tidy = start + AGENT_TIDY_MS * (uint64_t)CLOCK_MS;
	siginfo_t info;

	do {
		kill_all(tasks, clock_now() < tidy ? SIGTERM : SIGKILL);
		tasks_reap(tasks);
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) ==
		    -1) {
			return;		/* no child is left at all */
		}
		usleep(2000);
	} while (clock_now() < end);
}
