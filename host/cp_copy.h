/* SPDX-License-Identifier: MIT */
/*
 * cp_copy.h - one file's copy under way: what cp_file.c, cp_up.c and
 * cp_down.c share.
 */
#ifndef CP_COPY_H
#define CP_COPY_H

#include <sys/stat.h>

#include "cp.h"
#include "filecopy.h"
#include "progress.h"
#include "sink.h"

#define CP_HASH_PIECE 4194304u		/* hashed between two looks at signals */

/* What the flows of one copy are at. */
enum cp_phase {
	CP_PARTIAL,			/* up: the agent says what it has */
	CP_COMPARE,			/* up: hashing as much of the source */
	CP_HEAD,			/* START goes or comes */
	CP_BODY,
	CP_TAIL				/* up: all of it has gone but, if asked
					 * for, the hash */
};

struct cp_copy {
	const struct cp *cp;
	struct run run;
	enum cp_phase phase;
	struct filecopy at;
	struct filecopy_head head;	/* START, or PARTIAL */
	size_t said;			/* up: of head, then of hash */
	uint64_t moved;			/* bytes of IN or OUT, head and all */
	uint64_t left;			/* up: of --length */
	uint64_t have;			/* of a partial file */
	uint8_t have_hash[SEAL_KEY];
	struct seal_digest digest;	/* of what has gone by */
	uint64_t hashed;
	uint8_t hash[SEAL_KEY];		/* this end's */
	struct sink sink;		/* down, to a file */
	struct stdfd file;		/* where bytes come from or go to */
	int fd;				/* owned source, -1: none */
	bool seeks;			/* pread() works on it */
	struct stat source;
	struct wire_file_info info;	/* the agent's, hash kept below */
	uint8_t far[SEAL_KEY];
	bool informed;
	int signal;			/* that came while it was hashed */
	struct progress progress;
	struct events events;
};

/* The directions; the exit status, with *error unless it is CMD_OK. */
int cp_up(struct cp_copy *copy, struct error *error);
int cp_down(struct cp_copy *copy, struct error *error);

/* ---- cp_file.c -------------------------------------------------------- */

/* To the target's controller; 0, or -1 with *error. */
int cp_connect(struct cp_copy *copy, struct error *error);
/* From now on a signal ends the copy in order; 0, or -1 with *error. */
int cp_catch(struct error *error);
/* Send the request and carry the flows that are set in copy->run. */
void cp_run(struct cp_copy *copy, const struct wire *msg,
    struct run_end *end);

/* 0: the far end has done all of it, bytes of the flow; else -1, *error. */
int cp_check(const struct cp_copy *copy, const struct run_end *end,
    uint64_t bytes, struct error *error);

/* In a move: what came is against the protocol; -1 with errno. */
ssize_t cp_broken(struct cp_copy *copy, const char *what);

/* --verify was given. */
bool cp_verifies(const struct cp_copy *copy);
/* What goes by at `at` is hashed, if asked for, holes before it too. */
void cp_hash(struct cp_copy *copy, uint64_t at, const void *buf, size_t len);

/* Take as much of the head as there is; the bytes used. */
size_t cp_take_head(struct cp_copy *copy, const uint8_t *data, size_t len);

#endif
