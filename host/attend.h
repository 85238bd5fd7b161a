/* SPDX-License-Identifier: MIT */
/*
 * attend.h - stays with one job: carries its stdin, stdout and stderr or its
 * terminal, and says how it ended.
 *
 * What exec, shell, attach, wait and logs have in common.  Everything that
 * is to be known beside the output is said on stderr, a line each.
 */
#ifndef ATTEND_H
#define ATTEND_H

#include "clip.h"
#include "run.h"

#define ATTEND_OVER_LIMIT (RUN_SIGNAL + 25)	/* as SIGXFSZ would */

enum attend_how {
	ATTEND_STDIN = 1,		/* pass stdin on */
	ATTEND_TERMINAL = 2,		/* the job has a terminal */
	ATTEND_LEAVE = 4,		/* a signal leaves, the job goes on */
	ATTEND_LOOK = 8			/* however it ends: status 0 */
};

struct attend {
	const char *what;		/* the subcommand; all borrowed */
	const char *target;
	const char *json;		/* where to report, or NULL */
	unsigned flags;			/* enum client_flags */
	unsigned how;			/* enum attend_how */
	enum clip_keep keep;
	uint64_t limit;			/* of each stream, UINT64_MAX: none */
	bool kill;			/* the job, at the limit */

	/* Filled in. */
	struct run_end end;		/* attend_free() frees it */
	struct clip clip[2];		/* stdout, stderr */
	bool over_limit;		/* ended for that */

	/* private */
	struct run run;
};

/*
 * Open the request of msg and stay to its end; the exit status that says how
 * it was.  Complaints, notes and the report have been written.
 */
int attend(struct attend *attend, const struct wire *msg);
void attend_free(struct attend *attend);

#endif
