/* SPDX-License-Identifier: MIT */
/*
 * bundle.h - a directory tree as a byte stream: PROTOCOL.md, "Trees".
 *
 * One engine for both programs and both directions.  It is run by a process
 * of its own (the agent's worker, the client's helper) and blocks on plain
 * descriptors: one end is the stream, the other the file system.  Memory is
 * bounded whatever the tree; the stream's sender is not trusted, and no more
 * is whoever changes the tree meanwhile.  SIGPIPE must be ignored.
 */
#ifndef BUNDLE_H
#define BUNDLE_H

#include "error.h"

#define BUNDLE_BUFFER 131072u		/* bytes moved at once */
#define BUNDLE_DEPTH 256u		/* directories in each other */
#define BUNDLE_ENTRIES 4194304u		/* in one stream */
#define BUNDLE_LINKS 8192u		/* hard-linked files remembered */
#define BUNDLE_LINK_PATHS 1048576u	/* bytes of their paths */

/* Told of each entry that is left out; path is a C string, unquoted. */
typedef void bundle_skipped(void *ctx, const char *path, int number);

struct bundle_source {
	int out;			/* the stream; borrowed */
	const char *path;		/* the tree: a link at its end is not
					 * followed unless a slash is behind */
	unsigned flags;			/* SKIP and FOLLOW count */
	bundle_skipped *skipped;	/* or NULL */
	void *ctx;
};

/*
 * Send the tree.  0 with the counts in *info, or -1 with *error: the stream
 * is not complete then.  EPIPE with step WRITE: its reader is gone.
 */
int bundle_send(const struct bundle_source *source,
    struct wire_tree_info *info, struct error *error);

struct bundle_sink {
	int in;				/* the stream; borrowed */
	const char *path, *name;	/* as in TREE_PUT */
	unsigned flags;			/* enum wire_tree_flags */
	uint64_t max_entries;		/* 0: BUNDLE_ENTRIES */
	bundle_skipped *skipped;	/* or NULL */
	/*
	 * The stream is complete: whether it counts.  `bytes` is its length.
	 * 0, or -1 with *error: the tree is removed.
	 */
	int (*settle)(void *ctx, const struct wire_tree_info *info,
	    uint64_t bytes, struct error *error);
	void *ctx;
};

/*
 * Receive a tree.  0 with the counts in *info, or -1 with *error, and then
 * nothing is left under a temporary name.
 */
int bundle_receive(const struct bundle_sink *sink,
    struct wire_tree_info *info, struct error *error);

#endif
