/* SPDX-License-Identifier: MIT */
/*
 * cp_partial.h - the partial files of `cp --resume`, on record for `cleanup`.
 *
 * One small file a copy in paths_state()/partials, mode 0600, says where its
 * partial file is or would be.  It is there before that file can be, and goes
 * when the copy is complete.  A copy under way holds a lock on it.
 */
#ifndef CP_PARTIAL_H
#define CP_PARTIAL_H

#include "cp.h"

/* Put cp on record: a descriptor for cp_partial_end(), or -1 with *error. */
int cp_partial_begin(const struct cp *cp, struct error *error);
/* The copy has ended; `whole`: no partial file is left of it.  Keeps errno. */
void cp_partial_end(const struct cp *cp, int fd, bool whole);

/* Told of each: where it is ("TARGET:PATH"), and why it could not be removed
 * or, with NULL, that it has been. */
typedef void cp_partial_told(void *ctx, const char *where,
    const struct error *error);

/*
 * Remove every partial file on record that is ours and not in use, wherever
 * it is, and then its record.  A signal (interrupt.h, installed by this) ends
 * it: its number, else 0; -1 with *error: nothing is known.
 */
int cp_partial_clean(cp_partial_told *told, void *ctx, struct error *error);

#endif
