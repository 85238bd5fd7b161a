/* SPDX-License-Identifier: MIT */
/*
 * runcmd.h - runs one CLI to its end, feeding its stdin and keeping a
 * bounded part of what it says.
 *
 * Blocks: only for a starter's own process, never in the controller's loop.
 */
#ifndef RUNCMD_H
#define RUNCMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "argv.h"
#include "error.h"

#define RUNCMD_OUT 262144	/* kept of stdout: the end */
#define RUNCMD_ERR 1024		/* kept of stderr: the end */

struct runcmd {
	const char *path;		/* borrowed, all of these */
	const struct argv *argv;
	char *const *env;
	const char *cwd;		/* NULL: / */
	const void *input;		/* NULL: stdin is /dev/null */
	size_t input_len;
	uint64_t deadline;		/* clock.h; killed then */

	int status;			/* exit status, 128 + signal */
	char out[RUNCMD_OUT + 1];	/* NUL-terminated */
	size_t out_len;
	char err[RUNCMD_ERR + 1];	/* likewise */
	size_t err_len;
};

/* 0 once it has ended by itself, or -1 with *error. */
int runcmd_run(struct runcmd *run, struct error *error);

/* Append what remote said to the error's text: ": status N, 'stderr'". */
void runcmd_blame(const struct runcmd *run, struct error *error);

#endif
