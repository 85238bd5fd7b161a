/* SPDX-License-Identifier: MIT */
/*
 * transport_docker.h - what transport_docker.c and transport_docker_life.c
 * share: links into containers, and containers' lives.
 */
#ifndef TRANSPORT_DOCKER_H
#define TRANSPORT_DOCKER_H

#include "embed.h"
#include "runcmd.h"
#include "transport.h"

#define PROGRAM "docker"
#define CURE "install Docker's client (Debian: docker.io), or add its " \
    "directory to PATH"


/* Transport's resolve. */
int transport_docker_resolve(struct transport_place *place,
    uint64_t deadline, struct error *error);

/* The architecture of image, into facts.arch; empty: unknown. */
void transport_docker_look_up_arch(struct transport_place *place,
    struct runcmd *cmd, const char *image, uint64_t deadline);

/*
 * Put the agent into the container facts.id, running or not, as path, root's
 * and of this mode.  0, or -1 with *error.
 */
int transport_docker_copy(struct transport_place *place,
    struct runcmd *cmd, const char *path, unsigned mode,
    const struct embed *embed, uint64_t deadline, struct error *error);

extern const struct transport_life transport_docker_life;

#endif
