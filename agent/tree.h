/* SPDX-License-Identifier: MIT */
/*
 * tree.h - a process's descendants: finding, signalling and ending them.
 *
 * KILL goes only to the caller's own unreaped children, whose numbers cannot
 * be reused: as they die, their children come up to the caller, a subreaper.
 * What only reads, or sends a milder signal, may walk /proc.
 */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Call visit for each child of the caller that is not reaped yet, the newest
 * first: of a storm's, those are the living.  Of more than fit into one look
 * the oldest are left for the next, when others have been reaped.
 */
void tree_children(void (*visit)(pid_t pid, void *ctx), void *ctx);

/* Whether pid is a child of the caller's that is not reaped yet. */
bool tree_is_child(pid_t pid);

/*
 * kill() as the caller, or, where a root without CAP_KILL is refused, by a
 * helper that has become the target's user.  0, or -1 with errno.
 */
int tree_kill(pid_t pid, int number);

/*
 * KILL for a child of the caller, unreaped, and at once for its group,
 * against those that fork faster than one can look.  0, or -1 with errno if
 * the child itself was not to be killed.
 */
int tree_end(pid_t pid);

#define TREE_FREEZE_MS 1000u		/* to stop a tree before its end */

/* Who pid's parent is; 0 if that cannot be seen. */
pid_t tree_parent(pid_t pid);

/* One process of a snapshot of /proc. */
struct tree_process {
	pid_t pid, parent;
	uint64_t started;		/* with pid: who it is */
	uint64_t cpu_us;		/* its own and its reaped children's */
	char state;			/* as in /proc/PID/stat */
	bool inside;			/* a descendant of the root asked for */
};
struct tree {
	struct tree_process *all;	/* owned */
	size_t count;
};

/*
 * 0, or -1 if /proc is hidden or memory is short.  What could not be read
 * until then, by the clock, is missing: a storm's processes are many.
 */
int tree_read(struct tree *tree, uint64_t until);
void tree_free(struct tree *tree);
/* Mark the descendants of root, root itself not; their number. */
unsigned tree_mark(struct tree *tree, pid_t root);

/*
 * Send a signal, after TERM also CONT, to every descendant of the caller;
 * with /proc hidden to its children's groups only.
 */
void tree_signal(int number);

/*
 * Stop every descendant of root, but for its children that skip knows (NULL:
 * none) and theirs; takes up to TREE_FREEZE_MS.  Where a limit of processes
 * keeps those that fork without end at bay, each one killed makes room for
 * the next; a stopped one makes none.  For what KILL comes to next.
 */
void tree_freeze(pid_t root, bool (*skip)(const struct tree_process *p));
/* The caller as a snapshot shows it; 0, or -1. */
int tree_self(struct tree_process *self);

/*
 * "PID NAME" and NUL for each child left that skip does not know (NULL: all);
 * the bytes used of out[cap].
 */
size_t tree_names(char *out, size_t cap, bool (*skip)(pid_t pid));

#endif
