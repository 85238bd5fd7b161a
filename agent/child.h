/* SPDX-License-Identifier: MIT */
/*
 * child.h - a job's own process, from fork to exec.
 */
#ifndef CHILD_H
#define CHILD_H

#include "task.h"

/* A command ready to run: all strings in one block, NULL-ended vectors. */
struct child_spec {
	char *cwd;			/* NULL: stay where the core is */
	char **argv;
	char **envp;
	void *block;			/* owned; holds all of the above */
	bool has_stdin;
};

/*
 * Check an EXEC body and make a spec of it, with the agent's own environment
 * as the base.  0, or -1 with *error (step USAGE names the argument).
 */
int child_spec(struct child_spec *spec, const struct wire_exec *exec,
    struct error *error);
void child_spec_free(struct child_spec *spec);

/* task_start()'s child for a struct child_spec. */
void child_run(const struct task_child *c, void *spec);

/* Say on the note why, and end.  Also for workers. */
void child_fail(int note, enum wire_step step, int number, const char *text)
    __attribute__((noreturn));

/* Keep only what the child was given, and fds 0 to 2. */
void child_close_others(const struct task_child *c);

/*
 * The core, before it installs handlers: every signal gets its default, so
 * that no child has to see to it, and the descriptor limit is raised.
 */
void child_prepare(void);
/* In a child: undo what the core has changed for itself since then. */
void child_reset(void);

#endif
