/* SPDX-License-Identifier: MIT */
/*
 * survey.h - all sandboxes of ours: the records, and what is really there.
 *
 * For ls and cleanup.  A container with our label and no record is listed
 * too: nothing that we made can be out of sight.
 */
#ifndef SURVEY_H
#define SURVEY_H

#include "lifecycle.h"

enum survey_state {
	SURVEY_CREATING, SURVEY_READY, SURVEY_STOPPED, SURVEY_GONE,
	SURVEY_REMOVING, SURVEY_ORPHAN, SURVEY_UNKNOWN
};

struct survey_entry {
	struct sandbox *sandbox;	/* owned; of an orphan only its names */
	const struct transport *transport;
	enum survey_state state;
	bool known;			/* its transport has told of it, or not */
};

struct survey {
	struct survey_entry *entries;	/* owned; in order of their time */
	size_t count;
	struct error error;		/* step NONE, or what was not found out */
};

/*
 * Look around.  0, or -1 with survey->error: nothing is known.  Where only a
 * transport does not answer its sandboxes are SURVEY_UNKNOWN, and error says
 * why.  survey_free() is fine on both.
 */
int survey_take(struct survey *survey, const struct lifecycle *life);
void survey_free(struct survey *survey);

/* "ready", "orphan" ... */
const char *survey_words(enum survey_state state);

#endif
