/* SPDX-License-Identifier: MIT */
/* config_value.c - each kind of value that a key may hold. */
#include "config_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "quote.h"

#define NEAR 3				/* edits that may be a slip */

int
config_wrong(struct config_reader *r, const struct yamltree_node *node,
    const char *key, const char *want)
{
	char shown[64];

	if (node->kind == YAMLTREE_BOOL) {
		quote_text(shown, sizeof(shown), node->text);
		return yamltree_error(r->tree, node, r->error, "%s takes %s, "
		    "and %s is true or false; write \"%s\" if you mean the "
		    "text", key, want, shown, shown);
	}
	return yamltree_error(r->tree, node, r->error, "%s takes %s, not %s",
	    key, want, yamltree_words(node->kind));
}

int
config_unknown(struct config_reader *r, const struct yamltree_node *key,
    const char *const *names, size_t count)
{
	char shown[96], all[512];
	const char *near = NULL;
	unsigned distance, best = NEAR + 1;
	size_t i, used = 0;

	quote_text(shown, sizeof(shown), key->text);
	if (strcmp(key->text, "<<") == 0) {
		return yamltree_error(r->tree, key, r->error, "there are no "
		    "merge keys here; a key at the top counts for each of "
		    "sandboxes");
	}
	all[0] = '\0';
	for (i = 0; i < count; i++) {
		distance = options_distance(key->text, names[i]);
		if (distance < best && distance < strlen(names[i])) {
			best = distance;
			near = names[i];
		}
		used = quote_add(all, sizeof(all), used, "%s%s",
		    used > 0 ? ", " : "", names[i]);
	}
	if (near != NULL) {
		return yamltree_error(r->tree, key, r->error, "unknown key "
		    "\"%s\"; did you mean %s?", shown, near);
	}
	return yamltree_error(r->tree, key, r->error, "unknown key \"%s\"; "
	    "there are %s", shown, all);
}

/* A scalar that is text, or a number as it stands. */
static int
word(struct config_reader *r, const struct yamltree_node *node,
    const char *key, const char **out)
{
	*out = "";
	if (node->kind != YAMLTREE_TEXT && node->kind != YAMLTREE_NUMBER) {
		return config_wrong(r, node, key, "text");
	}
	if (strlen(node->text) > CONFIG_TEXT_MAX) {
		return yamltree_error(r->tree, node, r->error, "%s is longer "
		    "than %u bytes", key, CONFIG_TEXT_MAX);
	}
	*out = node->text;
	return 0;
}

static int
memory(struct config_reader *r, const struct yamltree_node *node)
{
	return yamltree_error(r->tree, node, r->error, "out of memory");
}

int
config_text(struct config_reader *r, const struct yamltree_node *node,
    const char *key, char **to)
{
	const char *text;

	if (word(r, node, key, &text) < 0) {
		return -1;
	}
	if (text[0] == '\0') {
		return yamltree_error(r->tree, node, r->error, "%s is empty",
		    key);
	}
	return sandbox_set(to, text) < 0 ? memory(r, node) : 0;
}

static int
is_list(struct config_reader *r, const struct yamltree_node *node,
    const char *key)
{
	return node->kind == YAMLTREE_LIST ? 0 :
	    config_wrong(r, node, key, "a list");
}

int
config_list(struct config_reader *r, const struct yamltree_node *node,
    const char *key, struct items *to)
{
	const struct yamltree_node *item;
	const char *text;

	if (is_list(r, node, key) < 0) {
		return -1;
	}
	items_free(to);
	for (item = node->child; item != NULL; item = item->next) {
		if (word(r, item, key, &text) < 0) {
			return -1;
		}
		items_text(to, text);
	}
	return to->failed ? memory(r, node) : 0;
}

int
config_number(struct config_reader *r, const struct yamltree_node *node,
    const char *key, uint64_t *to)
{
	struct error error;

	if (node->kind != YAMLTREE_NUMBER || options_number(node->text, key,
	    INT64_MAX, to, &error) < 0) {
		return config_wrong(r, node, key, "a whole number");
	}
	return 0;
}

/* Another parser's words, here. */
static int
refused(struct config_reader *r, const struct yamltree_node *node,
    const char *key, const struct error *error)
{
	const char *text = error->text;

	/* They speak of the options that the same things have in exec. */
	text += strspn(text, "-");
	return yamltree_error(r->tree, node, r->error, "%s: %s", key, text);
}

/* ---- env -------------------------------------------------------------- */

static int
env_word(struct config_reader *r, const struct yamltree_node *node,
    const char *key, const char *text, struct items *to)
{
	struct envlist one = { 0 };
	struct wire_list list;
	struct wire_bytes item;
	struct error error;
	size_t i;
	int rc = 0;

	if (r->record && strchr(text, '=') == NULL) {
		return yamltree_error(r->tree, node, r->error, "%s: no value",
		    key);
	}
	if (envlist_add(&one, text, &error) < 0) {
		return refused(r, node, key, &error);
	}
	list = items_list(&one.set);
	while (wire_next(&list, &item)) {
		for (i = 0; i < item.len; ) {
			size_t n = quote_utf8_any(item.at + i, item.len - i);

			if (n == 0) {
				rc = yamltree_error(r->tree, node, r->error,
				    "%s: the value that it has here is not "
				    "UTF-8", key);
				break;
			}
			i += n;
		}
		items_add(to, item.at, item.len);
	}
	envlist_free(&one);
	return rc == 0 && to->failed ? memory(r, node) : rc;
}

int
config_env(struct config_reader *r, const struct yamltree_node *node,
    const char *key, struct items *to)
{
	const struct yamltree_node *item;
	const char *value = NULL;
	char *text;
	int rc = 0;

	if (node->kind == YAMLTREE_LIST) {
		for (item = node->child; item != NULL && rc == 0;
		    item = item->next) {
			rc = word(r, item, key, &value) < 0 ||
			    env_word(r, item, key, value, to) < 0 ? -1 : 0;
		}
		return rc;
	}
	if (node->kind != YAMLTREE_MAP) {
		return config_wrong(r, node, key, "a mapping or a list");
	}
	for (item = node->child; item != NULL && rc == 0; item = item->next) {
		bool none = item->value->kind == YAMLTREE_NULL;

		if (strchr(item->text, '=') != NULL) {
			return yamltree_error(r->tree, item, r->error,
			    "%s: the name of a variable has no =", key);
		}
		if (!none && word(r, item->value, key, &value) < 0) {
			return -1;
		}
		if (asprintf(&text, "%s%s%s", item->text, none ? "" : "=",
		    none ? "" : value) < 0) {
			return memory(r, node);
		}
		rc = env_word(r, item, key, text, to);
		free(text);
	}
	return rc;
}

/* ---- mappings with names of their own --------------------------------- */

int
config_limits(struct config_reader *r, const struct yamltree_node *node)
{
	const struct yamltree_node *key;
	struct error error;
	const char *value;
	char text[160];

	if (node->kind != YAMLTREE_MAP) {
		return config_wrong(r, node, "limits", "a mapping");
	}
	for (key = node->child; key != NULL; key = key->next) {
		if (word(r, key->value, "limits", &value) < 0) {
			return -1;
		}
		snprintf(text, sizeof(text), "%.64s=%.80s", key->text, value);
		if (limits_add(&r->sandbox->limits, text, &error) < 0) {
			return refused(r, key, "limits", &error);
		}
	}
	return 0;
}

int
config_timeouts(struct config_reader *r, const struct yamltree_node *node)
{
	static const char *const names[] = {
		"build", "create", "delete", "exec"
	};
	uint64_t *const to[] = { &r->sandbox->build_ms,
	    &r->sandbox->create_ms, &r->sandbox->delete_ms,
	    &r->sandbox->exec_ms };
	const size_t count = sizeof(names) / sizeof(names[0]);
	const struct yamltree_node *key;
	struct error error;
	const char *value;
	size_t i;

	if (node->kind != YAMLTREE_MAP) {
		return config_wrong(r, node, "timeouts", "a mapping");
	}
	for (key = node->child; key != NULL; key = key->next) {
		for (i = 0; i < count && strcmp(names[i], key->text) != 0;
		    i++) {
		}
		if (i == count) {
			return config_unknown(r, key, names, count);
		}
		if (word(r, key->value, "timeouts", &value) < 0) {
			return -1;
		}
		if (options_duration(value, names[i], to[i], &error) < 0) {
			return refused(r, key->value, "timeouts", &error);
		}
		if (*to[i] == 0) {
			return yamltree_error(r->tree, key->value, r->error,
			    "timeouts: %s is 0; leave it out for %s",
			    names[i], i == 3 ? "none" : "the default");
		}
	}
	return 0;
}

int
config_agent(struct config_reader *r, const struct yamltree_node *node)
{
	struct sandbox *s = r->sandbox;
	char *text = NULL;
	int rc = 0;

	if (config_text(r, node, "agent", &text) < 0) {
		return -1;
	}
	sandbox_set(&s->agent, NULL);
	if (strcmp(text, "inject") == 0) {
		s->agent_mode = SANDBOX_AGENT_INJECT;
	} else if (strcmp(text, "never") == 0) {
		s->agent_mode = SANDBOX_AGENT_NEVER;
	} else if (text[0] == '/') {
		s->agent_mode = SANDBOX_AGENT_NEVER;
		rc = sandbox_set(&s->agent, text);
	} else {
		rc = yamltree_error(r->tree, node, r->error, "agent is "
		    "inject, never or the absolute path that it has in the "
		    "image");
	}
	free(text);
	return rc;
}

int
config_state(struct config_reader *r, const struct yamltree_node *node)
{
	enum sandbox_state state;

	for (state = SANDBOX_CREATING; state <= SANDBOX_REMOVING; state++) {
		if (node->kind == YAMLTREE_TEXT &&
		    strcmp(node->text, sandbox_words(state)) == 0) {
			r->sandbox->state = state;
			return 0;
		}
	}
	return config_wrong(r, node, "state", "a state");
}

/* ---- arguments for the CLI -------------------------------------------- */

/* Whether word is that option, with =VALUE or without. */
static bool
is_option(const char *text, const char *option)
{
	size_t len = strlen(option);

	return strncmp(text, option, len) == 0 &&
	    (text[len] == '\0' || text[len] == '=' ||
	    (option[0] == '-' && option[1] != '-' && len == 2));
}

static int
may_not(struct config_reader *r, const struct yamltree_node *node,
    const char *key, const char *const *options)
{
	char shown[64];

	for (; *options != NULL; options++) {
		if (is_option(node->text, *options)) {
			quote_text(shown, sizeof(shown), node->text);
			return yamltree_error(r->tree, node, r->error, "%s "
			    "cannot have %s: sandmux has a use of its own "
			    "for it", key, shown);
		}
	}
	return 0;
}

int
config_exec_args(struct config_reader *r, const struct yamltree_node *node,
    const char *const *refuse)
{
	struct items *to = &r->sandbox->exec_args;
	const struct yamltree_node *item;
	const char *text;

	if (is_list(r, node, "exec_args") < 0) {
		return -1;
	}
	items_free(to);
	items_free(&r->exec_env);
	for (item = node->child; item != NULL; item = item->next) {
		if (word(r, item, "exec_args", &text) < 0) {
			return -1;
		}
		if (strcmp(text, "--") == 0) {
			return yamltree_error(r->tree, item, r->error,
			    "exec_args cannot have --: the agent's own "
			    "command follows them");
		}
		if (may_not(r, item, "exec_args", refuse) < 0) {
			return -1;
		}
		if (!is_option(text, "--env")) {
			items_text(to, text);
			continue;
		}
		text += strlen("--env");
		if (*text == '\0') {
			item = item->next;
			if (item == NULL) {
				return yamltree_error(r->tree, node, r->error,
				    "exec_args: --env needs a value");
			}
			if (word(r, item, "exec_args", &text) < 0) {
				return -1;
			}
		} else {
			text++;
		}
		if (env_word(r, item, "exec_args", text, &r->exec_env) < 0) {
			return -1;
		}
	}
	return to->failed ? memory(r, node) : 0;
}

int
config_create_args(struct config_reader *r,
    const struct yamltree_node *node, const char *const *refuse)
{
	struct sandbox *s = r->sandbox;
	const struct yamltree_node *item;
	struct items *to = &s->create_args;
	const char *text;

	if (is_list(r, node, "create_args") < 0) {
		return -1;
	}
	items_free(to);
	for (item = node->child; item != NULL; item = item->next) {
		if (word(r, item, "create_args", &text) < 0) {
			return -1;
		}
		if (to == &s->create_args && strcmp(text, "--") == 0) {
			if (s->has_command) {
				return yamltree_error(r->tree, item, r->error,
				    "create_args has a command behind --, and "
				    "so has command");
			}
			s->has_command = true;
			to = &s->command;
			continue;
		}
		if (to == &s->create_args &&
		    may_not(r, item, "create_args", refuse) < 0) {
			return -1;
		}
		items_text(to, text);
	}
	return s->create_args.failed || s->command.failed ?
	    memory(r, node) : 0;
}
