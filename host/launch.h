/* SPDX-License-Identifier: MIT */
/*
 * launch.h - finds the controller of a runtime directory, or starts it.
 *
 * Used by client.c only.  What stands at the socket's name must be ours; the
 * one who answers must be our own user.  All of it may block, within
 * LAUNCH_MS.
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <sys/types.h>

#include "error.h"

#define LAUNCH_MS 20000u		/* for a controller to start or answer */

/*
 * A connected socket, CLOEXEC and non-blocking; the caller owns it.  -1 with
 * *error; its step is WIRE_STEP_NONE if nobody listens there.
 */
int launch_connect(const char *dir, struct error *error);

/*
 * Start a controller in dir and wait until one listens there; take_over: the
 * pid of the one whose place it is to take, 0: there is none.  It gets no
 * descriptor of ours.  0, or -1 with *error, which has the controller's own
 * words.
 */
int launch_start(const char *dir, pid_t take_over, struct error *error);

#endif
