/* SPDX-License-Identifier: MIT */
/*
 * filecopy.h - what both ends of a file's copy share: its holes, the START
 * that comes before its bytes, and the name of a partial file.
 *
 * The sending end scans the file, the receiving one takes what START says;
 * from then on both walk the same extents.  Nothing here is trusted: a
 * START from a liar is refused, or describes some file.
 */
#ifndef FILECOPY_H
#define FILECOPY_H

#include <stdbool.h>
#include <sys/types.h>

#include "seal.h"
#include "wire.h"

#define FILECOPY_PARTIAL ".partial-"
/* f(START) at its largest: length, type, fields. */
#define FILECOPY_HEAD_MAX (4 + 1 + 4 + 8 + 8 + 4 + \
    WIRE_EXTENTS_MAX * WIRE_EXTENT_BYTES)

/* Where in the file the next byte belongs. */
struct filecopy {
	uint64_t at;
	uint64_t left;			/* to the next hole; WIRE_TO_END: it may
					 * end here */
	uint64_t from, size;		/* START's */
	unsigned count, next;		/* of extents; 0: it is not sparse */
	bool zeros;			/* blocks of zeros are holes */
	uint8_t extents[WIRE_EXTENTS_MAX * WIRE_EXTENT_BYTES];
};

/*
 * fd's bytes from `from` to its end; a file that takes less room than its
 * size is sparse, unless dense is set.  Moves fd's offset.
 */
void filecopy_scan(struct filecopy *copy, int fd, uint64_t from, bool dense);

/* What to say about it; borrows from copy. */
struct wire_start filecopy_start(const struct filecopy *copy);

/* The other end's word: 0, or -1: it makes no sense. */
int filecopy_accept(struct filecopy *copy, const struct wire_start *start);

/*
 * Of the len bytes for copy->at: how many are alike, that is to be written,
 * or (*hole) a hole where nothing is written.
 */
size_t filecopy_run(const struct filecopy *copy, const void *data,
    size_t len, bool *hole);

/* n bytes, at most copy->left, have gone to or come from copy->at. */
void filecopy_moved(struct filecopy *copy, uint64_t n);

/* A message as f(message) that arrives in pieces. */
struct filecopy_head {
	size_t have;
	uint8_t buf[FILECOPY_HEAD_MAX];
};
/* How many bytes it wants next, 0: it is complete; -1: it is too long. */
ssize_t filecopy_head_wants(const struct filecopy_head *head);
/* Once complete: decoded, borrowing from head; 0, or -1 (another type too). */
int filecopy_head_get(const struct filecopy_head *head, uint8_t type,
    struct wire *msg);
/* f(msg) into out[cap]; its length, 0 if it does not fit. */
size_t filecopy_head_put(const struct wire *msg, uint8_t *out, size_t cap);

/* The partial file's name for a file's name, into out[256]. */
void filecopy_partial(const char *name, char out[256]);

/*
 * Add fd's bytes from *at on, at most max, by pread(): 1 if all are added, 0
 * if fd ends before, -1 with errno.  *at is moved.
 */
int filecopy_hash(struct seal_digest *digest, int fd, uint64_t *at,
    uint64_t max);
/* Add n zeros. */
void filecopy_hash_hole(struct seal_digest *digest, uint64_t n);

#endif
