/* SPDX-License-Identifier: MIT */
/* sandbox.c - a sandbox's settings: made, named, held and freed. */
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>

#include "seal.h"

#define DIGITS 13			/* of 5 bits */

struct sandbox *
sandbox_new(void)
{
	struct sandbox *s = calloc(1, sizeof(*s));

	if (s != NULL) {
		s->refs = 1;
	}
	return s;
}

struct sandbox *
sandbox_hold(struct sandbox *s)
{
	if (s != NULL) {
		s->refs++;
	}
	return s;
}

void
sandbox_release(struct sandbox *s)
{
	if (s == NULL || --s->refs > 0) {
		return;
	}
	free(s->key);
	free(s->transport);
	free(s->image);
	free(s->build);
	free(s->policy);
	free(s->base);
	free(s->workdir);
	free(s->user);
	free(s->agent);
	free(s->agent_name);
	free(s->agent_user);
	free(s->name);
	free(s->container);
	free(s->directory);
	items_free(&s->create_args);
	items_free(&s->exec_args);
	items_free(&s->command);
	items_free(&s->env);
	items_free(&s->hide);
	items_free(&s->select);
	free(s);
}

char *
sandbox_make_name(void)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	const size_t prefix = strlen(SANDBOX_PREFIX);
	uint8_t random[DIGITS];
	char *name = malloc(prefix + DIGITS + 1);
	size_t i;

	if (name == NULL) {
		return NULL;
	}
	memcpy(name, SANDBOX_PREFIX, prefix);
	seal_random(random, sizeof(random));
	for (i = 0; i < DIGITS; i++) {
		name[prefix + i] = digits[random[i] & 31];
	}
	name[prefix + DIGITS] = '\0';
	return name;
}

int
sandbox_set(char **to, const char *text)
{
	char *copy = text == NULL ? NULL : strdup(text);

	if (text != NULL && copy == NULL) {
		return -1;
	}
	free(*to);
	*to = copy;
	return 0;
}

const char *
sandbox_words(enum sandbox_state state)
{
	static const char *const words[] = { "creating", "ready", "removing" };

	return words[state];
}
