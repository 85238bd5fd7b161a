/* SPDX-License-Identifier: MIT */
/*
 * status.h - what STATUS and LINKINFO answer.
 *
 * Called by relay.c and target_link.c; only reads.
 */
#ifndef STATUS_H
#define STATUS_H

#include <stddef.h>

#include "hub.h"

struct target_link;

/* The controller, its clients and links; malloc, NULL without memory. */
char *status_text(const struct hub *hub, bool json, size_t *len);

/* One link, for doctor: how it came up, and what it heard; likewise. */
char *status_link(const struct target_link *link, size_t *len);

#endif
