/* SPDX-License-Identifier: MIT */
/*
 * controller.h - the daemon that holds the links: its start and its loop.
 *
 * Called by main.c (`serve`, and by a client that found no controller).  One
 * controller owns one runtime directory; a lock there keeps a second one out.
 */
#ifndef CONTROLLER_H
#define CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "log.h"

#define CONTROLLER_IDLE_LINK_MS 900000u	/* default of idle_link_ms */
#define CONTROLLER_PARK_TRUST UINT32_MAX	/* default of park_s */

struct controller_options {
	const char *directory;		/* absolute; paths_runtime() made it */
	const char *log_path;		/* NULL: PATHS_LOG in directory */
	enum log_level log_level;
	uint64_t idle_link_ms;		/* close an unused link, 0: never */
	/*
	 * An agent whose unused link was closed stays so long: 0: no longer,
	 * PARK_TRUST: as long as its sandbox where a new one would be worth
	 * less, and not at all elsewhere.
	 */
	uint32_t park_s;
	uint32_t linger_ms;		/* agents without a link keep jobs */
	uint64_t idle_exit_ms;		/* end without links, 0: never */
	uint32_t ping_ms, dead_ms;	/* keepalive, 0: link.h's */
	uint32_t hello_ms;		/* start to hello, 0: link.h's */
	int ready_fd;			/* owned from now on; -1: none */
	bool take_over;			/* from the controller that is there */
	pid_t take_from;		/* with it: this one alone, 0: any */
	bool daemon;			/* fork, setsid, cwd /, no stdio */
};

/*
 * Serve until SIGTERM, SIGINT, SIGHUP, STOP or idle_exit_ms; blocks.  Returns
 * an exit status: 0 also when another controller already answers in this
 * directory; -1 with *error: it could not begin.  With daemon set it forks, the caller returns at once with 0
 * and everything after this is said on ready_fd only.
 *
 * ready_fd gets "+" once a controller listens (this one or the other), or
 * "-" and an error's text, and is then closed.
 */
int controller_main(const struct controller_options *options,
    struct error *error);

#endif
