/* SPDX-License-Identifier: MIT */
/*
 * transport_docker.h - containers of Docker and of what has its command
 * line: links into them (transport_docker.c), their lives (_life.c), and the
 * one table of what tells the programs apart (_kin.c).
 */
#ifndef TRANSPORT_DOCKER_H
#define TRANSPORT_DOCKER_H

#include "embed.h"
#include "runcmd.h"
#include "transport.h"

/* A format: H if .Config.Env has HOME.  To runc an empty one is none. */
#define TRANSPORT_DOCKER_HOME "{{range .Config.Env}}{{if ne . \"HOME=\"}}" \
    "{{if eq \"HOME\" (index (split . \"=\") 0)}}H{{end}}{{end}}{{end}}"

struct transport_docker_kin {
	const char *program;		/* and the scheme */
	const char *cure;		/* if it is not there */
	const char *away;		/* in its stderr: no service answers */
	const char *revive;		/* what is said then */
	/* A format for inspect: H if the container sets HOME for all. */
	const char *home;
	bool adds_home;			/* that is not all: the image counts */
	const char *label;		/* in a format of ps, before a name */
	const char *cp_option;		/* keeps a tar's owner; may be NULL */
	const char *create_option;	/* of all of ours; may be NULL */
};

/* Begin argv: the program and this subcommand of its. */
void transport_docker_start(const struct transport_place *place,
    struct argv *argv, const char *verb);

/* A transport's, transport.h. */
int transport_docker_resolve(struct transport_place *place,
    uint64_t deadline, struct error *error);
int transport_docker_inject(struct transport_place *place,
    uint64_t deadline, struct error *error);
int transport_docker_look(struct transport_place *place,
    uint64_t deadline, struct error *error);
void transport_docker_link(const struct transport_place *place,
    struct argv *argv);
int transport_docker_remove(struct transport_place *place,
    uint64_t deadline, struct error *error);

/* A life's, likewise. */
int transport_docker_create(struct transport_place *place,
    struct sandbox *made, uint64_t deadline, struct error *error);
int transport_docker_destroy(struct transport_place *place,
    uint64_t deadline, struct error *error);
int transport_docker_list(struct transport_place *place,
    void (*found)(void *ctx, const struct transport_found *found), void *ctx,
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

#endif
