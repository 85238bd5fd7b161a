/* SPDX-License-Identifier: MIT */
/* env.c - the variables of a client's HELLO. */
#include "env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "items.h"
#include "transport.h"

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* One K=V as a C string; NULL: it is none. */
static char *
entry(struct wire_bytes item)
{
	const uint8_t *equals = memchr(item.at, '=', item.len);
	char *text;

	if (equals == NULL || equals == item.at ||
	    memchr(item.at, '\0', item.len) != NULL) {
		errno = EINVAL;
		return NULL;
	}
	text = malloc((size_t)item.len + 1);
	if (text != NULL) {
		memcpy(text, item.at, item.len);
		text[item.len] = '\0';
	}
	return text;
}

static void
select_child(struct env *env)
{
	size_t i, n = 0;

	for (i = 0; env->all[i] != NULL; i++) {
		if (transport_identity_env(env->all[i]) ||
		    strncmp(env->all[i], "PATH=", 5) == 0) {
			env->child[n++] = env->all[i];
		}
	}
	env->child[n] = NULL;
}

struct env *
env_new(struct wire_list list, struct error *error)
{
	struct env *env = calloc(1, sizeof(*env));
	struct wire_bytes item;
	size_t n = 0;

	if (env == NULL) {
		goto fail;
	}
	env->refs = 1;
	env->all = calloc((size_t)list.count + 1, sizeof(*env->all));
	env->child = calloc((size_t)list.count + 1, sizeof(*env->child));
	if (env->all == NULL || env->child == NULL) {
		goto fail;
	}
	while (wire_next(&list, &item)) {
		env->all[n] = entry(item);
		if (env->all[n] == NULL) {
			goto fail;
		}
		n++;
	}
	qsort(env->all, n, sizeof(*env->all), compare);
	select_child(env);
	return env;
fail:
	error_set(error, WIRE_STEP_PROTOCOL, errno, "hello.env");
	env_release(env);
	return NULL;
}

static bool
is_one_of(const char *have, const char *const *names)
{
	size_t len;

	for (; *names != NULL; names++) {
		len = strlen(*names);
		if (strncmp(have, *names, len) == 0 && have[len] == '=') {
			return true;
		}
	}
	return false;
}

int
env_replace(struct env **env, const char *const *names,
    struct wire_list list, struct error *error)
{
	struct items all = { 0 };
	struct wire_bytes item;
	struct env *made;
	char **at;

	for (at = (*env)->all; *at != NULL; at++) {
		if (!is_one_of(*at, names)) {
			items_text(&all, *at);
		}
	}
	while (wire_next(&list, &item)) {
		items_add(&all, item.at, item.len);
	}
	made = all.failed ? NULL : env_new(items_list(&all), error);
	if (all.failed) {
		error_set(error, WIRE_STEP_START, ENOMEM, "the environment");
	}
	items_free(&all);
	if (made == NULL) {
		return -1;
	}
	env_release(*env);
	*env = made;
	return 0;
}

struct env *
env_hold(struct env *env)
{
	env->refs++;
	return env;
}

void
env_release(struct env *env)
{
	size_t i;

	if (env == NULL || --env->refs > 0) {
		return;
	}
	for (i = 0; env->all != NULL && env->all[i] != NULL; i++) {
		free(env->all[i]);
	}
	free(env->all);
	free(env->child);
	free(env);
}
