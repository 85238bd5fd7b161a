/* SPDX-License-Identifier: MIT */
/*
 * env.h - the part of a client's environment that came in its HELLO.
 *
 * Shared by the client's connection and the links it started; the values
 * are the client's, and nothing of the controller's own environment is ever
 * mixed in.
 */
#ifndef ENV_H
#define ENV_H

#include "error.h"

struct env {
	unsigned refs;
	char **all;		/* sorted, NULL-terminated */
	char **child;		/* those a transport's child may see */
};

/* From a decoded list; NULL with *error. */
struct env *env_new(struct wire_list list, struct error *error);
struct env *env_hold(struct env *env);

/*
 * Exchange *env, which is released, for one without the variables names (ends
 * in NULL) and with list's K=V.  0, or -1 with *error and *env as it was.
 */
int env_replace(struct env **env, const char *const *names,
    struct wire_list list, struct error *error);
/* NULL is fine. */
void env_release(struct env *env);

#endif
