/* SPDX-License-Identifier: MIT */
/*
 * cp_tree.h - `sandmux cp -r`: one tree up or down.
 *
 * A helper process of the client's reads or writes the local tree (bundle.h
 * blocks); its stream is a flow of one request, everything pipelined.
 */
#ifndef CP_TREE_H
#define CP_TREE_H

#include <stdbool.h>

#include "error.h"

struct cp_tree {
	const char *target;		/* all borrowed */
	struct wire_bytes user;		/* empty: the target's own */
	const char *from, *to;		/* paths; one of them is local */
	bool up;			/* from is */
	unsigned flags;			/* enum wire_tree_flags */
	const char *json;		/* a file for the summary, or NULL */
};

/*
 * Copy it.  Says on stderr what was skipped, and on a terminal how far it is
 * and a summary.  The program's exit status; *error is filled where it is
 * neither CMD_OK.  Keeps SIGPIPE ignored from now on.
 */
int cp_tree(const struct cp_tree *spec, struct error *error);

#endif
