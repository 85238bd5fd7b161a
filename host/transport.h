/* SPDX-License-Identifier: MIT */
/*
 * transport.h - the one table of how targets are reached.
 *
 * A transport builds argv and knows its program's habits; target_link.c runs
 * what it builds.  No other file knows a transport by name.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "argv.h"
#include "error.h"
#include "runcmd.h"
#include "sandbox.h"
#include "seal.h"
#include "target.h"

#define TRANSPORT_BAKED "/usr/bin/sandmux-agent"
#define TRANSPORT_BAKE "bake the agent into the image as " TRANSPORT_BAKED \
    " (images/bake.sh)"
#define TRANSPORT_AGENT_USER "SANDMUX_AGENT_USER"	/* root or image */
#define TRANSPORT_AGENT_USER_IS (TRANSPORT_AGENT_USER "=")
#define TRANSPORT_ID_MAX 256
#define TRANSPORT_PATH_MAX 512		/* of an injected agent */
#define TRANSPORT_RESOLVE_MS 20000u	/* deadlines of the blocking work */
#define TRANSPORT_INJECT_MS 60000u
#define TRANSPORT_REMOVE_MS 20000u
#define TRANSPORT_CLEAN_MS 10000u	/* behind inject()'s, where it failed */
#ifndef TRANSPORT_PIECE
#define TRANSPORT_PIECE 524288u		/* bytes a piece, where pieces are */
#endif

/* What the blocking work found out: plain data, passed over a pipe. */
struct transport_facts {
	char program[PATH_MAX];		/* the client program's real path */
	char id[TRANSPORT_ID_MAX];	/* names the container for ever */
	char arch[16];			/* "amd64"; empty: like the host's */
	char image[128];		/* its image, for inject() */
	char user[128];			/* configured user, empty: unknown */
	char groups[512];		/* added to any user's, each with ':' */
	char workdir[256];		/* configured directory, likewise */
	char agent[TRANSPORT_PATH_MAX];	/* where an agent was put, or empty */
	char hash[2 * SEAL_KEY + 1];	/* that agent's */
	char warning[256];		/* for doctor; empty: none */
	int64_t program_mtime;		/* of flags */
	uint32_t flags;			/* enum transport_fact */
};

enum transport_fact {
	TRANSPORT_NO_LOGIN_SHELL = 1,	/* the CLI has that option */
	TRANSPORT_FLAGS_KNOWN = 2,
	TRANSPORT_KEEP = 4,		/* the agent's file stays (local) */
	TRANSPORT_HOME_SET = 8,		/* the image's environment has HOME */
	TRANSPORT_FORCE_ROOT = 16,	/* TRANSPORT_AGENT_USER says so */
	TRANSPORT_FORCE_IMAGE = 32
};

/* One place to reach: a target as one client reaches it. */
struct transport_place {
	const struct transport *transport;
	struct target target;
	char *const *env;		/* borrowed: all that HELLO brought */
	char *const *child_env;		/* borrowed: what a child may see */
	const char *runtime;		/* borrowed: our directory */
	bool as_image;			/* the agent is not to start as root */
	const struct sandbox *sandbox;	/* borrowed; NULL: none that up made */
	const char *owner;		/* borrowed: labels what is ours (life) */
	struct transport_facts facts;
};

enum transport_trait {
	TRANSPORT_PTY = 1,		/* the child's stdin is a terminal */
	TRANSPORT_SHARED_UID = 2,	/* trust applies */
	TRANSPORT_BAKES = 4,		/* try TRANSPORT_BAKED first */
	TRANSPORT_HOME = 8,		/* the child runs in HOME, with env */
	TRANSPORT_LOGIN = 16,		/* login files may run first */
	TRANSPORT_ROOT = 32,		/* the agent starts as root, and as
					 * facts.user where root is no use */
	TRANSPORT_OWN_DIR = 64		/* a sandbox is a directory: a workdir
					 * is relative to it */
};

/* A sandbox that list() has found. */
struct transport_found {
	const char *name, *id, *key;
	bool running;
	bool unmarked;			/* no label of ours: known by name */
};

/* How `up` and the others make sandboxes.  All of these block. */
struct transport_life {
	/* Keys of the configuration that mean nothing here; ends in NULL. */
	const char *const *no_keys;
	/* Options that create_args and exec_args may not have; likewise. */
	const char *const *no_create_args;
	const char *const *no_exec_args;
	const char *workdir;		/* by default; NULL: the target's own */
	/* Variables that say where its sandboxes are; ends in NULL. */
	const char *const *select;
	/* What create() runs, and what to do if it lacks; may be NULL. */
	const char *program, *cure;
	/* Whether it builds images itself; else docker does. */
	bool builds;
	/* What the record must know before there is anything; may be NULL. */
	int (*plan)(struct sandbox *made, struct error *error);
	/*
	 * Make it (place->sandbox is made too), labelled with place->owner,
	 * and see it run; what is known then goes into *made, its container
	 * as soon as it has one, and into place->facts.id.  0, or -1 with
	 * *error.
	 */
	int (*create)(struct transport_place *place, struct sandbox *made,
	    uint64_t deadline, struct error *error);
	/*
	 * Remove place->sandbox, if it is ours.  0, 1 if there was none of
	 * ours, or -1 with *error.
	 */
	int (*remove)(struct transport_place *place, uint64_t deadline,
	    struct error *error);
	/*
	 * Tell all that have place->owner's label, one by one.  0, or -1
	 * with *error.  NULL: there() instead.
	 */
	int (*list)(struct transport_place *place,
	    void (*found)(void *ctx, const struct transport_found *found),
	    void *ctx, uint64_t deadline, struct error *error);
	bool (*there)(const struct sandbox *sandbox);
};

struct transport {
	const char *scheme;
	unsigned traits;
	/*
	 * Blocking, in the starter's process, until the deadline (clock.h):
	 * fill place->facts.  0, or -1 with *error.
	 */
	int (*resolve)(struct transport_place *place, uint64_t deadline,
	    struct error *error);
	/*
	 * Likewise: put our agent there, fill facts.agent and .hash.  On
	 * failure facts.agent names what could not be taken back, as *error
	 * does, or is empty.  A name that is there before is used again, if
	 * this transport can.
	 */
	int (*inject)(struct transport_place *place, uint64_t deadline,
	    struct error *error);
	/*
	 * Likewise, after a link was lost: 0 if the place that facts.id names
	 * is still there, as far as can be told, or -1 with *error: step
	 * SANDBOX if it is not, UNREACHABLE if nobody can say.  NULL: it is.
	 */
	int (*look)(struct transport_place *place, uint64_t deadline,
	    struct error *error);
	/* argv that runs words (the agent's) over the link's descriptors. */
	void (*link)(const struct transport_place *place, struct argv *argv);
	/*
	 * Likewise: remove facts.agent, whatever has become of it, with all
	 * rights that can be had.  0 once it is seen not to be there, or -1
	 * with *error, which names it.  NULL: it stays.
	 */
	int (*remove)(struct transport_place *place, uint64_t deadline,
	    struct error *error);
	/* A helper's facts are back in the controller; may be NULL. */
	void (*learn)(const struct transport_facts *facts);
	const struct transport_life *life;	/* NULL: up makes none */
	const struct transport_docker_kin *kin;	/* transport_docker.h's */
};

/* NULL: no such scheme. */
const struct transport *transport_find(const char *scheme);

/* The table's entries in order, NULL behind the last. */
const struct transport *transport_at(size_t index);

/* The agent's path that is tried first. */
const char *transport_baked(const struct transport_place *place);
/* Whether ours may be put there, and whether nothing else is tried. */
bool transport_may_inject(const struct transport_place *place);
bool transport_injects_first(const struct transport_place *place);
/* What the file of an agent that is put there is called, before "-HEX". */
const char *transport_agent_name(const struct transport_place *place);

/* Add the words of a list. */
void transport_words(struct argv *argv, struct items items);

extern const struct transport transport_local;
extern const struct transport transport_docker;
extern const struct transport transport_podman;
extern const struct transport transport_openshell;

/*
 * Build the image of place->sandbox out of its directory, by a transport
 * that builds.  Blocks.  0, or -1 with *error.
 */
int transport_build(struct transport_place *place, uint64_t deadline,
    struct error *error);

/* Whether an environment entry selects or reaches a transport's target. */
bool transport_identity_env(const char *entry);

/*
 * Whose the agent is to be, by the sandbox's settings, else by the client's
 * TRANSPORT_AGENT_USER, into the facts' flags.  0, or -1 with *error.
 */
int transport_agent_user(struct transport_place *place, struct error *error);

/*
 * Who runs a job that names nobody, as the agent is to be told; NULL: the
 * agent's own user.
 */
const char *transport_default_user(const struct transport_place *place);

/* The value of name in env, or NULL. */
const char *transport_getenv(char *const *env, const char *name);

/*
 * The real path of name on PATH of place->env, into facts.program, with its
 * mtime.  0, or -1 with *error, which says what to install.
 */
int transport_program(struct transport_place *place, const char *name,
    const char *cure, struct error *error);

/* Run facts.program with argv to its end; runcmd_run()'s values. */
int transport_run(struct transport_place *place, struct runcmd *cmd,
    const struct argv *argv, uint64_t deadline, struct error *error);

#endif
