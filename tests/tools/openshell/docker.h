/* SPDX-License-Identifier: MIT */
/*
 * docker.h - makes and removes the containers of sandboxes.
 *
 * Runs the docker client and waits for it, so only a child of the gateway
 * may call this.  Nothing of it is in the path of an exec.
 */
#ifndef DOCKER_H
#define DOCKER_H

#include "wire.h"

struct docker_create {
	const char *name;	/* "" for one of our choice */
	const char *image;
	const char **env;	/* KEY=VALUE */
	uint32_t nenv;
	const char *policy;	/* its text, or "" */
	const char *labels;	/* "K=V\n" each */
	const char **argv;	/* the main command */
	uint32_t argc;
};

/* Packed and unpacked like an exec; the arrays are owned after unpack. */
void docker_pack(struct wire_buf *b, const struct docker_create *cr);
int docker_unpack(struct docker_create *cr, const uint8_t *p, size_t n);

/*
 * 0 with the name in out, or -1 with out = code and message of the error.
 * A sandbox whose container failed stays on record, in phase Error.
 */
int docker_create(const struct docker_create *cr, struct wire_buf *out);
/* The container and the record.  0, or -1 when there is no such sandbox. */
int docker_delete(const char *name);
/* Rows: name, id, image, creation time, phase, labels, a string each. */
void docker_list(const char *name, struct wire_buf *out);

#endif
