/* SPDX-License-Identifier: MIT */
/*
 * cp.h - what `sandmux cp` was asked for, and who does it.
 *
 * cmd_cp.c reads the command line into a struct cp; cp_file.c copies one
 * file (cp_up.c, cp_down.c), cp_tree.c a tree; cp_say.c has their words.
 */
#ifndef CP_H
#define CP_H

#include <limits.h>
#include <sys/types.h>

#include "events.h"
#include "progress.h"
#include "run.h"
#include "target.h"
#include "wire.h"

enum cp_flags {
	CP_PARENTS = 1,			/* make missing directories */
	CP_APPEND = 2,
	CP_RESUME = 4,
	CP_VERIFY = 8,
	CP_MODE = 16,			/* mode was given */
	CP_ARCHIVE = 32,		/* mode, owner and time as well */
	CP_FOLLOW = 64,			/* links; of a file always */
	CP_TREE = 128
};

struct cp {
	unsigned flags;
	unsigned tree;			/* enum wire_tree_flags */
	struct target_operand from, to;	/* one of them is local */
	char target[TARGET_TEXT_MAX];
	char base[NAME_MAX + 1];	/* the source's name, empty: none */
	struct wire_bytes user;		/* empty: the target's own */
	mode_t mode;
	uint64_t offset, length;	/* of the source; WIRE_TO_END */
	const char *json;		/* where events go, NULL: nowhere */
};

/* "-": stdin or stdout. */
bool cp_is_stdio(const struct target_operand *operand);

/* Copy one file; the exit status, with *error unless it is CMD_OK. */
int cp_file(const struct cp *cp, struct error *error);

/*
 * Copy a tree, by a helper process of ours that blocks on the local files
 * (bundle.h); its stream is a flow of one request, everything pipelined.
 * Says on stderr what was skipped, and on a terminal how far it is and what
 * it was.  As cp_file(); SIGPIPE is ignored from then on.
 */
int cp_tree(const struct cp *cp, struct error *error);

/* The exit status of a copy that failed: 128+N if signal N ended it. */
int cp_failed(const struct run_end *end);

/* ---- cp_say.c --------------------------------------------------------- */

/*
 * The first event: which way, from where, to where; progress tells events
 * from then on.  0, also if nobody asked for them, or -1 with *error.
 */
int cp_say_start(const struct cp *cp, struct events *events,
    struct progress *progress, struct error *error);

/* The last one, and what the caller adds between these two. */
void cp_end_begin(struct json *json, int status,
    const struct progress *progress);
void cp_end_send(struct events *events, struct json *json, int status,
    const struct error *error);

/*
 * The SEAL_KEY bytes of each end's hash in the form of `b2sum -l 256`; on
 * stderr where stdout is the file.
 */
void cp_say_hashes(const struct cp *cp, const uint8_t *here,
    const uint8_t *there);

#endif
