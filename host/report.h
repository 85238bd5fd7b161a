/* SPDX-License-Identifier: MIT */
/*
 * report.h - writes how a job or a copy ended as JSON for --json.
 */
#ifndef REPORT_H
#define REPORT_H

#include "attend.h"
#include "json.h"

/* Whether path could be written, before anything runs; 0, or -1. */
int report_check(const char *path, struct error *error);

/* The member "error", null if there is none. */
void report_error(struct json *json, const struct error *error);

/*
 * Write it to attend->json: a regular file appears whole or not at all, anything
 * else (a pipe, /dev/fd/N) is written into.  0, or -1 with *error.
 */
int report_write(const struct attend *attend, int status,
    struct error *error);

#endif
