/* SPDX-License-Identifier: MIT */
/*
 * found.h - what a controller that was killed has left behind.
 *
 * A controller keeps the names of its live sessions in a file of its runtime
 * directory, which an orderly end removes.  No secret is in it: nobody can
 * continue those sessions, and the agents end by themselves.  The next
 * controller reads it once and says so.
 */
#ifndef FOUND_H
#define FOUND_H

#include "hub.h"

/* Read the file, log what it says, and remove it. */
void found_read(const char *directory);

/*
 * The target of session i that was left, *seconds until its agent has
 * surely given up; NULL: there are no more, or they have.
 */
const char *found_target(unsigned i, uint64_t *seconds);

/* Write which sessions live now; without any the file goes. */
void found_write(const struct hub *hub);

#endif
