/* SPDX-License-Identifier: MIT */
/*
 * events.h - tells a program how a copy goes: one JSON object a line.
 *
 * {"event": "start"}, any number of {"event": "progress"}, {"event": "end"}.
 * A reader that is slow or gone never stops the copy: what it cannot take at
 * once is left out, but for the end, which is waited for.
 */
#ifndef EVENTS_H
#define EVENTS_H

#include <stdbool.h>

#include "error.h"
#include "json.h"

struct events {
	int fd;				/* owned, -1: nobody asked */
	bool cut;			/* a line was taken in part */
};

/* To a file that is made or emptied, a pipe or a device; 0, or -1. */
int events_open(struct events *events, const char *path,
    struct error *error);

/* Start and finish a line; between them json's members are added. */
void events_begin(struct json *json, const char *event);
/* last: wait for the reader.  Frees json. */
void events_send(struct events *events, struct json *json, bool last);
void events_close(struct events *events);

#endif
