/* SPDX-License-Identifier: MIT */
/*
 * system.h - the few calls that POSIX does not have, with fallbacks.
 *
 * Everything else in host/ is POSIX, so a port looks only here.
 */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <sys/types.h>

/* The user and process at the other end of a unix socket; 0 or -1+errno. */
int system_peer(int fd, uid_t *uid, pid_t *pid);

/*
 * In a child, first thing: be killed when the process parent ends, where the
 * system can do that.
 */
void system_die_with(pid_t parent);

/* accept() with CLOEXEC and O_NONBLOCK; -1 with errno. */
int system_accept(int fd);

/* pipe() with CLOEXEC; 0 or -1 with errno. */
int system_pipe(int fds[2]);

/*
 * Have large blocks always come from and go back to the kernel: a daemon's
 * heap must not keep the size of its busiest moment.
 */
void system_keep_heap_small(void);

/* Close every descriptor from first on. */
void system_close_from(int first);

/* O_NONBLOCK on or off; 0 or -1 with errno. */
int system_nonblock(int fd, int on);

/*
 * Take the room for len bytes at from in a file, its size kept.  0, or -1
 * with errno (ENOSPC, EDQUOT, EFBIG: there is none; others: not known).
 */
int system_reserve(int fd, off_t from, off_t len);

/*
 * Be a batch process, where there is such a thing: one that works through
 * much data and does not preempt those that wait for an answer.
 */
void system_batch(void);

#endif
