/* SPDX-License-Identifier: MIT */
/*
 * jobs.h - asks a target about its jobs: for ps, kill, wait, logs, attach.
 */
#ifndef JOBS_H
#define JOBS_H

#include "error.h"
#include "options.h"
#include "text.h"

struct jobs_operands {
	const char *target;
	uint32_t job;
};

/* TARGET JOB and nothing more; 0, or -1 with *error. */
int jobs_operands(struct jobs_operands *operands,
    const struct options *options, struct error *error);

/*
 * A request that ends by itself; what comes on OUT goes to text.  Blocks.  0,
 * or -1 with *error.
 */
int jobs_ask(const char *target, const struct wire *msg, struct text *text,
    struct error *error);

/*
 * The next job of an answer to JOBS, of which at[*len] is left: 1, 0 at the
 * end, or -1 with *error.  job borrows from the answer.
 */
int jobs_next(const char **at, size_t *len, struct wire_job *job,
    struct error *error);

#endif
