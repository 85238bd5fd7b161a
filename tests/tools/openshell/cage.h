/* SPDX-License-Identifier: MIT */
/*
 * cage.h - what a command in the sandbox may do.
 *
 * The supervisor prepares one cage as root and every child enters it after
 * fork: identity, no capabilities, empty bounding set, no_new_privs,
 * Landlock, seccomp.  Entering is async-signal-safe and has no way back.
 */
#ifndef CAGE_H
#define CAGE_H

#include <sys/types.h>

#define CAGE_GROUPS 32

struct cage {
	uid_t uid;
	gid_t gid;
	gid_t groups[CAGE_GROUPS];
	size_t ngroups;
	int ruleset;		/* owned; -1 where the kernel has no Landlock */
	const char *workdir;	/* borrowed */
};

/*
 * Resolves the image's USER and opens every path of the rules: those of
 * the policy's text, or, if that is NULL or has none, the default ones.  0, or -1
 * with *why saying what the real one would say.
 */
int cage_prepare(struct cage *c, const char *user, const char *workdir,
    const char *policy, const char **why);

/* In the child.  0, or -1 + errno of the step that failed. */
int cage_enter(const struct cage *c);

#endif
