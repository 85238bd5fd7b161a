/* SPDX-License-Identifier: MIT */
/*
 * joblog.h - a detached job's kept output, and the requests that read it.
 *
 * Each stream's last bytes are in a ring with absolute offsets; a reader
 * that is too slow loses the oldest, and its result says how many.
 */
#ifndef JOBLOG_H
#define JOBLOG_H

#include "job.h"

#define JOBLOG_KEEP 262144u		/* bytes of each stream, by default */
#define JOBLOG_TOTAL 67108864u		/* of all rings */

/* NULL with errno: ENOMEM, or EBUSY past JOBLOG_TOTAL. */
struct joblog *joblog_new(uint32_t keep);
/* Readers are answered as cancelled. */
void joblog_free(struct joblog *log);

/* ATTACH: answered when it is through. */
void joblog_attach(struct session_request *req,
    const struct wire_attach *msg);

void joblog_interest(struct job *job, struct pollset *set);
/* Take output, serve readers; the job may be forgotten by one of them. */
void joblog_run(struct job *job, const struct pollset *set);

#endif
