/* SPDX-License-Identifier: MIT */
/* yamltree.c - libyaml's events become a bounded tree. */
#include "yamltree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "quote.h"

struct anchor {
	char *name;			/* owned */
	struct yamltree_node *node;
	bool open;			/* its node is not complete */
};

struct loader {
	struct yamltree *tree;
	yaml_parser_t parser;
	yaml_event_t event;		/* the current one */
	bool has_event;
	struct anchor anchors[YAMLTREE_ALIASES];
	unsigned anchor_count;
	unsigned depth;
	struct error *error;
};

const char *
yamltree_words(enum yamltree_kind kind)
{
	static const char *const words[] = {
		"nothing", "true or false", "a number", "text", "a list",
		"a mapping"
	};

	return words[kind];
}

static int
say(const char *name, unsigned line, unsigned column, struct error *error,
    const char *text)
{
	char shown[256];

	quote_text(shown, sizeof(shown), name);
	error_set(error, WIRE_STEP_USAGE, 0, "%s:%u:%u: %s", shown, line,
	    column, text);
	return -1;
}

void
yamltree_say(const struct yamltree *tree,
    const struct yamltree_node *node, struct error *error,
    const char *format, ...)
{
	char text[WIRE_TEXT_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	say(tree->name, node == NULL ? 1 : node->line,
	    node == NULL ? 1 : node->column, error, text);
}

/* ---- events ----------------------------------------------------------- */

static int
here(struct loader *l, const char *text)
{
	return say(l->tree->name, (unsigned)l->event.start_mark.line + 1,
	    (unsigned)l->event.start_mark.column + 1, l->error, text);
}

/* The parser's own complaint, where it happened. */
static int
complain(struct loader *l)
{
	const yaml_parser_t *p = &l->parser;
	char text[320];

	if (p->error == YAML_MEMORY_ERROR) {
		error_set(l->error, WIRE_STEP_USAGE, ENOMEM, "%s",
		    l->tree->name);
		return -1;
	}
	snprintf(text, sizeof(text), "not YAML: %s%s%s",
	    p->context != NULL ? p->context : "",
	    p->context != NULL ? ": " : "",
	    p->problem != NULL ? p->problem : "it cannot be read");
	return say(l->tree->name, (unsigned)p->problem_mark.line + 1,
	    (unsigned)p->problem_mark.column + 1, l->error, text);
}

static int
next(struct loader *l)
{
	if (l->has_event) {
		yaml_event_delete(&l->event);
		l->has_event = false;
	}
	if (yaml_parser_parse(&l->parser, &l->event) == 0) {
		return complain(l);
	}
	l->has_event = true;
	return 0;
}

/* ---- nodes ------------------------------------------------------------ */

static struct yamltree_node *
new_node(struct loader *l, enum yamltree_kind kind)
{
	struct yamltree_node *node;
	char text[96];

	if (l->tree->count == YAMLTREE_NODES) {
		snprintf(text, sizeof(text), "more than %u values in one "
		    "file", YAMLTREE_NODES);
		here(l, text);
		return NULL;
	}
	node = &l->tree->nodes[l->tree->count++];
	node->kind = kind;
	node->line = (unsigned)l->event.start_mark.line + 1;
	node->column = (unsigned)l->event.start_mark.column + 1;
	return node;
}

static bool
one_of(const char *text, const char *const *words)
{
	for (; *words != NULL; words++) {
		if (strcmp(text, *words) == 0) {
			return true;
		}
	}
	return false;
}

/* What YAML 1.1 makes of a scalar that is not quoted. */
static enum yamltree_kind
resolve(const char *text)
{
	static const char *const nulls[] = {
		"", "~", "null", "Null", "NULL", NULL
	};
	static const char *const bools[] = {
		"true", "True", "TRUE", "false", "False", "FALSE", "yes",
		"Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off",
		"Off", "OFF", NULL
	};
	size_t digits = strspn(text + (text[0] == '-' || text[0] == '+'),
	    "0123456789.");
	char *end;

	if (one_of(text, nulls)) {
		return YAMLTREE_NULL;
	}
	if (one_of(text, bools)) {
		return YAMLTREE_BOOL;
	}
	strtod(text, &end);
	return digits > 0 && *end == '\0' && end != text ? YAMLTREE_NUMBER :
	    YAMLTREE_TEXT;
}

static struct yamltree_node *
scalar(struct loader *l)
{
	const char *value = (const char *)l->event.data.scalar.value;
	size_t len = l->event.data.scalar.length;
	bool plain = l->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	    l->event.data.scalar.tag == NULL;
	struct yamltree_node *node;

	if (memchr(value, '\0', len) != NULL) {
		here(l, "a NUL character, which nothing here can have");
		return NULL;
	}
	node = new_node(l, plain ? resolve(value) : YAMLTREE_TEXT);
	if (node == NULL) {
		return NULL;
	}
	node->text = strndup(value, len);
	if (node->text == NULL) {
		error_set(l->error, WIRE_STEP_USAGE, ENOMEM, "%s",
		    l->tree->name);
		return NULL;
	}
	return node;
}

/* ---- anchors ---------------------------------------------------------- */

/* An anchor on the current event, whose node is still to come; or NULL. */
static int
take_anchor(struct loader *l, const yaml_char_t *name, struct anchor **out)
{
	struct anchor *a;
	char text[64];

	*out = NULL;
	if (name == NULL) {
		return 0;
	}
	if (l->anchor_count == YAMLTREE_ALIASES) {
		snprintf(text, sizeof(text), "more than %u anchors",
		    YAMLTREE_ALIASES);
		return here(l, text);
	}
	a = &l->anchors[l->anchor_count];
	a->name = strdup((const char *)name);
	if (a->name == NULL) {
		return here(l, "out of memory");
	}
	l->anchor_count++;
	a->open = true;
	*out = a;
	return 0;
}

static struct yamltree_node *
alias(struct loader *l)
{
	const char *name = (const char *)l->event.data.alias.anchor;
	char text[128], shown[64];
	unsigned i;

	if (++l->tree->aliases > YAMLTREE_ALIASES) {
		snprintf(text, sizeof(text), "more than %u aliases",
		    YAMLTREE_ALIASES);
		here(l, text);
		return NULL;
	}
	/* The last one of a name counts. */
	for (i = l->anchor_count; i > 0; i--) {
		struct anchor *a = &l->anchors[i - 1];

		if (strcmp(a->name, name) != 0) {
			continue;
		}
		if (a->open || a->node == NULL) {
			here(l, "an alias of what it is itself a part of");
			return NULL;
		}
		return a->node;
	}
	quote_text(shown, sizeof(shown), name);
	snprintf(text, sizeof(text), "no anchor &%s before this", shown);
	here(l, text);
	return NULL;
}

/* ---- the tree --------------------------------------------------------- */

static struct yamltree_node *value(struct loader *l);

/*
 * An alias as an item or a key's value shares its anchor's node, but the
 * list it stands in has its own `next`: the item is a node of its own that
 * borrows the content.
 */
static struct yamltree_node *
share(struct loader *l, const struct yamltree_node *from)
{
	struct yamltree_node *node = new_node(l, from->kind);

	if (node != NULL) {
		node->child = from->child;
		if (from->text != NULL) {
			node->text = strdup(from->text);
			if (node->text == NULL) {
				here(l, "out of memory");
				return NULL;
			}
		}
	}
	return node;
}

static int
list(struct loader *l, struct yamltree_node *node)
{
	struct yamltree_node **at = &node->child;

	for (;;) {
		if (next(l) < 0) {
			return -1;
		}
		if (l->event.type == YAML_SEQUENCE_END_EVENT) {
			return 0;
		}
		*at = value(l);
		if (*at == NULL) {
			return -1;
		}
		at = &(*at)->next;
	}
}

static int
unique(struct loader *l, const struct yamltree_node *map,
    const struct yamltree_node *key)
{
	const struct yamltree_node *k;
	char shown[96];

	for (k = map->child; k != NULL; k = k->next) {
		if (k != key && strcmp(k->text, key->text) == 0) {
			quote_text(shown, sizeof(shown), key->text);
			return yamltree_error(l->tree, key, l->error, "the "
			    "key \"%s\" is there twice, first on line %u",
			    shown, k->line);
		}
	}
	return 0;
}

static int
map(struct loader *l, struct yamltree_node *node)
{
	struct yamltree_node **at = &node->child;

	for (;;) {
		if (next(l) < 0) {
			return -1;
		}
		if (l->event.type == YAML_MAPPING_END_EVENT) {
			return 0;
		}
		if (l->event.type != YAML_SCALAR_EVENT) {
			return here(l, "a key must be text");
		}
		*at = value(l);
		if (*at == NULL || unique(l, node, *at) < 0 || next(l) < 0) {
			return -1;
		}
		(*at)->value = value(l);
		if ((*at)->value == NULL) {
			return -1;
		}
		at = &(*at)->next;
	}
}

static bool
known_tag(const yaml_char_t *tag)
{
	return tag == NULL || strcmp((const char *)tag, "!") == 0 ||
	    strcmp((const char *)tag, YAML_STR_TAG) == 0;
}

static struct yamltree_node *
collection(struct loader *l)
{
	bool is_list = l->event.type == YAML_SEQUENCE_START_EVENT;
	struct yamltree_node *node;
	struct anchor *a;
	char text[64];
	int rc;

	if (is_list ? l->event.data.sequence_start.tag != NULL :
	    l->event.data.mapping_start.tag != NULL) {
		here(l, "tags are not understood here");
		return NULL;
	}
	if (l->depth == YAMLTREE_DEPTH) {
		snprintf(text, sizeof(text), "nested deeper than %u",
		    YAMLTREE_DEPTH);
		here(l, text);
		return NULL;
	}
	if (take_anchor(l, is_list ? l->event.data.sequence_start.anchor :
	    l->event.data.mapping_start.anchor, &a) < 0) {
		return NULL;
	}
	node = new_node(l, is_list ? YAMLTREE_LIST : YAMLTREE_MAP);
	if (node == NULL) {
		return NULL;
	}
	l->depth++;
	rc = is_list ? list(l, node) : map(l, node);
	l->depth--;
	if (a != NULL) {
		a->node = node;
		a->open = false;
	}
	return rc < 0 ? NULL : node;
}

/* The node that the current event begins, up to its last event. */
static struct yamltree_node *
value(struct loader *l)
{
	struct yamltree_node *node;
	struct anchor *a;

	switch (l->event.type) {
	case YAML_SCALAR_EVENT:
		if (!known_tag(l->event.data.scalar.tag)) {
			here(l, "tags are not understood here");
			return NULL;
		}
		if (take_anchor(l, l->event.data.scalar.anchor, &a) < 0) {
			return NULL;
		}
		node = scalar(l);
		if (a != NULL) {
			a->node = node;
			a->open = false;
		}
		return node;
	case YAML_ALIAS_EVENT:
		node = alias(l);
		return node == NULL ? NULL : share(l, node);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return collection(l);
	default:
		here(l, "something that is no value");
		return NULL;
	}
}

static int
advance(struct loader *l, unsigned events)
{
	while (events-- > 0) {
		if (next(l) < 0) {
			return -1;
		}
	}
	return 0;
}

static int
document(struct loader *l)
{
	if (advance(l, 2) < 0) {	/* the stream's start, the document's */
		return -1;
	}
	if (l->event.type == YAML_STREAM_END_EVENT) {
		return 0;
	}
	if (next(l) < 0) {
		return -1;
	}
	l->tree->root = value(l);
	if (l->tree->root == NULL || advance(l, 2) < 0) {
		return -1;
	}
	return l->event.type == YAML_STREAM_END_EVENT ? 0 :
	    here(l, "a second document; one is all there can be");
}

/* Bytes that are no UTF-8, or NUL: libyaml knows no line for them. */
static int
check_bytes(const struct yamltree *tree, const char *data, size_t len,
    struct error *error)
{
	unsigned line = 1, column = 1;
	size_t i = 0, n;

	if (len > YAMLTREE_BYTES) {
		return yamltree_error(tree, NULL, error, "longer than %u "
		    "bytes", YAMLTREE_BYTES);
	}
	while (i < len) {
		n = quote_utf8_any((const uint8_t *)data + i, len - i);
		if (n == 0 || data[i] == '\0') {
			return say(tree->name, line, column, error, n == 0 ?
			    "a byte that is not UTF-8" :
			    "a NUL character, which no such file has");
		}
		if (data[i] == '\n') {
			line++;
			column = 1;
		} else {
			column++;
		}
		i += n;
	}
	return 0;
}

int
yamltree_load(struct yamltree *tree, const char *name, const char *data,
    size_t len, struct error *error)
{
	struct loader l = { .tree = tree, .error = error };
	int rc;
	unsigned i;

	*tree = (struct yamltree){ .name = name };
	if (check_bytes(tree, data, len, error) < 0) {
		return -1;
	}
	tree->nodes = calloc(YAMLTREE_NODES, sizeof(*tree->nodes));
	if (tree->nodes == NULL || yaml_parser_initialize(&l.parser) == 0) {
		error_set(error, WIRE_STEP_USAGE, ENOMEM, "%s", name);
		return -1;
	}
	/* Never guessed: no UTF-16. */
	yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&l.parser, (const unsigned char *)data,
	    len);
	rc = document(&l);
	if (l.has_event) {
		yaml_event_delete(&l.event);
	}
	yaml_parser_delete(&l.parser);
	for (i = 0; i < l.anchor_count; i++) {
		free(l.anchors[i].name);
	}
	return rc;
}

void
yamltree_free(struct yamltree *tree)
{
	unsigned i;

	for (i = 0; tree->nodes != NULL && i < tree->count; i++) {
		free(tree->nodes[i].text);
	}
	free(tree->nodes);
	*tree = (struct yamltree){ .name = tree->name };
}
