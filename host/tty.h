/* SPDX-License-Identifier: MIT */
/*
 * tty.h - the user's terminal while a job has one of its own.
 *
 * Raw mode passes every key on to the job's terminal, which then does what
 * the user's one did: echo, lines, Ctrl-C.  Whatever ends this program short
 * of SIGKILL gives the terminal its modes back.  There is one terminal in a
 * process.
 */
#ifndef TTY_H
#define TTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TTY_LEAVE 0x1d			/* Ctrl-]: TTY_LEAVE_TIMES within */
#define TTY_LEAVE_TIMES 3u		/* TTY_LEAVE_MS leaves */
#define TTY_LEAVE_MS 1000u

/*
 * Make fd (borrowed, to stay open) raw; 0, or -1 with errno.  In the
 * background this stops us, as any program that wants the terminal.
 */
int tty_raw(int fd);

/* Give it back; safe to repeat, without tty_raw() and in a signal handler. */
void tty_restore(void);

/* SIGTSTP: give it back and stop; returns when continued, raw again. */
void tty_stop(void);

/* SIGCONT: make it raw again if it should be. */
void tty_continue(void);

/*
 * The size of the terminal on stdout, stdin or stderr; false (and both 0) if
 * none of them is one or it does not know.
 */
bool tty_size(unsigned *rows, unsigned *columns);

/* Whether with these keys the user has asked to leave. */
bool tty_leaves(const uint8_t *keys, size_t len);

#endif
