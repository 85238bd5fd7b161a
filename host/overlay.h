/* SPDX-License-Identifier: MIT */
/*
 * overlay.h - a sandbox's settings laid over a client's request.
 *
 * Done by the controller on every request of a client that has named the
 * sandbox, so that they hold for whatever client it is: the user, directory
 * and environment where the request has none of its own, limits and the
 * longest time as bounds, hidden variables always.
 */
#ifndef OVERLAY_H
#define OVERLAY_H

#include "error.h"
#include "sandbox.h"

/*
 * The request msg as it is to be, malloc()ed into *body and *len, or *body
 * NULL where nothing changes.  0, or -1 with *error.
 */
int overlay_request(const struct sandbox *sandbox, const struct wire *msg,
    uint8_t **body, uint32_t *len, struct error *error);

#endif
