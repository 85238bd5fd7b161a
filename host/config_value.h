/* SPDX-License-Identifier: MIT */
/*
 * config_value.h - what one key of a configuration may hold.
 *
 * For config.c: each reads a node of the tree into a sandbox.  0, or -1 with
 * *error, which has the position.
 */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "envlist.h"
#include "sandbox.h"
#include "yamltree.h"

#define CONFIG_TEXT_MAX 4096u		/* bytes of one text */

struct config_reader {
	const struct yamltree *tree;
	struct error *error;
	struct sandbox *sandbox;	/* that is being filled */
	struct items exec_env;		/* --env of exec_args: below env */
	bool record;			/* nothing is taken from here */
};

int config_text(struct config_reader *r, const struct yamltree_node *node,
    const char *key, char **to);
int config_list(struct config_reader *r, const struct yamltree_node *node,
    const char *key, struct items *to);
int config_number(struct config_reader *r, const struct yamltree_node *node,
    const char *key, uint64_t *to);
int config_env(struct config_reader *r, const struct yamltree_node *node,
    const char *key, struct items *to);
int config_limits(struct config_reader *r, const struct yamltree_node *node);
int config_timeouts(struct config_reader *r,
    const struct yamltree_node *node);
int config_agent(struct config_reader *r, const struct yamltree_node *node);
int config_state(struct config_reader *r, const struct yamltree_node *node);

/*
 * exec_args: --env goes to exec_env, the rest to the sandbox; options that
 * the link has for itself (refused, NULL-terminated) are errors.
 */
int config_exec_args(struct config_reader *r,
    const struct yamltree_node *node, const char *const *refused);
/* create_args, with the words behind "--" as the command. */
int config_create_args(struct config_reader *r,
    const struct yamltree_node *node, const char *const *refused);

/* "unknown key ...; did you mean ...?", out of names[count]; -1. */
int config_unknown(struct config_reader *r, const struct yamltree_node *key,
    const char *const *names, size_t count);

/* The node's kind is none that key takes; -1. */
int config_wrong(struct config_reader *r, const struct yamltree_node *node,
    const char *key, const char *want);

#endif
