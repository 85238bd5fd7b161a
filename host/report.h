/* SPDX-License-Identifier: MIT */
/*
 * report.h - writes how a command ended as JSON for exec's --json.
 */
#ifndef REPORT_H
#define REPORT_H

#include "run.h"

/* Whether path could be written, before anything runs; 0, or -1. */
int report_check(const char *path, struct error *error);

/*
 * Write it to path: a regular file appears whole or not at all, anything
 * else (a pipe, /dev/fd/N) is written into.  0, or -1 with *error.
 */
int report_write(const char *path, const struct run_end *end, int status,
    struct error *error);

#endif
