/* SPDX-License-Identifier: MIT */
/*
 * daemon.h - how the controller becomes a process of its own, and how it
 * hears signals there.
 *
 * Used by controller.c only.
 */
#ifndef DAEMON_H
#define DAEMON_H

#include <stdbool.h>

#include "error.h"

/*
 * Tell the one who started us: error NULL: it may connect.  Closes *fd and
 * makes it -1; nothing for -1.
 */
void daemon_report(int *fd, const struct error *error);

/*
 * In the forked process: a new session, cwd /, nothing open but *ready,
 * which may get another number.  0, or -1 with errno.
 */
int daemon_detach(int *ready);

/* Catch SIGCHLD, SIGTERM, SIGINT, SIGHUP; 0, or -1 with errno. */
int daemon_catch_signals(void);
/* Readable when a signal came. */
int daemon_signal_fd(void);
/* Empty it; whether a child may have ended since the last call. */
bool daemon_take_signals(void);
/* The signal that asks us to end, 0: none came. */
int daemon_stop_signal(void);

#endif
