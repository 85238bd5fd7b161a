/* SPDX-License-Identifier: MIT */
/* job.c - jobs as the core sees them: inits, stdio, ends and results. */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"
#include "clock.h"
#include "joblog.h"
#include "orphans.h"
#include "terminal.h"
#include "tree.h"
#include "worker.h"

#define FILES_MAX 3			/* descriptors with INIT_START */

static struct list all = { &all, &all };
static unsigned count;
static const struct agent_start *agent;
static size_t bodies;			/* bytes kept in all jobs */

/* An init that waits for its job. */
static struct {
	pid_t pid;			/* 0: there is none */
	int core;			/* our socket to it */
	bool wanted;			/* a job has been run */
} spare = { 0, -1, false };

/* ---- records ---------------------------------------------------------- */

struct job *
job_next(const struct job *job)
{
	const struct list *l = job == NULL ? all.next : job->link.next;

	return l == &all ? NULL : LIST_OF((struct list *)(uintptr_t)l,
	    struct job, link);
}

bool
job_counts(const struct job *job)
{
	return job->pipes.req != NULL || job->log != NULL ||
	    !(job->gone || job->reaped);
}

struct job *
job_find(uint32_t id)
{
	struct job *job = NULL;

	while ((job = job_next(job)) != NULL && job->id != id) {
		continue;
	}
	return job != NULL && job_counts(job) ? job : NULL;
}

static struct job *
by_init(pid_t pid)
{
	struct job *job = NULL;

	while ((job = job_next(job)) != NULL &&
	    (job->init != pid || job->reaped)) {
		continue;
	}
	return job;
}

void
jobs_begin(const struct agent_start *start)
{
	agent = start;
}

/* Without one, for want of room, a job has one init and no other. */
static void
keep_body(struct job *job, const uint8_t *body, uint32_t len)
{
	job->body = bodies + len > JOB_BODIES ? NULL : malloc(len);
	if (job->body != NULL) {
		memcpy(job->body, body, len);
		job->body_len = len;
		bodies += len;
	}
}

static void
drop_body(struct job *job)
{
	bodies -= job->body_len;
	job->body_len = 0;
	free(job->body);
	job->body = NULL;
}

/* Its record can go once its init is reaped and its answers are given. */
static void
free_job(struct job *job)
{
	if (job->pipes.req != NULL) {
		job->pipes.req->app = NULL;
	}
	pipes_close(&job->pipes);
	joblog_free(job->log);
	close_fd(&job->core);
	close_fd(&job->terminal);
	close_fd(&job->stub);
	list_remove(&job->link);
	count--;
	drop_body(job);
	free(job->failure);
	free(job->cwd);
	free(job->survivors);
	free(job);
}

void
job_forget(struct job *job)
{
	joblog_free(job->log);
	job->log = NULL;
	job->flags &= ~(uint32_t)WIRE_EXEC_DETACH;
	pipes_close(&job->pipes);
}

/* Room for one more: the oldest kept one makes it. */
static bool
make_room(void)
{
	struct job *job = NULL;

	if (count < JOBS_MAX) {
		return true;
	}
	while ((job = job_next(job)) != NULL) {
		if (job->finished && job->reaped && job->log != NULL) {
			free_job(job);
			return true;
		}
	}
	return false;
}

/* ---- end -------------------------------------------------------------- */

static void
order(struct job *job, enum init_word word, int32_t number)
{
	struct init_msg msg = { .word = (uint8_t)word, .number = number };

	job->ordered = true;
	if (job->core != -1) {
		/* One that does not read is found out by its silence. */
		init_send(job->core, &msg, NULL, 0);
	}
}

/*
 * The init is dead or does not answer: with it gone its descendants come up
 * to us, and every child that we did not fork is ended.
 */
static void
take_over(struct job *job)
{
	if (job->taken) {
		return;
	}
	job->taken = true;
	job->stop_by = clock_now() + INIT_EFFORT_MS * (uint64_t)CLOCK_MS;
	if (!job->reaped) {
		tree_kill(job->init, SIGKILL);
	}
}

static void
job_stop(struct job *job, uint8_t outcome, uint32_t grace_ms)
{
	uint64_t now = clock_now();

	if (job->gone || (job->stopping && grace_ms > 0)) {
		return;
	}
	if (!job->stopping) {
		job->stopping = true;
		job->alive_by = now + JOB_ALIVE_MS * (uint64_t)CLOCK_MS;
		if (!job->over) {
			job->outcome = outcome;
		}
	}
	job->stop_by = now + ((uint64_t)grace_ms + INIT_EFFORT_MS +
	    JOB_ALIVE_MS) * CLOCK_MS;
	order(job, INIT_STOP, grace_ms > INT32_MAX ? INT32_MAX :
	    (int32_t)grace_ms);
}

void
job_signal(struct job *job, int number)
{
	if (number == SIGKILL) {
		job_stop(job, WIRE_EXITED, 0);
	} else if (!job->gone) {
		order(job, INIT_SIGNAL, number);
	}
}

void
job_resize(struct job *job, unsigned rows, unsigned columns)
{
	job->rows = (uint16_t)rows;
	job->columns = (uint16_t)columns;
	if (job->terminal != -1) {
		terminal_resize(job->terminal, rows, columns);
	} else if (job->pipes.terminal && job->pipes.out[0] != -1) {
		terminal_resize(job->pipes.out[0], rows, columns);
	}
}

/* ---- its request ------------------------------------------------------ */

static size_t
on_data(struct session_request *req, const uint8_t *data, size_t len)
{
	struct job *job = req->app;

	return pipes_data(&job->pipes, data, len);
}

static void
on_ended(struct session_request *req)
{
	struct job *job = req->app;

	pipes_ended(&job->pipes);
}

static size_t
on_pull(struct session_request *req, unsigned index, uint8_t *buf, size_t max)
{
	struct job *job = req->app;

	return pipes_pull(&job->pipes, index, buf, max);
}

static void
on_unwanted(struct session_request *req, unsigned index)
{
	struct job *job = req->app;

	pipes_unwanted(&job->pipes, index);
}

static void
on_cancel(struct session_request *req)
{
	struct job *job = req->app;

	job_stop(job, WIRE_CANCELLED, job->grace_ms);
}

static void
on_signal(struct session_request *req, int number)
{
	job_signal(req->app, number);
}

static void
on_resize(struct session_request *req, unsigned rows, unsigned columns)
{
	job_resize(req->app, rows, columns);
}

static const struct serve_ops job_ops = {
	.data = on_data, .ended = on_ended, .pull = on_pull,
	.unwanted = on_unwanted, .cancel = on_cancel, .signal = on_signal,
	.resize = on_resize
};

/* ---- start ------------------------------------------------------------ */

static void
refuse(struct session_request *req, enum wire_step step, int number,
    const char *what)
{
	struct error error;

	error_set(&error, step, number, "%s", what);
	session_fail(req, &error);
}

/* What `ps` shows. */
static void
describe(struct job *job, const struct wire_exec *exec)
{
	struct wire_list argv = exec->argv;
	struct wire_bytes item;
	size_t len = 0, n;

	memcpy(job->user, exec->user.at != NULL ? exec->user.at :
	    (const uint8_t *)"", exec->user.len);
	while (wire_next(&argv, &item) && len < sizeof(job->command)) {
		if (len > 0) {
			job->command[len++] = ' ';
		}
		n = sizeof(job->command) - len;
		n = item.len < n ? item.len : n;
		memcpy(job->command + len, item.at, n);
		len += n;
	}
	job->command_len = (uint16_t)len;
}

static struct job *
new_job(struct session_request *req, const struct wire_exec *exec)
{
	struct job *job = calloc(1, sizeof(*job));

	if (job == NULL) {
		return NULL;
	}
	if (exec->flags & WIRE_EXEC_DETACH) {
		job->log = joblog_new(exec->keep);
		if (job->log == NULL) {
			free(job);
			return NULL;
		}
	}
	job->serve.ops = &job_ops;
	job->id = req->id;
	job->flags = exec->flags;
	job->grace_ms = exec->grace_ms;
	job->started = clock_now();
	job->deadline = CLOCK_NEVER;
	job->slot = POLLSET_NONE;
	job->terminal = job->stub = -1;
	if (exec->timeout_ms > 0 && exec->timeout_ms < CLOCK_NEVER / CLOCK_MS -
	    job->started) {
		job->deadline = job->started + exec->timeout_ms * CLOCK_MS;
	}
	pipes_init(&job->pipes, req);
	job->pipes.awaited = true;
	job->pipes.terminal = (exec->flags & WIRE_EXEC_TTY) != 0;
	describe(job, exec);
	return job;
}

/* An init for body[len], or for what will be sent to it (NULL). */
static pid_t
fork_init(int *core, int terminal, const uint8_t *body, uint32_t len)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == -1) {
		return -1;
	}
	pid = body != NULL && send(pair[0], "", 1, MSG_NOSIGNAL) == -1 ? -1 :
	    fork();
	if (pid == 0) {
		core_wipe();
		init_run(pair[1], terminal, body, len, agent);
	}
	close(pair[1]);
	if (pid == -1) {
		close_fd(&pair[0]);
	} else {
		fcntl(pair[0], F_SETFL, O_RDWR | O_NONBLOCK);
		*core = pair[0];
	}
	return pid;
}

void
jobs_prepare(void)
{
	/* Whoever runs no commands needs none; no matter if it fails. */
	if (spare.wanted && spare.pid == 0) {
		spare.pid = fork_init(&spare.core, -1, NULL, 0);
		spare.pid = spare.pid == -1 ? 0 : spare.pid;
	}
}

/* The waiting init, if there is one and it can take the job. */
static pid_t
use_spare(int *core, const uint8_t *body, uint32_t len)
{
	pid_t pid = spare.pid;

	spare.wanted = true;
	if (pid == 0 || len > INIT_BODY_MAX || send(spare.core, body, len,
	    MSG_NOSIGNAL) != (ssize_t)len) {
		return -1;
	}
	*core = spare.core;
	spare.pid = 0;
	spare.core = -1;
	return pid;
}

/* 0, or -1 with errno. */
static int
start_init(struct job *job, const uint8_t *body, uint32_t len)
{
	job->inits++;
	job->unread = job->ordered = false;
	job->init = job->terminal != -1 ? -1 :
	    use_spare(&job->core, body, len);
	if (job->init == -1) {
		job->init = fork_init(&job->core, job->terminal, body, len);
	}
	return job->init == -1 ? -1 : 0;
}

void
job_exec(struct session_request *req, const struct wire_exec *exec,
    const uint8_t *body, uint32_t len)
{
	struct error error;
	struct job *job;

	if (!make_room()) {
		error_set(&error, WIRE_STEP_BUSY, 0,
		    "%u jobs are running or kept", JOBS_MAX);
		session_fail(req, &error);
		return;
	}
	job = new_job(req, exec);
	if (job == NULL) {
		refuse(req, errno == EBUSY ? WIRE_STEP_BUSY : WIRE_STEP_FORK,
		    errno == EBUSY ? 0 : errno, "memory for a job");
		return;
	}
	if (exec->terminal != 0 && attempts_take(exec->terminal,
	    &job->terminal, &job->stub) == -1) {
		refuse(req, WIRE_STEP_PTY, ENOTTY, "none was handed over");
		joblog_free(job->log);
		free(job);
		return;
	}
	if (start_init(job, body, len) == -1) {
		refuse(req, WIRE_STEP_FORK, errno, "a new process");
		joblog_free(job->log);
		close_fd(&job->terminal);
		close_fd(&job->stub);
		free(job);
		return;
	}
	keep_body(job, body, len);
	list_append(&all, &job->link);
	count++;
	req->app = job;
	if (job->terminal != -1 ||
	    !(exec->flags & (WIRE_EXEC_STDIN | WIRE_EXEC_TTY))) {
		session_ignore(req, 1);
	}
}

/* ---- what its init says ----------------------------------------------- */

static void
fail(struct job *job, enum wire_step step, int number, const char *text)
{
	if (job->failure == NULL) {
		job->failure = malloc(sizeof(*job->failure));
	}
	if (job->failure != NULL) {
		error_set(job->failure, step, number, "%s", text);
	}
}

static char *
keep(const void *text, size_t len)
{
	char *copy = malloc(len + 1);

	if (copy != NULL) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

static void
begun(struct job *job, const struct init_msg *msg, int fds[FILES_MAX],
    unsigned files)
{
	bool handed = job->terminal != -1;
	bool terminal = job->pipes.terminal && !handed;
	int in = files > 2 ? fds[2] : -1;

	if (job->begun || files < (handed ? 0u : terminal ? 1u : 2u)) {
		while (files > 0) {
			close(fds[--files]);
		}
		return;
	}
	drop_body(job);
	job->begun = true;
	job->leader = msg->number;
	job->uid = msg->uid;
	if (msg->len > 0) {
		free(job->cwd);
		job->cwd = keep(msg->text, msg->len);
	}
	if (terminal) {
		in = fcntl(fds[0], F_DUPFD_CLOEXEC, AGENT_NULL_FDS);
	}
	pipes_take(&job->pipes, in, handed ? -1 : fds[0],
	    terminal || handed ? -1 : fds[1]);
	if (job->rows != 0) {
		job_resize(job, job->rows, job->columns);
	}
}

static void
ended(struct job *job, const struct init_msg *msg)
{
	job->usage = msg->usage;
	if (msg->over && !job->over) {
		job->over = true;
		job->status = msg->number;
		job->ended = clock_now();
		pipes_over(&job->pipes);
	}
	if (msg->gone) {
		job->gone = true;
	}
	if (msg->len > 0 && job->survivors == NULL) {
		job->survivors = keep(msg->text, msg->len);
		job->survivors_len = job->survivors == NULL ? 0 : msg->len;
		take_over(job);
	}
}

/* What it may not kill itself; only a child of its own is believed. */
static void
help(struct job *job, pid_t pid)
{
	if (pid > 1 && tree_parent(pid) == job->init) {
		tree_kill(pid, SIGKILL);
	}
	order(job, INIT_HELPED, 0);
}

static void
act_on(struct job *job, struct init_msg *msg, int fds[FILES_MAX],
    unsigned files)
{
	char text[INIT_TEXT + 1];

	switch (msg->word) {
	case INIT_START:
		begun(job, msg, fds, files);
		break;
	case INIT_FAIL:
		memcpy(text, msg->text, msg->len);
		text[msg->len] = '\0';
		fail(job, (enum wire_step)msg->step, msg->number, text);
		break;
	case INIT_END:
		ended(job, msg);
		break;
	case INIT_HELP:
		help(job, msg->number);
		break;
	case INIT_ALIVE:
		job->alive = true;
		break;
	default:
		break;
	}
}

/* One message; false if there is none now. */
static bool
hear_one(struct job *job)
{
	union {
		char buf[CMSG_SPACE(FILES_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct init_msg msg;
	struct iovec iov = { &msg, sizeof(msg) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
	    .msg_control = control.buf,
	    .msg_controllen = sizeof(control.buf) };
	struct cmsghdr *c;
	int fds[FILES_MAX];
	unsigned files = 0;
	ssize_t n;

	if (job->core == -1) {
		return false;
	}
	n = recvmsg(job->core, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
		return false;
	}
	if (n == -1 && errno == ECONNRESET) {
		job->unread = true;
		return true;		/* what it said is still to come */
	}
	if (n < (ssize_t)offsetof(struct init_msg, text)) {
		close_fd(&job->core);
		return false;
	}
	c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_level == SOL_SOCKET &&
	    c->cmsg_type == SCM_RIGHTS) {
		files = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), files * sizeof(int));
	}
	msg.len = (uint32_t)((size_t)n - offsetof(struct init_msg, text));
	if (msg.word != INIT_START) {
		while (files > 0) {
			close(fds[--files]);
		}
	}
	act_on(job, &msg, fds, files);
	return true;
}

static void
hear(struct job *job)
{
	while (hear_one(job)) {
		continue;
	}
}

/*
 * The job's init is dead, and the job is still to be done: nothing of it has
 * run, nor was anything else asked of that init.
 */
static bool
never_took(const struct job *job)
{
	return job->unread && !job->ordered && job->body != NULL &&
	    job->failure == NULL && !job->taken;
}

bool
jobs_reaped(pid_t pid)
{
	struct job *job = by_init(pid);

	if (job == NULL && pid != spare.pid) {
		return orphans_reaped(pid);
	}
	if (job == NULL) {
		spare.pid = 0;
		close_fd(&spare.core);
		return true;
	}
	hear(job);
	close_fd(&job->core);
	if (never_took(job) && job->inits == JOB_INITS) {
		fail(job, WIRE_STEP_WAIT, 0, "each init process was killed "
		    "before it had started the command");
	} else if (never_took(job)) {
		if (start_init(job, job->body, job->body_len) == 0) {
			return true;
		}
		fail(job, WIRE_STEP_FORK, errno, "a new process");
	}
	job->reaped = true;
	if (job->failure != NULL && !job->begun) {
		/* It never had a leader. */
		job->over = job->gone = true;
		job->ended = clock_now();
	}
	if (!job->gone) {
		if (!job->over && !job->taken) {
			fail(job, WIRE_STEP_WAIT, 0,
			    "the job's init process was killed");
		}
		take_over(job);
	}
	if (job->taken) {
		/* They are ours now, and we may be able to end them. */
		orphans_expect();
		job->stop_by = clock_now() + INIT_EFFORT_MS *
		    (uint64_t)CLOCK_MS;
	}
	return true;
}

/* ---- its answer ------------------------------------------------------- */

void
job_info(struct wire_result *result, const struct wire_exec_info *info,
    uint8_t *buf)
{
	struct wire msg = { .type = WIRE_EXEC_INFO, .u.exec_info = *info };
	size_t len;

	if (wire_encode(&msg, buf, WIRE_INFO_MAX, &len) == WIRE_OK) {
		result->info = (struct wire_bytes){ buf, (uint32_t)len };
	}
}

/* Names with their NULs as a list's raw bytes. */
static struct wire_list
list_names(const char *names, uint32_t len)
{
	static uint8_t raw[2 * INIT_TEXT];
	struct wire_list list = { 0, { raw, 0 } };
	uint32_t at, n;

	for (at = 0; at < len && list.raw.len + 4 + INIT_TEXT / 2 <
	    sizeof(raw); at += n + 1) {
		n = (uint32_t)strnlen(names + at, len - at);
		memcpy(raw + list.raw.len, (uint8_t[4]){ 0, 0,
		    (uint8_t)(n >> 8), (uint8_t)n }, 4);
		memcpy(raw + list.raw.len + 4, names + at, n);
		list.raw.len += 4 + n;
		list.count++;
	}
	return list;
}

void
job_result(const struct job *job, struct wire_result *r,
    struct wire_exec_info *info)
{
	r->in = job->pipes.in_bytes;
	r->wall_us = (job->over ? job->ended : clock_now()) - job->started;
	r->outcome = WIRE_EXITED;
	if (job->outcome != WIRE_EXITED) {
		r->outcome = job->outcome;
	} else if (job->failure != NULL) {
		r->outcome = WIRE_FAILED;
		r->step = (uint8_t)job->failure->step;
		r->error = (uint32_t)job->failure->number;
		r->text = wire_string(job->failure->text);
	} else if (job->over && WIFSIGNALED(job->status)) {
		r->outcome = WIRE_SIGNALED;
		r->code = WTERMSIG(job->status);
	} else if (job->over) {
		r->code = WEXITSTATUS(job->status);
	}
	*info = (struct wire_exec_info){ .job = job->id, .uid = job->uid,
	    .user_us = job->usage.user_us,
	    .system_us = job->usage.system_us,
	    .read_blocks = job->usage.read_blocks,
	    .written_blocks = job->usage.written_blocks,
	    .peak_kib = job->usage.peak_kib };
	if (job->cwd != NULL) {
		info->flags |= WIRE_EXEC_CWD_FELL_BACK;
		info->cwd = wire_string(job->cwd);
	}
	if (!job->over) {
		info->flags |= WIRE_EXEC_RUNNING;
	}
	if (job->survivors != NULL) {
		info->survivors = list_names(job->survivors,
		    job->survivors_len);
	}
}

/* Give the answer; whoever still holds the pipes is read to nowhere. */
static void
answer(struct job *job)
{
	static uint8_t buf[WIRE_INFO_MAX];
	struct session_request *req = job->pipes.req;
	struct wire_result r = { .outcome = WIRE_EXITED };
	struct wire_exec_info info;

	job_result(job, &r, &info);
	r.detached = job->over && (job->pipes.out[0] != -1 ||
	    job->pipes.out[1] != -1);
	job_info(&r, &info, buf);
	req->app = NULL;
	job->pipes.req = NULL;
	session_result(req, &r);
	close_fd(&job->terminal);
	close_fd(&job->stub);
}

/* Whether everything that its result tells has happened. */
static bool
settled(struct job *job)
{
	if (job->flags & WIRE_EXEC_KILL_BACKGROUND && job->over &&
	    !job->gone && !job->stopping) {
		job_stop(job, WIRE_EXITED, job->grace_ms);
	}
	return job->over && (job->gone || !job->stopping);
}

bool
jobs_know(pid_t pid)
{
	return by_init(pid) != NULL || pid == spare.pid ||
	    workers_know(pid) || orphans_know(pid);
}

/* Of the init's survivors those that survived us as well. */
static void
check_survivors(struct job *job)
{
	uint32_t at, n, left = 0;
	char *name;

	for (at = 0; at < job->survivors_len; at += n) {
		name = job->survivors + at;
		n = (uint32_t)strlen(name) + 1;
		if (tree_is_child((pid_t)strtol(name, NULL, 10))) {
			memmove(job->survivors + left, name, n);
			left += n;
		}
	}
	job->survivors_len = left;
}

/* What we could not end ourselves, an init that does not die included. */
static void
name_survivors(struct job *job)
{
	char names[INIT_TEXT];
	size_t len;

	if (job->survivors != NULL) {
		check_survivors(job);
		return;
	}
	len = tree_names(names, sizeof(names), jobs_know);
	if (!job->reaped) {
		len = (size_t)snprintf(names, sizeof(names), "%d init",
		    (int)job->init) + 1;
	}
	if (len > 0) {
		job->survivors = keep(names, len);
		job->survivors_len = job->survivors == NULL ? 0 :
		    (uint32_t)len;
	}
}

static void
check_time(struct job *job, uint64_t now)
{
	if (!job->over && !job->stopping && now >= job->deadline) {
		job_stop(job, WIRE_TIMED_OUT, job->grace_ms);
	}
	if (job->stopping && !job->gone && !job->taken && ((!job->alive &&
	    now >= job->alive_by) || now >= job->stop_by)) {
		take_over(job);
	}
	/* Others' orphans, and new ones, are no reason to wait for longer. */
	if (job->taken && !job->gone && (now >= job->stop_by ||
	    (job->reaped && orphans_over()))) {
		job->gone = true;
		name_survivors(job);
		if (!job->over) {
			job->over = true;
			job->status = SIGKILL;
			if (job->survivors_len > 0) {
				fail(job, WIRE_STEP_WAIT, 0, "it or a child "
				    "of it could not be ended");
			}
			job->ended = now;
			pipes_over(&job->pipes);
		}
	}
}

/* False if it has gone. */
static bool
advance(struct job *job, uint64_t now)
{
	uint64_t wake;

	check_time(job, now);
	if (job->log != NULL) {
		if (job->pipes.req != NULL && ((job->begun &&
		    job->failure == NULL) || settled(job))) {
			job->told = job->failure != NULL;
			answer(job);
			pipes_serve(&job->pipes, NULL);
		}
		job->finished = job->pipes.req == NULL && settled(job);
		if (job->told && job->finished) {
			job_forget(job);
		}
	} else if (job->pipes.req != NULL) {
		if (settled(job) && pipes_dry(&job->pipes, now, &wake)) {
			answer(job);
			pipes_close(&job->pipes);
		} else {
			pipes_tell(&job->pipes, now);
		}
	}
	if (job->log != NULL && job->finished &&
	    now >= job->ended + JOB_KEPT_MS * (uint64_t)CLOCK_MS) {
		job_forget(job);
	}
	if (job->pipes.req == NULL && job->reaped && job->log == NULL) {
		free_job(job);
		return false;
	}
	return true;
}

/* ---- the loop's turn -------------------------------------------------- */

static void
wake_for(struct job *job, struct pollset *set, uint64_t now)
{
	uint64_t wake;

	if (!job->over && !job->stopping) {
		pollset_wake(set, job->deadline);
	}
	if ((job->stopping || job->taken) && !job->gone) {
		pollset_wake(set, job->alive || job->taken ? job->stop_by :
		    job->alive_by);
	}
	if (job->log == NULL && job->pipes.req != NULL && settled(job)) {
		pollset_wake(set, pipes_dry(&job->pipes, now, &wake) ? 0 :
		    wake);
	}
	if (job->log != NULL && job->finished) {
		pollset_wake(set, job->ended + JOB_KEPT_MS *
		    (uint64_t)CLOCK_MS);
	}
}

void
jobs_interest(struct pollset *set)
{
	uint64_t now = clock_now();
	struct job *job = NULL;

	while ((job = job_next(job)) != NULL) {
		job->slot = pollset_add(set, job->core, POLLIN);
		if (job->log == NULL) {
			pipes_interest(&job->pipes, set);
		} else {
			joblog_interest(job, set);
		}
		wake_for(job, set, now);
	}
	orphans_interest(set, now);
	drains_interest(set);
}

void
jobs_run(const struct pollset *set)
{
	uint64_t now = clock_now();
	struct list *l, *next;
	struct job *job;

	for (l = all.next; l != &all; l = next) {
		next = l->next;
		job = LIST_OF(l, struct job, link);
		if (pollset_ready(set, job->slot) != 0) {
			hear(job);
		}
		if (job->log == NULL) {
			pipes_run(&job->pipes, set);
		} else {
			joblog_run(job, set);
		}
		advance(job, now);
	}
	orphans_run(now);
	drains_run(set);
}

bool
jobs_alive(void)
{
	return count > 0;
}

/* ---- KILL ------------------------------------------------------------- */

void
job_kill(struct session_request *req, const struct wire_kill *msg)
{
	struct wire_result r = { .outcome = WIRE_EXITED };
	struct job *job = job_find(msg->job);
	char id[16];

	if (job == NULL || job->gone) {
		snprintf(id, sizeof(id), "%u", (unsigned)msg->job);
		refuse(req, WIRE_STEP_JOB, ESRCH, id);
		return;
	}
	if (msg->signal > 64) {
		refuse(req, WIRE_STEP_USAGE, EINVAL, "no such signal");
		return;
	}
	if (msg->signal == 0) {
		job_stop(job, WIRE_EXITED, job->grace_ms);
	} else {
		job_signal(job, msg->signal);
	}
	session_result(req, &r);
}

/* ---- the session's end ------------------------------------------------ */

static void
reap_all(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (!jobs_reaped(pid)) {
			workers_reaped(pid);
		}
	}
}

void
jobs_end(void)
{
	uint64_t start = clock_now(), now = start;
	uint64_t tidy = start + AGENT_TIDY_MS * (uint64_t)CLOCK_MS;
	uint64_t end = start + (INIT_EFFORT_MS + JOB_ALIVE_MS) *
	    (uint64_t)CLOCK_MS;
	struct job *job = NULL;
	siginfo_t info;

	close_fd(&spare.core);
	while ((job = job_next(job)) != NULL) {
		job_stop(job, WIRE_CANCELLED, 0);
	}
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	    now < end) {
		workers_stop(now < tidy ? SIGTERM : SIGKILL);
		reap_all();
		now = clock_now();
		while ((job = job_next(job)) != NULL) {
			hear(job);
			check_time(job, now);
		}
		orphans_run(now);
		usleep(2000);
	}
}
