/* SPDX-License-Identifier: MIT */
/*
 * log.h - the controller's log file.
 *
 * One line an event, written where the decision is made.  Never payloads,
 * keys or values of the environment; every line goes through quote.h.
 */
#ifndef LOG_H
#define LOG_H

#include <stddef.h>

#define LOG_SIZE_MAX 4194304u	/* then it is renamed to PATH.old */

/* The first three are WIRE_LOG's levels. */
enum log_level {
	LOG_ERROR = 0,
	LOG_WARNING = 1,
	LOG_NOTE = 2,
	LOG_DEBUG = 3
};

/* Append to path (0600, made here); 0, or -1 with errno. */
int log_open(const char *path, enum log_level level);
void log_close(void);

/* One line; nothing before log_open().  Keeps errno. */
void log_write(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "error", "warning", "note", "debug"; log_parse(): 0, or -1. */
const char *log_name(enum log_level level);
int log_parse(const char *name, enum log_level *level);

#endif
