/* SPDX-License-Identifier: MIT */
/*
 * file.h - worker processes that read and write files, and one that looks.
 *
 * Each runs in its own process, so that a hung file system stops only its
 * own request.  They answer req themselves when they cannot be started.
 */
#ifndef FILE_H
#define FILE_H

#include "agent.h"
#include "session.h"

void file_put(struct session_request *req, const struct wire_put *put,
    const struct agent_start *start);
void file_get(struct session_request *req, const struct wire_get *get,
    const struct agent_start *start);
/* file_tree.c */
void file_tree_put(struct session_request *req,
    const struct wire_tree_put *put, const struct agent_start *start);
void file_tree_get(struct session_request *req,
    const struct wire_tree_get *get, const struct agent_start *start);
void file_probe(struct session_request *req);

/* probe.c: the PROBE_INFO message into buf[WIRE_INFO_MAX]; its length. */
size_t probe_info(uint8_t *buf);

#endif
