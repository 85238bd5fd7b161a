/* SPDX-License-Identifier: MIT */
/*
 * jobspec.h - the job that exec's and shell's options and operands ask for.
 */
#ifndef JOBSPEC_H
#define JOBSPEC_H

#include "envlist.h"
#include "error.h"
#include "items.h"
#include "rlimits.h"
#include "options.h"

#define JOBSPEC_GRACE_MS 2000u		/* TERM to KILL, by default */

/* Options without a letter of their own, for the tables of the commands. */
enum {
	JOBSPEC_ENV_FILE = 256, JOBSPEC_UNSET, JOBSPEC_CLEAR_ENV,
	JOBSPEC_TIMEOUT, JOBSPEC_GRACE, JOBSPEC_KILL_BACKGROUND,
	JOBSPEC_LIMIT, JOBSPEC_NICE, JOBSPEC_UMASK, JOBSPEC_LOG_SIZE,
	JOBSPEC_SAME_AGENT,
	JOBSPEC_OTHER			/* from here on the command's own */
};

struct jobspec {
	const char *target;
	unsigned flags;			/* enum client_flags */
	struct wire_exec msg;		/* lists: by jobspec_complete() */

	/* private */
	struct envlist env, files;
	struct items argv, limit_items;
	struct limits limits;
};

void jobspec_init(struct jobspec *spec);
void jobspec_free(struct jobspec *spec);

/* One option: 0, -1 with *error, or 1: it is none of the job's. */
int jobspec_option(struct jobspec *spec, int id, const char *value,
    struct error *error);

/* The operand TARGET; what is the subcommand, for errors.  0, or -1. */
int jobspec_target(struct jobspec *spec, struct options *options,
    const char *what, struct error *error);

void jobspec_word(struct jobspec *spec, const char *word);

/*
 * All is said: put the lists of msg together, which borrow from spec.  A job
 * with a terminal gets TERM, if nothing said else, and the user's size.  0,
 * or -1 with *error.
 */
int jobspec_complete(struct jobspec *spec, struct error *error);

/* -u's value, for other commands too: 0, or -1 with *error. */
int jobspec_user(const char *text, struct wire_bytes *user,
    struct error *error);

#endif
