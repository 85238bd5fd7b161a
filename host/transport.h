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
#include "seal.h"
#include "target.h"

#define TRANSPORT_BAKED "/usr/bin/sandmux-agent"
#define TRANSPORT_AGENT_USER "SANDMUX_AGENT_USER"	/* root or image */
#define TRANSPORT_AGENT_USER_IS (TRANSPORT_AGENT_USER "=")
#define TRANSPORT_ID_MAX 256
#define TRANSPORT_PATH_MAX 512		/* of an injected agent */
#define TRANSPORT_RESOLVE_MS 20000u	/* deadlines of the blocking work */
#define TRANSPORT_INJECT_MS 60000u
#define TRANSPORT_PIECE 524288u		/* bytes a piece, where pieces are */

/* What the blocking work found out: plain data, passed over a pipe. */
struct transport_facts {
	char program[PATH_MAX];		/* the client program's real path */
	char id[TRANSPORT_ID_MAX];	/* names the container for ever */
	char arch[16];			/* "amd64"; empty: like the host's */
	char image[128];		/* its image, for inject() */
	char user[128];			/* configured user, empty: unknown */
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
	struct target target;
	char *const *env;		/* borrowed: all that HELLO brought */
	char *const *child_env;		/* borrowed: what a child may see */
	const char *runtime;		/* borrowed: our directory */
	bool as_image;			/* the agent is not to start as root */
	struct transport_facts facts;
};

enum transport_trait {
	TRANSPORT_PTY = 1,		/* the child's stdin is a terminal */
	TRANSPORT_SHARED_UID = 2,	/* trust applies */
	TRANSPORT_BAKES = 4,		/* try TRANSPORT_BAKED first */
	TRANSPORT_HOME = 8,		/* the child runs in HOME, with env */
	TRANSPORT_LOGIN = 16,		/* login files may run first */
	TRANSPORT_ROOT = 32		/* the agent starts as root, and as
					 * facts.user where root is no use */
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
	/* Likewise: put our agent there, fill facts.agent and .hash. */
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
	 * argv before an agent's path and "remove", run with all rights that
	 * can be had.  NULL: the file stays or the agent could remove it.
	 */
	void (*remove)(const struct transport_place *place,
	    struct argv *argv);
	/* A helper's facts are back in the controller; may be NULL. */
	void (*learn)(const struct transport_facts *facts);
};

/* NULL: no such scheme. */
const struct transport *transport_find(const char *scheme);

extern const struct transport transport_local;
extern const struct transport transport_docker;
extern const struct transport transport_openshell;

/* Whether an environment entry selects or reaches a transport's target. */
bool transport_identity_env(const char *entry);

/*
 * Whose the agent is to be by the client's TRANSPORT_AGENT_USER, into the
 * facts' flags.  0, or -1 with *error.
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

#endif
