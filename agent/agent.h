/* SPDX-License-Identifier: MIT */
/*
 * agent.h - what the agent's files share: version, limits, small helpers.
 *
 * main.c reads argv, stub.c is the process that the transport started,
 * core.c the loop that talks to the host, attempt.c how descriptors for it
 * come.  A job: job.c (the core's side), init.c (its own process), child.c
 * (exec), tree.c (its descendants), user.c (who it is), terminal.c (one that
 * was handed over), joblog.c (output that is kept), joblist.c (what is told
 * of all).  worker.c starts the processes that serve files (file.c, put.c,
 * file_tree.c, fs.c), facts (probe.c) and lists.
 */
#ifndef AGENT_H
#define AGENT_H

#include <stddef.h>
#include <sys/types.h>

#include "link.h"

#ifndef SANDMUX_VERSION
#error "the Makefile's VERSION is the only one"
#endif
#define AGENT_VERSION SANDMUX_VERSION
#define AGENT_NULL_FDS 3		/* 0 to 2 point at /dev/null */
#define AGENT_TIDY_MS 1000u		/* for a worker's half file to go */
#define AGENT_PIPE 262144		/* a file's pipe, if we may */

/* argv of `start` or `attach`, and what the stub learned of its own file. */
struct agent_start {
	char *words[5];			/* link.h's terms; borrowed */
	char exe[WIRE_PATH_MAX];	/* own path, "" if unknown */
	const char *hash;		/* hex, or NULL */
	bool unlink;
	const char *user;		/* of jobs that name none, or NULL */
	const char *groups;		/* that any user gets, or NULL */
	bool keep_home;			/* the image says what HOME is */
};

/* stub.c: never returns before the core has ended; the exit status. */
int stub_run(const struct agent_start *start);

/*
 * stub.c: hand the terminal to the session's core; returns once the core has
 * let go of it: 0, or 1 if it never had it.
 */
int stub_attach(const struct agent_start *start);

/* stub.c: fds 0 to 2 are nothing from here on, so no pipe can lie there. */
void stub_let_go(void);

/* core.c: the core's life; its end of the socket to the stub is fd. */
int core_run(int fd, const struct agent_start *start, uint8_t unlinked);
/* core.c: in a child, first thing: wipe keys. */
void core_wipe(void);

/* probe.c: fill the path of our own file; "" if /proc does not tell. */
void probe_exe(char *out, size_t cap);

/* What PROBE says of the link: it runs over a terminal. */
void probe_terminal(bool terminal);

/* Unlink our file if it is an injected one (.sandmux-*); 0 or -1 + errno. */
int probe_unlink(const char *exe);

#endif
