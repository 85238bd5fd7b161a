/* SPDX-License-Identifier: MIT */
/*
 * interrupt.h - SIGINT, SIGTERM, SIGHUP and others as bytes on a pipe; SIGPIPE.
 *
 * For the client's commands that have something to cancel or to remove.  A
 * signal that was ignored at the start stays ignored (nohup, and jobs in the
 * background of a shell without job control).
 */
#ifndef INTERRUPT_H
#define INTERRUPT_H

/* Install the handlers, once; 0, or -1 with errno. */
int interrupt_init(void);

/*
 * Besides those SIGQUIT, SIGWINCH, SIGTSTP and SIGCONT, for one that shows a
 * job's terminal on the user's; after interrupt_init().  0, or -1 with errno.
 */
int interrupt_terminal(void);

/* To poll for input; -1 before interrupt_init(). */
int interrupt_fd(void);

/* The next signal's number, 0 if there is none. */
int interrupt_take(void);

/*
 * From now on a write to a closed socket or pipe fails with EPIPE, and one
 * beyond the limit on a file's size with EFBIG, instead of ending us: the
 * controller's end must not look like our stdout's, nor a half file stay.
 */
void interrupt_guard(void);

/*
 * stdout's reader is gone: die of SIGPIPE like other programs.  Returns if
 * SIGPIPE was ignored from the start.
 */
void interrupt_broken_pipe(void);

#endif
