/* SPDX-License-Identifier: MIT */
/*
 * sandbox.h - a sandbox that `up` makes: its settings and where it is.
 *
 * config.c fills one from a file or a record; record.c keeps it on disk; the
 * transports make and remove it; the controller holds it for clients that
 * name it and lays its settings over their requests (overlay.c).
 */
#ifndef SANDBOX_H
#define SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "items.h"
#include "rlimits.h"

#define SANDBOX_KEY_MAX 63		/* of `sandboxes:` */
#define SANDBOX_KEY "default"		/* of a file's only one */
#define SANDBOX_PREFIX "smx-"		/* then 65 random bits in base32 */

enum sandbox_state {
	SANDBOX_CREATING,		/* or `up` was killed */
	SANDBOX_READY,
	SANDBOX_REMOVING
};

enum sandbox_agent {
	SANDBOX_AGENT_AUTO,		/* the image's, else ours is put there */
	SANDBOX_AGENT_INJECT,		/* always ours */
	SANDBOX_AGENT_NEVER		/* the image's, or a failure */
};

/* All strings are owned, NULL where there is none; times are ms, 0: none. */
struct sandbox {
	unsigned refs;
	/* what the configuration says */
	char *key;
	char *transport;
	char *image;
	char *build;			/* directory, absolute */
	char *policy;			/* file, absolute */
	char *base;			/* directory that paths are relative to */
	char *workdir;			/* NULL: the target's own */
	char *user;			/* NULL: the target's own */
	char *agent;			/* path of the image's agent */
	char *agent_name;		/* file name of one that is put there */
	char *agent_user;		/* root, image; NULL: as it can be */
	enum sandbox_agent agent_mode;
	struct items create_args, exec_args, command;
	bool has_command;
	struct items env;		/* K=V, a later one counts */
	struct items hide;		/* names that no job sees */
	struct limits limits;
	uint64_t build_ms, create_ms, delete_ms;
	uint64_t exec_ms;		/* the longest that a job may run */
	/* what `up` has added */
	char *name;
	enum sandbox_state state;
	uint64_t created;		/* seconds since 1970 */
	char *container;		/* its id; NULL: not known, or none */
	char *directory;		/* of a local one */
	struct items select;		/* K=V: its transport's, as at `up` */
};

/* An empty one with one reference; NULL with errno. */
struct sandbox *sandbox_new(void);
struct sandbox *sandbox_hold(struct sandbox *sandbox);
/* NULL is fine. */
void sandbox_release(struct sandbox *sandbox);

/* A name of its own, malloc()ed; NULL with errno. */
char *sandbox_make_name(void);

/* Replace an owned string by a copy of text (NULL: none); 0, or -1+errno. */
int sandbox_set(char **to, const char *text);

/* "creating", "ready", "removing" */
const char *sandbox_words(enum sandbox_state state);

#endif
