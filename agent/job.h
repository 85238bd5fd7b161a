/* SPDX-License-Identifier: MIT */
/*
 * job.h - jobs as the core sees them: their inits, stdio, ends and results.
 *
 * A job is started by EXEC, answers it, and lives on as long as its init has
 * descendants (in the background), or its output is kept (detached).  The
 * core never waits for an init: one that is silent or killed is replaced by
 * the core itself, to which its descendants then come up.
 */
#ifndef JOB_H
#define JOB_H

#include "init.h"
#include "pipes.h"
#include "serve.h"

#define JOBS_MAX 512u			/* running, in the background, kept */
#define JOB_ALIVE_MS 1000u		/* for an init to answer */
#define JOB_KEPT_MS 3600000u		/* a detached one after its end */
#define JOB_INITS 5u			/* tried, if they are killed at once */
#define JOB_BODIES 1048576u		/* bytes of bodies kept for that */

struct joblog;

struct job {
	struct serve serve;		/* of its EXEC */
	struct list link;
	struct pipes pipes;
	uint32_t id;
	uint32_t flags;			/* of EXEC */
	pid_t init, leader;
	uint32_t uid;
	uint16_t rows, columns;		/* asked for before it began */
	int core;			/* our socket to the init, -1: closed */
	uint8_t *body;			/* owned: of EXEC, until it has begun */
	uint32_t body_len;
	unsigned inits;			/* started for it, one by one */
	bool ordered;			/* this one was sent more than that */
	bool unread;			/* it died without reading all */
	int terminal, stub;		/* owned: if it was handed over, for its
					 * size, and until it is let go */
	size_t slot;
	bool begun;			/* INIT_START came */
	bool over;			/* its leader ended, or never was */
	bool gone;			/* nothing of its tree is left */
	bool stopping, alive, taken;	/* see job_stop(), take_over() */
	bool reaped;			/* the init */
	bool finished;			/* its result is final */
	bool told;			/* a failed one's answer said so */
	uint8_t outcome;		/* if not EXITED, why it was stopped */
	int status;			/* of the leader */
	uint32_t grace_ms;
	uint64_t started, ended, deadline, alive_by, stop_by;
	struct error *failure;		/* owned, or NULL */
	struct init_usage usage;
	char *cwd;			/* owned: where it fell back to */
	char *survivors;		/* owned: names, each with its NUL */
	uint32_t survivors_len;
	struct joblog *log;		/* owned: output of a detached one */
	char user[WIRE_USER_MAX + 1];
	char command[WIRE_COMMAND_MAX];
	uint16_t command_len;
};

/* First of all: what jobs take from argv; borrowed. */
void jobs_begin(const struct agent_start *start);

/* Requests: each is answered now or later. */
void job_exec(struct session_request *req, const struct wire_exec *exec,
    const uint8_t *body, uint32_t len);
void job_kill(struct session_request *req, const struct wire_kill *kill);
void job_list(struct session_request *req);	/* joblist.c */

/*
 * False of one that is answered, not kept and gone: only its init is not yet
 * reaped.  To whoever asks there is no such job any more.
 */
bool job_counts(const struct job *job);
/* The job of that number in this session; NULL if there is none. */
struct job *job_find(uint32_t id);
/* The next in order of their starts; NULL first, and at the end. */
struct job *job_next(const struct job *job);

/* To its process group, KILL to its tree. */
void job_signal(struct job *job, int number);
void job_resize(struct job *job, unsigned rows, unsigned columns);
/* How it ended, or is; info is written to buf[WIRE_INFO_MAX]. */
void job_result(const struct job *job, struct wire_result *result,
    struct wire_exec_info *info);
/* Encode *info into buf[WIRE_INFO_MAX] as result's. */
void job_info(struct wire_result *result, const struct wire_exec_info *info,
    uint8_t *buf);
/* Drop the record of one that is finished. */
void job_forget(struct job *job);

/*
 * When there is nothing more urgent: have an init ready for the next job, so
 * that its start need not wait for a fork.
 */
void jobs_prepare(void);

void jobs_interest(struct pollset *set);
void jobs_run(const struct pollset *set);
/* waitpid() gave this: whether it was an init. */
bool jobs_reaped(pid_t pid);
/* Whether a child is one that we forked: an init, a worker. */
bool jobs_know(pid_t pid);
/* Anything alive or kept. */
bool jobs_alive(void);
/* The session is over: end every tree, within a bounded time. */
void jobs_end(void);

#endif
