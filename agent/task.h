/* SPDX-License-Identifier: MIT */
/*
 * task.h - a request that a process of its own serves: a job or a worker.
 *
 * The core starts it and moves bytes between its pipes and the request's
 * flows.  Beside stdio there is the note: a socket on which the process says
 * why it failed (or what it found), closed by exec.  A task ends when its
 * process is reaped, its pipes are dry and the note is closed.
 */
#ifndef TASK_H
#define TASK_H

#include "agent.h"

/* What a child writes first on its note, if anything; then info bytes. */
struct task_note {
	uint8_t step;			/* WIRE_STEP_NONE: all went well */
	int number;			/* errno */
	char text[256];			/* names the thing; NUL-terminated */
};

/* core -> worker on the note: the file is complete at this length. */
struct task_commit {
	uint64_t total;
};

enum task_stage {
	TASK_RUNNING,
	TASK_TERM,			/* TERM sent, KILL at kill_at */
	TASK_KILL
};

/* What a child gets; all descriptors are its own by then. */
struct task_child {
	int in, out, err;		/* -1: /dev/null, or none */
	int note;
};

struct task {
	struct list link;
	struct session_request *req;	/* NULL: freed with the session */
	pid_t pid;
	int in, out[2], note;		/* owned, -1 when closed */
	bool job;			/* else a worker */
	bool commit;			/* IN's end is told on the note */
	bool exited, detached;
	int status;			/* of waitpid() */
	enum task_stage stage;
	uint8_t outcome;		/* TIMED_OUT, CANCELLED, or EXITED */
	uint32_t grace_ms;
	uint64_t started, deadline, kill_at, quiet, eof_at;
	uint64_t in_bytes;
	uint8_t *note_buf;		/* owned */
	size_t note_len;
	size_t slot_in, slot_out[2], slot_note;
};

/* All tasks and what ended jobs left running. */
struct tasks {
	struct list all;
	pid_t groups[AGENT_GROUPS];	/* alive: they hold a child of ours */
	unsigned group_count;
	int drains[AGENT_DRAINS];	/* pipes read to nowhere, owned */
	size_t drain_slots[AGENT_DRAINS];
	unsigned drain_count;
};

void tasks_init(struct tasks *tasks);

/*
 * Start child(arg) in a new process with the pipes that flags ask for, and
 * serve req with it.  On failure req has been answered.  child never
 * returns; before it runs, keys are wiped and all other descriptors closed.
 */
enum task_flags {
	TASK_IN = 1, TASK_OUT = 2, TASK_ERR = 4,
	TASK_JOB = 8,			/* a process group of the request's */
	TASK_COMMIT = 16,
	TASK_FILE = 32			/* large pipes */
};
struct task *task_start(struct tasks *tasks, struct session_request *req,
    unsigned flags, void (*child)(const struct task_child *, void *arg),
    void *arg);

/* Session events for a request whose app is a task. */
size_t task_data(struct task *task, const uint8_t *data, size_t len);
void task_ended(struct task *task);
size_t task_pull(struct task *task, unsigned index, uint8_t *buf, size_t max);
void task_unwanted(struct task *task, unsigned index);
void task_signal(struct task *task, int number);
/* End it: TERM, grace, KILL; outcome is what the result will say. */
void task_stop(struct task *task, uint8_t outcome);

void tasks_interest(struct tasks *tasks, struct pollset *set);
void tasks_run(struct tasks *tasks, const struct pollset *set);
/* After SIGCHLD. */
void tasks_reap(struct tasks *tasks);
/* Kill every group and worker; wait for them for AGENT_END_MS at most. */
void tasks_kill(struct tasks *tasks);
/* Whether any job or what it left is alive. */
bool tasks_alive(const struct tasks *tasks);

/* core.c: in a child, first thing: wipe keys. */
void core_wipe(void);

#endif
