/* SPDX-License-Identifier: MIT */
/*
 * sink.h - a local file that appears whole under its name, or not at all.
 *
 * The bytes go to a file without a name where the system has that, else to
 * a temporary name in the same directory; sink_commit() puts it in place.
 * Names below the directory are opened without following links.  A pipe or a
 * device as destination is written into.
 */
#ifndef SINK_H
#define SINK_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "error.h"
#include "stdfd.h"

struct sink {
	int dir;			/* owned, -1: none */
	struct stdfd file;		/* of fd; not owned by it */
	int fd;				/* owned, -1: none */
	char name[NAME_MAX + 1];	/* in dir */
	char tmp[64];			/* in dir, empty: none to remove */
	bool direct;			/* written into, no renaming */
	bool existed;
	mode_t mode;			/* of the file that existed */
	uid_t uid;
	gid_t gid;
};

/*
 * Open for path; if that is a directory, for base in it.  0, or -1 with
 * *error.  sink_close() is due in both cases.
 */
int sink_open(struct sink *sink, const char *path, const char *base,
    struct error *error);

/* Put the file in place; mode counts for a new one.  0, or -1 with *error. */
int sink_commit(struct sink *sink, mode_t mode, struct error *error);

/* Let go; without a commit before it, nothing remains. */
void sink_close(struct sink *sink);

/*
 * The last component of path into out[NAME_MAX + 1]; -1 if it has none that
 * names a file ("/", "..").
 */
int sink_base(const char *path, char *out);

/* The process's umask. */
mode_t sink_umask(void);

#endif
