/* SPDX-License-Identifier: MIT */
/*
 * agent.h - what the agent's files share: version, limits, small helpers.
 *
 * main.c reads argv, stub.c is the process that the transport started,
 * core.c the loop that talks to the host, task.c a request with a process,
 * child.c what that process does before exec, file.c and probe.c the
 * processes that serve files and facts.
 */
#ifndef AGENT_H
#define AGENT_H

#include <stddef.h>
#include <sys/types.h>

#include "link.h"

#define AGENT_VERSION "0.1.0"
#define AGENT_NULL_FDS 3		/* 0 to 2 point at /dev/null */
#define AGENT_DRAIN_MS 200u		/* a held pipe is quiet this long */
#define AGENT_EOF_MS 5u			/* from a pipe's end to its EOF frame */
#define AGENT_END_MS 2000u		/* for killed jobs to be reaped */
#define AGENT_TIDY_MS 1000u		/* for a worker's half file to go */
#define AGENT_GROUPS 4096u		/* groups of ended jobs still alive */
#define AGENT_DRAINS 1024u		/* pipes of detached children */
#define AGENT_PIPE 262144		/* a file's pipe, if the kernel lets us */

/* argv of `start`, and what the stub learned of its own file. */
struct agent_start {
	char *words[5];			/* link.h's terms; borrowed */
	char exe[WIRE_PATH_MAX];	/* own path, "" if unknown */
	const char *hash;		/* hex, or NULL */
	bool unlink;
};

/* stub.c: never returns before the core has ended; the exit status. */
int stub_run(const struct agent_start *start);

/* core.c: the core's life; its end of the socket to the stub is fd. */
int core_run(int fd, uint8_t unlinked);

/* probe.c: fill the path of our own file; "" if /proc does not tell. */
void probe_exe(char *out, size_t cap);

/* What PROBE says of the link: it runs over a terminal. */
void probe_terminal(bool terminal);

/* Unlink our file if it is an injected one (.sandmux-*); 0 or -1 + errno. */
int probe_unlink(const char *exe);

#endif
