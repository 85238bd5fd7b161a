/* SPDX-License-Identifier: MIT */
/*
 * beneath.h - names below an open directory, one component at a time.
 *
 * What comes from the other end, or what another process changes while we
 * work, must not lead out of a directory: every component is opened relative
 * to its directory and no link is followed.  (openat2 would do this in one
 * call, but sandboxes and old kernels refuse it.)  All calls may block as
 * file systems do; descriptors are CLOEXEC.
 */
#ifndef BENEATH_H
#define BENEATH_H

#include <stdbool.h>
#include <stddef.h>

#define BENEATH_TEMP 40			/* room for a temporary name */
#define BENEATH_DEPTH 512		/* directories that remove descends */

/* Whether name[len] may be one component: no "", ".", "..", "/", NUL. */
bool beneath_name(const void *name, size_t len);

/* A temporary name that nobody can guess: ".part-HEX". */
void beneath_temp(char out[BENEATH_TEMP]);

/*
 * The directory name in dir, to look names up in (it needs no read
 * permission); with `listed` to read it and to change its mode and time.
 * The caller's; -1 with errno.
 */
int beneath_dir(int dir, const char *name, bool listed);

/*
 * Remove name in dir, whatever it is, and all below it.  Directories of our
 * own that may not be written get that permission first.  What is not there
 * is no error.  0, or -1 with the first errno; the rest is removed then.
 */
int beneath_remove(int dir, const char *name);

#endif
