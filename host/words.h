/* SPDX-License-Identifier: MIT */
/*
 * words.h - the one place where errors, steps and numbers become words.
 *
 * A struct error or a RESULT carries a step, a Linux errno and the name of a
 * thing; here they become one line that says what failed, why and what to
 * try.  The table of errnos is our own, because the numbers are Linux's
 * wherever the host runs.  All remote text is quoted.
 */
#ifndef WORDS_H
#define WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define WORDS_LINE 2560			/* room for any line made here */

/* A step for programs ("chdir"), "unknown" for an unknown one. */
const char *words_step(unsigned step);

/* "ENOENT"; NULL for a number that Linux does not have. */
const char *words_errno(unsigned number);

/* "no such file or directory"; NULL likewise. */
const char *words_errno_text(unsigned number);

/* An outcome for programs ("exited", "timed-out"), "unknown" likewise. */
const char *words_outcome(unsigned outcome);

/* "SIGKILL"; NULL for a number that is no named signal. */
const char *words_signal(unsigned number);

/* A capability's name without CAP_, NULL beyond those known. */
const char *words_capability(unsigned bit);

/*
 * The error as one printable line without a newline, into out[cap]:
 * "cannot start frob: no such file or directory (ENOENT); is it ...".
 * The text is quoted.  Returns out.
 */
const char *words_error(const struct error *error, char *out, size_t cap);

/* A failed RESULT as a struct error; the text is made a C string. */
void words_result(const struct wire_result *result, struct error *error);

#endif
