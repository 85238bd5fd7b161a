/* SPDX-License-Identifier: MIT */
/*
 * interrupt.h - turns SIGINT, SIGTERM and SIGHUP into bytes on a pipe.
 *
 * For the client's commands that have something to cancel or to remove.  A
 * signal that was ignored at the start stays ignored (nohup, and jobs in the
 * background of a shell without job control).
 */
#ifndef INTERRUPT_H
#define INTERRUPT_H

/* Install the handlers, once; 0, or -1 with errno. */
int interrupt_init(void);

/* To poll for input; -1 before interrupt_init(). */
int interrupt_fd(void);

/* The next signal's number, 0 if there is none. */
int interrupt_take(void);

#endif
