/* SPDX-License-Identifier: MIT */
/*
 * child.h - the controller's own child processes: start, end, reaping.
 *
 * Every child has a session of its own (no terminal to ask on, one process
 * group to kill) and dies with the controller.  The loop calls child_reap()
 * after SIGCHLD; whoever started a child looks at its `exited`.
 */
#ifndef CHILD_H
#define CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "list.h"

#define CHILD_TICK_MS 20u	/* between two looks whether one has ended */

struct child {
	struct list link;	/* all that are not reaped */
	pid_t pid;		/* -1: none */
	int status;		/* waitpid()'s, once exited */
	bool exited;		/* reaped; pid is history */
	bool owned;		/* freed by child_reap(): nobody looks */
};

struct child_spec {
	const char *path;	/* no PATH search */
	char *const *argv;
	char *const *env;
	const char *cwd;	/* NULL or unusable: "/" */
	int in, out, err;	/* borrowed; -1: /dev/null */
};

/*
 * Before any other call: remembers the file limit and umask, which children
 * get back, and sets our own (as many files as we may have, 077).
 */
void child_init(void);

/* An empty value, fine for all calls below. */
void child_clear(struct child *child);

/*
 * Start a program.  A failed exec is said on its stderr, with status 127.
 * 0, or -1 with errno; does not block.
 */
int child_spawn(struct child *child, const struct child_spec *spec);

/*
 * Fork: the child returns 0 with default signals, in its own session, all
 * else the parent's.  The parent gets the pid, or -1 with errno.
 */
pid_t child_fork(struct child *child);

/* Signal its group, if it is not reaped yet. */
void child_kill(struct child *child, int number);

/* Reap all that ended, and kill what they left in their groups. */
void child_reap(void);

/* Kill and no longer look at it; it is reaped when it is gone. */
void child_drop(struct child *child);

/* "exited with status 3", "was killed by signal 9", "is running". */
void child_words(const struct child *child, char *out, size_t cap);

#endif
