/* SPDX-License-Identifier: MIT */
/* envlist.c - -e, --env-file and --unset as one list. */
#include "envlist.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quote.h"

void
envlist_free(struct envlist *env)
{
	items_free(&env->set);
	items_free(&env->unset);
}

/* Why name[len] is no variable's name; NULL if it is one. */
static const char *
bad_name(const char *name, size_t len)
{
	size_t i;

	if (len == 0) {
		return "the name of a variable is empty";
	}
	for (i = 0; i < len; i++) {
		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f) {
			return "the name of a variable has white space or "
			    "control characters";
		}
	}
	return NULL;
}

static int
refuse(struct error *error, const char *where, const char *text,
    const char *why)
{
	char shown[96];

	quote_text(shown, sizeof(shown), text);
	error_set(error, WIRE_STEP_USAGE, 0, "%s \"%s\": %s", where, shown,
	    why);
	return -1;
}

/* K=V or K; missing: K is not set here (then it is only reported). */
static int
add(struct envlist *env, const char *text, const char *where, bool *missing,
    struct error *error)
{
	const char *equals = strchr(text, '='), *value, *why;
	size_t len = equals == NULL ? strlen(text) : (size_t)(equals - text);
	char *made;

	*missing = false;
	why = bad_name(text, len);
	if (why != NULL) {
		return refuse(error, where, text, why);
	}
	if (equals != NULL) {
		items_text(&env->set, text);
		return 0;
	}
	value = getenv(text);
	if (value == NULL) {
		*missing = true;
		return 0;
	}
	made = malloc(len + strlen(value) + 2);
	if (made == NULL) {
		error_set(error, WIRE_STEP_USAGE, ENOMEM, "%s", where);
		return -1;
	}
	sprintf(made, "%s=%s", text, value);
	items_text(&env->set, made);
	free(made);
	return 0;
}

int
envlist_add(struct envlist *env, const char *text, struct error *error)
{
	bool missing;

	if (add(env, text, "-e", &missing, error) < 0) {
		return -1;
	}
	if (missing) {
		items_text(&env->unset, text);
	}
	return 0;
}

int
envlist_remove(struct envlist *env, const char *name, struct error *error)
{
	const char *why = bad_name(name, strlen(name));

	if (why == NULL && strchr(name, '=') != NULL) {
		why = "it takes a name alone";
	}
	if (why != NULL) {
		return refuse(error, "--unset", name, why);
	}
	items_text(&env->unset, name);
	return 0;
}

/* The whole file, NUL-terminated; NULL with errno (EFBIG: too long). */
static char *
slurp(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), saved;
	char *data = malloc(ENVLIST_FILE_MAX + 1);
	ssize_t n = 1;

	*len = 0;
	if (fd < 0 || data == NULL) {
		goto fail;
	}
	while (n > 0) {
		n = read(fd, data + *len, ENVLIST_FILE_MAX - *len);
		if (n < 0) {
			goto fail;
		}
		*len += (size_t)n;
	}
	if (*len == ENVLIST_FILE_MAX) {
		errno = EFBIG;
		goto fail;
	}
	close(fd);
	data[*len] = '\0';
	return data;
fail:
	saved = errno;
	free(data);
	if (fd >= 0) {
		close(fd);
	}
	errno = saved;
	return NULL;
}

static int
one_line(struct envlist *env, char *line, size_t len, const char *where,
    struct error *error)
{
	bool missing;

	if (memchr(line, '\0', len) != NULL) {
		error_set(error, WIRE_STEP_USAGE, 0, "%s has a NUL byte, "
		    "which no variable can have", where);
		return -1;
	}
	if (len > 0 && line[len - 1] == '\r') {
		line[len - 1] = '\0';
	}
	while (*line == ' ' || *line == '\t') {
		line++;
	}
	if (*line == '\0' || *line == '#') {
		return 0;
	}
	return add(env, line, where, &missing, error);
}

int
envlist_file(struct envlist *env, const char *path, struct error *error)
{
	char shown[256], where[320];
	size_t len, number = 1;
	char *data = slurp(path, &len), *at, *end;
	int rc = 0;

	quote_text(shown, sizeof(shown), path);
	if (data == NULL) {
		error_set(error, WIRE_STEP_USAGE, errno, "--env-file %s",
		    shown);
		return -1;
	}
	at = len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? data + 3 :
	    data;
	for (; at < data + len && rc == 0; at = end + 1, number++) {
		end = memchr(at, '\n', (size_t)(data + len - at));
		end = end == NULL ? data + len : end;
		*end = '\0';
		snprintf(where, sizeof(where), "%s line %zu", shown, number);
		rc = one_line(env, at, (size_t)(end - at), where, error);
	}
	free(data);
	return rc;
}

static bool
has(const struct items *items, const char *name)
{
	struct wire_list list = items_list(items);
	struct wire_bytes item;
	size_t len = strlen(name);

	while (wire_next(&list, &item)) {
		if (item.len >= len && memcmp(item.at, name, len) == 0 &&
		    (item.len == len || item.at[len] == '=')) {
			return true;
		}
	}
	return false;
}

bool
envlist_names(const struct envlist *env, const char *name)
{
	return has(&env->set, name) || has(&env->unset, name);
}
