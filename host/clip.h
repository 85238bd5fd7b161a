/* SPDX-License-Identifier: MIT */
/*
 * clip.h - shows the head, the tail or both ends of a stream, and counts all
 * of it.
 *
 * Between a request's OUT or ERR and the descriptor that it goes to.  Holds
 * at most the bytes of the tail that was asked for, and those only as they
 * come.
 */
#ifndef CLIP_H
#define CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stdfd.h"

#define CLIP_TAIL_MAX 1073741824u	/* bytes that may be held */

enum clip_keep {
	CLIP_HEAD,
	CLIP_TAIL,
	CLIP_BOTH			/* a half each */
};

struct clip {
	struct stdfd *fd;		/* borrowed */
	uint64_t seen;			/* bytes that came */
	uint64_t shown;			/* of these, written */

	/* private */
	uint64_t head;			/* the first so many are passed on */
	size_t tail, size;		/* of the rest the last so many kept */
	size_t at, used;
	uint8_t *ring;			/* owned */
};

/* Pass everything on (limit UINT64_MAX) or limit bytes of it. */
void clip_init(struct clip *clip, struct stdfd *fd, enum clip_keep keep,
    uint64_t limit);
void clip_free(struct clip *clip);

/* A run_flow's move: pass data on, keep it or drop it. */
ssize_t clip_move(void *clip, void *data, size_t len);

/*
 * At the end: write what is kept, as far as it goes without blocking.  1
 * when all is written, 0 to poll for room and come back, -1 with errno.
 */
int clip_finish(struct clip *clip);

/* Whether more came than is shown. */
bool clip_cut(const struct clip *clip);

#endif
