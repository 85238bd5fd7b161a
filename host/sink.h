/* SPDX-License-Identifier: MIT */
/*
 * sink.h - a local file that appears whole under its name, or not at all.
 *
 * The bytes go to a file without a name where the system has that, else to
 * a temporary name in the same directory; sink_commit() puts it in place.
 * Names below the directory are opened without following links.  Where a new
 * file cannot take the old one's place, or would change more than its
 * content (other names of it, its owner), the complete bytes are copied into
 * the old one; where the directory takes no new file, and into a pipe or a
 * device, they are written as they come.
 */
#ifndef SINK_H
#define SINK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "error.h"
#include "filecopy.h"
#include "stdfd.h"

enum sink_flags {
	SINK_PARENTS = 1,		/* make missing directories */
	SINK_APPEND = 2,		/* add to the end of what is there */
	SINK_RESUME = 4			/* keep and go on with a partial file;
					 * one that is in place has none */
};

struct sink {
	unsigned flags;
	int dir;			/* owned, -1: none */
	struct stdfd file;		/* of fd; not owned by it */
	int fd;				/* owned, -1: none */
	char name[NAME_MAX + 1];	/* in dir */
	char tmp[NAME_MAX + 1];		/* in dir, empty: none */
	bool keep;			/* tmp is a partial file: it stays */
	bool direct;			/* written into, no renaming */
	bool stream;			/* no offsets: sink_put() writes on */
	bool existed;
	bool atomic;			/* after the commit: it came whole */
	struct stat old;		/* if it existed */
};

/* What a file is to have besides its content. */
struct sink_dress {
	mode_t mode;			/* of a new one, less the umask */
	bool exact;			/* all of mode, also on an old one */
	bool archive;			/* mtime; uid and gid where allowed */
	uint64_t mtime;			/* wire.h */
	uid_t uid;
	gid_t gid;
};

/*
 * Open for path; if that is a directory, for base in it.  A pipe without a
 * reader is waited for.  0, or -1 with *error.  sink_close() is due in both
 * cases.
 */
int sink_open(struct sink *sink, const char *path, const char *base,
    unsigned flags, struct error *error);

/*
 * Up to len bytes to where copy says, which moves on; like stdfd_write().  A
 * stream needs a copy without holes.
 */
ssize_t sink_put(struct sink *sink, struct filecopy *copy, const void *data,
    size_t len);

/* The file ends where copy does: no more, no less.  0, or -1 with errno. */
int sink_end(struct sink *sink, const struct filecopy *copy);

/* Put the file in place.  0, or -1 with *error. */
int sink_commit(struct sink *sink, const struct sink_dress *dress,
    struct error *error);

/* Let go; without a commit before it, nothing but a partial file remains. */
void sink_close(struct sink *sink);

/*
 * Remove the partial file that SINK_RESUME has left for the same path and
 * base, if it is ours alone and nobody is at it.  0, 1: there is none, or -1
 * with *error.
 */
int sink_discard(const char *path, const char *base, struct error *error);

/*
 * The last component of path into out[NAME_MAX + 1]; -1 if it has none that
 * names a file ("/", "..").
 */
int sink_base(const char *path, char *out);

/* The process's umask. */
mode_t sink_umask(void);

#endif
