/* SPDX-License-Identifier: MIT */
/*
 * child.h - a job's own process, from its request to exec.
 *
 * Called by init.c: child_spec() when the request has come, child_exec() in
 * the leader that it forks.  What every process of the agent's resets or
 * closes is here too, for core.c, stub.c and worker.c.
 */
#ifndef CHILD_H
#define CHILD_H

#include "agent.h"
#include "user.h"

/* What the four variables of a user are called; indexes of given[]. */
#define CHILD_USER_VARS 4

/* A command ready to run: all strings in one block, NULL-ended vectors. */
struct child_spec {
	const char *user;		/* to look up; NULL: stay who we are */
	const char *groups;		/* borrowed: added to the user's */
	bool named;			/* user comes from the request */
	char *cwd;			/* NULL: where the core is, or a home */
	char **argv;
	char **envp;			/* with room for CHILD_USER_VARS more */
	size_t env_count;
	bool given[CHILD_USER_VARS];	/* the request has a say on these */
	unsigned flags;			/* enum wire_exec_flags */
	int terminal;			/* borrowed: handed over; -1: none */
	uint16_t rows, columns;
	uint32_t umask;
	int32_t nice;
	struct wire_list limits;
	void *block;			/* holds it while the init lives */
};

/*
 * Check an EXEC body and make a spec of it, with the agent's own environment
 * as the base.  0, or -1 with *error (step USAGE names the argument).
 */
int child_spec(struct child_spec *spec, const struct wire_exec *exec,
    const struct agent_start *start, struct error *error);

/*
 * In the init: HOME, USER, LOGNAME and SHELL of a user, unless given.  0, or
 * -1 with errno.
 */
int child_user_env(struct child_spec *spec, const struct user *user);

/*
 * In the leader, whose memory is still the init's: a session of
 * its own, stdio (in is the slave of a terminal with WIRE_EXEC_TTY), limits,
 * exec.  Returns only on failure: the step, with errno and *what set.
 */
enum wire_step child_exec(const struct child_spec *spec, int in, int out,
    int err, const char **what);

/* Close the descriptors from first to last. */
void child_close(int first, int last);

/*
 * The core, before it installs handlers: every signal gets its default, so
 * that no child has to see to it, and the descriptor limit is raised.
 */
void child_prepare(void);
/* In a child: undo what the core has changed for itself since then. */
void child_reset(void);

#endif
