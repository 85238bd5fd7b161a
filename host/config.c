/* SPDX-License-Identifier: MIT */
/* config.c - the table of keys, and a tree of YAML becomes sandboxes. */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config_value.h"
#include "quote.h"
#include "transport.h"

#define BUILD_MS 1800000u		/* defaults of timeouts: */
#define CREATE_MS 600000u
#define DELETE_MS 300000u

enum type {
	TEXT, LIST, COMMAND, NUMBER, ENV, LIMITS, TIMEOUTS, AGENT, STATE,
	EXEC_ARGS, CREATE_ARGS, SANDBOXES
};

enum where {
	IN_OPENSHELL = 1,		/* openshell.yaml has it too */
	IN_RECORD = 2,
	ONLY_RECORD = 4
};

#define AT(member) offsetof(struct sandbox, member)

/* Every key; what it may hold, where it may stand, where it goes. */
static const struct key {
	const char *name;
	enum type type;
	unsigned where;
	size_t offset;
} keys[] = {
	{ "image", TEXT, IN_OPENSHELL | IN_RECORD, AT(image) },
	{ "build", TEXT, IN_OPENSHELL, AT(build) },
	{ "workdir", TEXT, IN_OPENSHELL | IN_RECORD, AT(workdir) },
	{ "policy", TEXT, IN_OPENSHELL, AT(policy) },
	{ "create_args", CREATE_ARGS, IN_OPENSHELL, AT(create_args) },
	{ "exec_args", EXEC_ARGS, IN_OPENSHELL | IN_RECORD, AT(exec_args) },
	{ "hide_env", LIST, IN_OPENSHELL | IN_RECORD, AT(hide) },
	{ "transport", TEXT, IN_RECORD, AT(transport) },
	{ "agent", AGENT, IN_RECORD, AT(agent) },
	{ "agent_name", TEXT, IN_RECORD, AT(agent_name) },
	{ "agent_user", TEXT, IN_RECORD, AT(agent_user) },
	{ "env", ENV, IN_RECORD, AT(env) },
	{ "user", TEXT, IN_RECORD, AT(user) },
	{ "limits", LIMITS, IN_RECORD, AT(limits) },
	{ "timeouts", TIMEOUTS, IN_RECORD, AT(exec_ms) },
	{ "command", COMMAND, 0, AT(command) },
	{ "sandboxes", SANDBOXES, 0, 0 },
	{ "name", TEXT, ONLY_RECORD, AT(name) },
	{ "key", TEXT, ONLY_RECORD, AT(key) },
	{ "state", STATE, ONLY_RECORD, AT(state) },
	{ "created", NUMBER, ONLY_RECORD, AT(created) },
	{ "container", TEXT, ONLY_RECORD, AT(container) },
	{ "directory", TEXT, ONLY_RECORD, AT(directory) },
	{ "select", ENV, ONLY_RECORD, AT(select) }
};

#define COUNT (sizeof(keys) / sizeof(keys[0]))

/* Reads one file. */
struct reading {
	struct config_reader r;
	enum config_kind kind;
	const char *base;
	const struct transport *transport;	/* of the current sandbox */
	const struct yamltree_node *at[COUNT];	/* its values; NULL: none */
};

static bool
may_stand(const struct key *key, enum config_kind kind, bool top)
{
	if (kind == CONFIG_RECORD) {
		return (key->where & (IN_RECORD | ONLY_RECORD)) != 0;
	}
	return (key->where & ONLY_RECORD) == 0 &&
	    (kind == CONFIG_SANDMUX || (key->where & IN_OPENSHELL) != 0) &&
	    (top || key->type != SANDBOXES);
}

static size_t
find(const char *name)
{
	size_t i;

	for (i = 0; i < COUNT && strcmp(keys[i].name, name) != 0; i++) {
	}
	return i;
}

static int
unknown(struct reading *d, const struct yamltree_node *key, bool top)
{
	const char *names[COUNT];
	size_t i = find(key->text), count = 0;

	if (d->kind == CONFIG_OPENSHELL && i < COUNT &&
	    may_stand(&keys[i], CONFIG_SANDMUX, top)) {
		return yamltree_error(d->r.tree, key, d->r.error, "openshell"
		    ".yaml has no key \"%s\"; name the file sandmux.yaml to "
		    "use it", key->text);
	}
	for (i = 0; i < COUNT; i++) {
		if (may_stand(&keys[i], d->kind, top)) {
			names[count++] = keys[i].name;
		}
	}
	return config_unknown(&d->r, key, names, count);
}

/* Remember a mapping's values by key; a later mapping's go over them. */
static int
collect(struct reading *d, const struct yamltree_node *map, bool top)
{
	const struct yamltree_node *key;
	size_t i;

	for (key = map->child; key != NULL; key = key->next) {
		i = find(key->text);
		if (i == COUNT || !may_stand(&keys[i], d->kind, top)) {
			return unknown(d, key, top);
		}
		/* "policy:" with nothing behind it says nothing. */
		if (key->value->kind != YAMLTREE_NULL) {
			d->at[i] = key->value;
		}
	}
	return 0;
}

static int
value(struct reading *d, const struct key *key,
    const struct yamltree_node *node)
{
	struct config_reader *r = &d->r;
	void *to = (char *)r->sandbox + key->offset;
	const struct transport_life *life = d->transport->life;

	switch (key->type) {
	case TEXT:
		return config_text(r, node, key->name, to);
	case COMMAND:
		if (r->sandbox->has_command) {
			return yamltree_error(r->tree, node, r->error,
			    "create_args has a command behind --, and so has "
			    "command");
		}
		r->sandbox->has_command = true;
		return config_list(r, node, key->name, to);
	case LIST:
		return config_list(r, node, key->name, to);
	case NUMBER:
		return config_number(r, node, key->name, to);
	case ENV:
		return config_env(r, node, key->name, to);
	case LIMITS:
		return config_limits(r, node);
	case TIMEOUTS:
		return config_timeouts(r, node);
	case AGENT:
		return config_agent(r, node);
	case STATE:
		return config_state(r, node);
	case EXEC_ARGS:
		return config_exec_args(r, node, life->no_exec_args);
	case CREATE_ARGS:
		return config_create_args(r, node, life->no_create_args);
	default:
		return 0;
	}
}

/* ---- what one key alone cannot know ----------------------------------- */

static const struct yamltree_node *
at(const struct reading *d, const char *name)
{
	return d->at[find(name)];
}

/* The one that the sandbox is made by; NULL with the error. */
static const struct transport *
transport(struct reading *d)
{
	const struct yamltree_node *node = at(d, "transport");
	struct sandbox *s = d->r.sandbox;
	const struct transport *t;
	char shown[64], all[128] = "";
	size_t i, used = 0;

	if (node != NULL && config_text(&d->r, node, "transport",
	    &s->transport) < 0) {
		return NULL;
	}
	for (i = 0; (t = transport_at(i)) != NULL; i++) {
		if (t->life == NULL) {
			continue;
		}
		if (strcmp(t->scheme, s->transport) == 0) {
			return t;
		}
		used = quote_add(all, sizeof(all), used, "%s%s",
		    used > 0 ? ", " : "", t->scheme);
	}
	quote_text(shown, sizeof(shown), s->transport);
	yamltree_say(d->r.tree, node, d->r.error, "transport \"%s\" is "
	    "none by which this version makes sandboxes; there are %s", shown,
	    all);
	return NULL;
}

static bool
means_nothing(const struct reading *d, const char *key)
{
	const char *const *no = d->transport->life->no_keys;

	for (; *no != NULL && strcmp(*no, key) != 0; no++) {
	}
	return *no != NULL;
}

static int
fits_transport(struct reading *d)
{
	const char *const *no = d->transport->life->no_keys;

	for (; *no != NULL && d->kind != CONFIG_RECORD; no++) {
		if (at(d, *no) != NULL) {
			return yamltree_error(d->r.tree, at(d, *no),
			    d->r.error, "%s means nothing with transport %s",
			    *no, d->transport->scheme);
		}
	}
	return 0;
}

/* A path of the file's, absolute, that must be there. */
static int
local_path(struct reading *d, const char *key, const char *inner, char **path)
{
	const struct yamltree_node *node = at(d, key);
	char *full, *real, *probe;
	char shown[256];
	struct stat st;
	int rc = 0;

	if (node == NULL || d->kind == CONFIG_RECORD) {
		return 0;
	}
	if (asprintf(&full, "%s%s%s", (*path)[0] == '/' ? "" : d->base,
	    (*path)[0] == '/' ? "" : "/", *path) < 0) {
		return yamltree_error(d->r.tree, node, d->r.error,
		    "out of memory");
	}
	if (asprintf(&probe, "%s%s", full, inner) < 0) {
		free(full);
		return yamltree_error(d->r.tree, node, d->r.error,
		    "out of memory");
	}
	if (stat(probe, &st) < 0 || !S_ISREG(st.st_mode)) {
		quote_text(shown, sizeof(shown), probe);
		rc = yamltree_error(d->r.tree, node, d->r.error, "%s: there "
		    "is no file %s", key, shown);
	}
	real = rc == 0 ? realpath(full, NULL) : NULL;
	if (real != NULL) {
		free(*path);
		*path = real;
	}
	free(full);
	free(probe);
	return rc;
}

static int
workdir(struct reading *d)
{
	const struct yamltree_node *node = at(d, "workdir");
	struct sandbox *s = d->r.sandbox;
	bool own = (d->transport->traits & TRANSPORT_OWN_DIR) != 0;
	const char *inside;

	if (node == NULL || s->workdir == NULL || d->kind == CONFIG_RECORD) {
		return s->workdir == NULL && d->kind != CONFIG_RECORD ?
		    sandbox_set(&s->workdir, d->transport->life->workdir) : 0;
	}
	if (!own) {
		return s->workdir[0] == '/' ? 0 : yamltree_error(d->r.tree,
		    node, d->r.error, "workdir is an absolute path");
	}
	for (inside = s->workdir; inside != NULL; inside =
	    strchr(inside, '/') == NULL ? NULL : strchr(inside, '/') + 1) {
		if (strncmp(inside, "..", 2) == 0 &&
		    (inside[2] == '\0' || inside[2] == '/')) {
			break;
		}
	}
	return s->workdir[0] != '/' && inside == NULL ? 0 :
	    yamltree_error(d->r.tree, node, d->r.error, "workdir is a path "
	    "inside the sandbox's own directory with transport %s, like src",
	    d->transport->scheme);
}

/* Names that a job's environment can have. */
static int
names(struct reading *d)
{
	const struct yamltree_node *node = at(d, "hide_env"), *item, *user;

	for (item = node == NULL ? NULL : node->child; item != NULL;
	    item = item->next) {
		if (item->text[0] == '\0' || strchr(item->text, '=') != NULL) {
			return yamltree_error(d->r.tree, item, d->r.error,
			    "hide_env takes names of variables");
		}
	}
	node = at(d, "image");
	if (node != NULL && node->text != NULL && node->text[0] == '-') {
		return yamltree_error(d->r.tree, node, d->r.error, "image "
		    "begins with -, as an option does");
	}
	node = at(d, "user");
	if (node != NULL && strlen(node->text) > WIRE_USER_MAX) {
		return yamltree_error(d->r.tree, node, d->r.error, "user is "
		    "longer than %u bytes", WIRE_USER_MAX);
	}
	node = at(d, "agent_name");
	if (node != NULL && (strchr(node->text, '/') != NULL ||
	    strlen(node->text) > 64 || strspn(node->text, "abcdefghijklmnopqrs"
	    "tuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
	    strlen(node->text) || strspn(node->text, ".-") ==
	    strlen(node->text) || node->text[0] == '-')) {
		return yamltree_error(d->r.tree, node, d->r.error,
		    "agent_name is a file's name of letters, digits and . _ "
		    "-, at most 64");
	}
	user = at(d, "agent_user");
	if (user != NULL && strcmp(user->text, "root") != 0 &&
	    strcmp(user->text, "image") != 0) {
		return yamltree_error(d->r.tree, user, d->r.error,
		    "agent_user is root or image");
	}
	/* In a record the file that was put there is simply there. */
	if (node != NULL && d->kind != CONFIG_RECORD &&
	    d->r.sandbox->agent_mode == SANDBOX_AGENT_NEVER) {
		return yamltree_error(d->r.tree, node, d->r.error,
		    "agent_name names an agent that is put there, and agent "
		    "says that none is");
	}
	return 0;
}

/* An image that is built and has no name of its own gets one. */
static int
image(struct reading *d)
{
	struct sandbox *s = d->r.sandbox;
	uint8_t hash[SEAL_KEY];
	char hex[2 * SEAL_KEY + 1], name[64];

	if (s->image != NULL || d->kind == CONFIG_RECORD ||
	    means_nothing(d, "image")) {
		return 0;
	}
	if (s->build == NULL) {
		return sandbox_set(&s->image, CONFIG_IMAGE);
	}
	seal_hash(s->build, strlen(s->build), hash);
	seal_hex(hash, sizeof(hash), hex);
	snprintf(name, sizeof(name), "smx-build-%.16s:latest", hex);
	return sandbox_set(&s->image, name);
}

static int
defaults(struct reading *d, const char *key)
{
	struct sandbox *s = d->r.sandbox;

	if (d->kind != CONFIG_RECORD) {
		items_text(&s->hide, CONFIG_HIDE);
	}
	s->build_ms = BUILD_MS;
	s->create_ms = CREATE_MS;
	s->delete_ms = DELETE_MS;
	return sandbox_set(&s->transport, CONFIG_TRANSPORT) < 0 ||
	    sandbox_set(&s->base, d->base) < 0 ||
	    sandbox_set(&s->key, key) < 0 ? -1 : 0;
}

/* exec_args' variables come before those of env, which count then. */
static int
join_env(struct reading *d)
{
	struct sandbox *s = d->r.sandbox;
	struct wire_list list = items_list(&s->env);
	struct wire_bytes item;

	while (wire_next(&list, &item)) {
		items_add(&d->r.exec_env, item.at, item.len);
	}
	items_free(&s->env);
	s->env = d->r.exec_env;
	d->r.exec_env = (struct items){ 0 };
	return s->env.failed || s->hide.failed ? -1 : 0;
}

/* One sandbox of what was collected. */
static int
build(struct reading *d, struct config *config, const char *key)
{
	struct sandbox *s = sandbox_new();
	size_t i;
	int rc = 0;

	if (s == NULL) {
		return yamltree_error(d->r.tree, NULL, d->r.error,
		    "out of memory");
	}
	config->sandboxes[config->count++] = s;
	d->r.sandbox = s;
	if (defaults(d, key) < 0) {
		return yamltree_error(d->r.tree, NULL, d->r.error,
		    "out of memory");
	}
	d->transport = transport(d);
	if (d->transport == NULL) {
		return -1;
	}
	for (i = 0; i < COUNT && rc == 0; i++) {
		if (d->at[i] != NULL) {
			rc = value(d, &keys[i], d->at[i]);
		}
	}
	if (rc < 0 || fits_transport(d) < 0 || workdir(d) < 0 ||
	    names(d) < 0 || local_path(d, "policy", "", &s->policy) < 0 ||
	    local_path(d, "build", "/Dockerfile", &s->build) < 0) {
		return -1;
	}
	return image(d) < 0 || join_env(d) < 0 ? yamltree_error(d->r.tree,
	    NULL, d->r.error, "out of memory") : 0;
}

/* ---- the file --------------------------------------------------------- */

static int
good_key(struct reading *d, const struct yamltree_node *key)
{
	size_t len = strlen(key->text);

	if (len == 0 || len > SANDBOX_KEY_MAX) {
		return yamltree_error(d->r.tree, key, d->r.error, "a name in "
		    "sandboxes has 1 to %u bytes", SANDBOX_KEY_MAX);
	}
	return key->value->kind == YAMLTREE_MAP ||
	    key->value->kind == YAMLTREE_NULL ? 0 : config_wrong(&d->r,
	    key->value, "a sandbox", "a mapping");
}

/* env and limits of the top and of one of sandboxes come together. */
static int
several(struct reading *d, struct config *config,
    const struct yamltree_node *top, const struct yamltree_node *map)
{
	const struct yamltree_node *key;
	size_t env = find("env"), limits = find("limits");
	struct items first = { 0 };
	struct sandbox *s;
	struct wire_list list;
	struct wire_bytes item;
	unsigned i;

	for (key = map->child; key != NULL; key = key->next) {
		if (config->count == CONFIG_SANDBOXES_MAX) {
			return yamltree_error(d->r.tree, key, d->r.error,
			    "more than %u sandboxes", CONFIG_SANDBOXES_MAX);
		}
		memset(d->at, 0, sizeof(d->at));
		if (good_key(d, key) < 0 || collect(d, top, true) < 0) {
			return -1;
		}
		const struct yamltree_node *base_env = d->at[env],
		    *base_limits = d->at[limits];

		if (key->value->kind == YAMLTREE_MAP &&
		    collect(d, key->value, false) < 0) {
			return -1;
		}
		if (build(d, config, key->text) < 0) {
			return -1;
		}
		s = d->r.sandbox;
		if (base_env != NULL && base_env != d->at[env]) {
			if (config_env(&d->r, base_env, "env", &first) < 0) {
				items_free(&first);
				return -1;
			}
			list = items_list(&s->env);
			while (wire_next(&list, &item)) {
				items_add(&first, item.at, item.len);
			}
			items_free(&s->env);
			s->env = first;
			first = (struct items){ 0 };
		}
		if (base_limits != NULL && base_limits != d->at[limits]) {
			struct limits over = s->limits;

			if (config_limits(&d->r, base_limits) < 0) {
				return -1;
			}
			for (i = 0; i < WIRE_LIMITS_MAX; i++) {
				if (over.of[i].given) {
					s->limits.of[i] = over.of[i];
				}
			}
		}
	}
	return config->count > 0 ? 0 : yamltree_error(d->r.tree, map,
	    d->r.error, "sandboxes is empty");
}

static int
whole(struct reading *d, struct config *config)
{
	static const struct yamltree_node nothing = {
		.kind = YAMLTREE_MAP, .line = 1, .column = 1
	};
	const struct yamltree_node *root = d->r.tree->root, *list;

	if (root == NULL || root->kind == YAMLTREE_NULL) {
		root = &nothing;
	}
	if (root->kind != YAMLTREE_MAP) {
		return config_wrong(&d->r, root, "the file", "a mapping");
	}
	if (collect(d, root, true) < 0) {
		return -1;
	}
	list = at(d, "sandboxes");
	if (list == NULL) {
		return build(d, config, SANDBOX_KEY);
	}
	return list->kind == YAMLTREE_MAP ? several(d, config, root, list) :
	    config_wrong(&d->r, list, "sandboxes", "a mapping");
}

int
config_parse(struct config *config, enum config_kind kind, const char *name,
    const char *base, const char *data, size_t len, struct error *error)
{
	struct yamltree tree;
	struct reading d = { .kind = kind, .base = base,
	    .r = { .tree = &tree, .error = error,
	    .record = kind == CONFIG_RECORD } };
	int rc = -1;

	config->count = 0;
	if (yamltree_load(&tree, name, data, len, error) == 0) {
		rc = whole(&d, config);
	}
	items_free(&d.r.exec_env);
	yamltree_free(&tree);
	return rc;
}

void
config_free(struct config *config)
{
	while (config->count > 0) {
		sandbox_release(config->sandboxes[--config->count]);
	}
}

/* ---- a record's text -------------------------------------------------- */

static void
write_items(struct json *json, const char *key, const struct items *items)
{
	struct wire_list list = items_list(items);
	struct wire_bytes item;

	json_array(json, key);
	while (wire_next(&list, &item)) {
		json_bytes(json, NULL, item.at, item.len);
	}
	json_end_array(json);
}

static void
write_agent(struct json *json, const struct sandbox *s)
{
	static const char *const words[] = { NULL, "inject", "never" };
	const char *text = s->agent != NULL ? s->agent :
	    words[s->agent_mode];

	if (text != NULL) {
		json_string(json, "agent", text);
	}
}

static void
write_ms(struct json *json, const char *key, uint64_t ms)
{
	char text[32];

	if (ms != 0) {
		snprintf(text, sizeof(text), "%llums",
		    (unsigned long long)ms);
		json_string(json, key, text);
	}
}

static void
write_value(struct json *json, const struct key *key,
    const struct sandbox *s)
{
	const void *from = (const char *)s + key->offset;
	const char *text;

	switch (key->type) {
	case TEXT:
		text = *(char *const *)from;
		if (text != NULL) {
			json_string(json, key->name, text);
		}
		break;
	case NUMBER:
		json_u64(json, key->name, *(const uint64_t *)from);
		break;
	case AGENT:
		write_agent(json, s);
		break;
	case STATE:
		json_string(json, key->name, sandbox_words(s->state));
		break;
	case LIMITS:
		json_object(json, key->name);
		limits_write(&s->limits, json);
		json_end_object(json);
		break;
	case TIMEOUTS:
		json_object(json, key->name);
		write_ms(json, "create", s->create_ms);
		write_ms(json, "delete", s->delete_ms);
		write_ms(json, "exec", s->exec_ms);
		json_end_object(json);
		break;
	default:
		write_items(json, key->name, from);
		break;
	}
}

void
config_write(struct json *json, const struct sandbox *sandbox)
{
	size_t i;

	json_object(json, NULL);
	for (i = 0; i < COUNT; i++) {
		if (may_stand(&keys[i], CONFIG_RECORD, true)) {
			write_value(json, &keys[i], sandbox);
		}
	}
	json_end_object(json);
}
