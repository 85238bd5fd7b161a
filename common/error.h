/* SPDX-License-Identifier: MIT */
/*
 * error.h - a failure as a value: the step, the errno and what it was about.
 *
 * Filled where a failure happens, carried unchanged in RESULT, turned into
 * words only by the host (words.c).
 */
#ifndef ERROR_H
#define ERROR_H

#include "wire.h"

struct error {
	enum wire_step step;		/* WIRE_STEP_NONE: no error */
	int number;			/* Linux errno, or 0 */
	char text[WIRE_TEXT_MAX];	/* names the thing; NUL-terminated */
};

/* Fill *error; text is printf-like and cut to fit.  Keeps errno. */
void error_set(struct error *error, enum wire_step step, int number,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
