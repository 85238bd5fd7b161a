/* SPDX-License-Identifier: MIT */
/* error.c - a failure filled in where it happens. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void
error_set(struct error *error, enum wire_step step, int number,
    const char *format, ...)
{
	int saved = errno;
	va_list ap;

	error->step = step;
	error->number = number;
	va_start(ap, format);
	vsnprintf(error->text, sizeof(error->text), format, ap);
	va_end(ap);
	errno = saved;
}
