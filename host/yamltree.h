/* SPDX-License-Identifier: MIT */
/*
 * yamltree.h - one YAML document as a tree of bounded size, with positions.
 *
 * The only file that uses libyaml, and of it the event parser alone.  For
 * config.c, which gives the tree a meaning.  The text is hostile: its size,
 * its depth, the number of its nodes and of its aliases are limited, an alias
 * is a reference and never a copy, and a mapping has each key once.
 */
#ifndef YAMLTREE_H
#define YAMLTREE_H

#include <stdbool.h>
#include <stddef.h>

#include "error.h"

#define YAMLTREE_BYTES 262144u		/* of a document */
#define YAMLTREE_DEPTH 16u		/* collections in collections */
#define YAMLTREE_NODES 8192u
#define YAMLTREE_ALIASES 64u

enum yamltree_kind {
	YAMLTREE_NULL,			/* nothing, ~ or null */
	YAMLTREE_BOOL,			/* true, no, on ... unquoted */
	YAMLTREE_NUMBER,		/* unquoted */
	YAMLTREE_TEXT,
	YAMLTREE_LIST,
	YAMLTREE_MAP
};

struct yamltree_node {
	enum yamltree_kind kind;
	unsigned line, column;		/* from 1 */
	char *text;			/* owned: a scalar's, UTF-8, no NUL */
	struct yamltree_node *child;	/* LIST: items; MAP: keys (TEXT or
					 * NUMBER or BOOL), each with a value */
	struct yamltree_node *value;	/* of a key */
	struct yamltree_node *next;	/* beside it; not for an alias */
};

struct yamltree {
	const char *name;		/* borrowed: the file's, for errors */
	const struct yamltree_node *root;	/* NULL: an empty document */

	/* private */
	struct yamltree_node *nodes;
	unsigned count, aliases;
};

/*
 * Read data[len], which is the file name (borrowed).  0, or -1 with *error
 * "NAME:LINE:COLUMN: what is wrong"; yamltree_free() is fine on both.
 */
int yamltree_load(struct yamltree *tree, const char *name, const char *data,
    size_t len, struct error *error);
void yamltree_free(struct yamltree *tree);

/* Fill *error with the position of node (NULL: 1:1) and a text; -1. */
#define yamltree_error(...) (yamltree_say(__VA_ARGS__), -1)
void yamltree_say(const struct yamltree *tree,
    const struct yamltree_node *node, struct error *error,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "a list", "a mapping", "text" ... */
const char *yamltree_words(enum yamltree_kind kind);

#endif
