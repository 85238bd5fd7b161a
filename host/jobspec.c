/* SPDX-License-Identifier: MIT */
/* jobspec.c - options and operands of exec and shell as one EXEC. */
#include "jobspec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "target.h"
#include "tty.h"

#define JOBSPEC_NICE_MAX 40
#define JOBSPEC_TERM "xterm"		/* as docker has it */

void
jobspec_init(struct jobspec *spec)
{
	*spec = (struct jobspec){ .msg = { .grace_ms = JOBSPEC_GRACE_MS } };
}

void
jobspec_free(struct jobspec *spec)
{
	envlist_free(&spec->env);
	envlist_free(&spec->files);
	items_free(&spec->argv);
	items_free(&spec->limit_items);
}

static int
wrong(struct error *error, const char *what)
{
	error_set(error, WIRE_STEP_USAGE, 0, "%s", what);
	return -1;
}

int
jobspec_user(const char *text, struct wire_bytes *user, struct error *error)
{
	if (text[0] == '\0' || strlen(text) > WIRE_USER_MAX) {
		return wrong(error, "-u: the user is empty or too long; "
		    "write NAME or UID, maybe with :GROUP or :GID");
	}
	*user = wire_string(text);
	return 0;
}

static int
workdir(struct jobspec *spec, const char *value, struct error *error)
{
	if (value[0] == '\0' || strlen(value) > WIRE_PATH_MAX) {
		return wrong(error, "-w: the directory is empty or too long");
	}
	spec->msg.cwd = wire_string(value);
	return 0;
}

static int
grace(struct jobspec *spec, const char *value, struct error *error)
{
	uint64_t ms;

	if (options_duration(value, "--grace", &ms, error) < 0) {
		return -1;
	}
	if (ms > UINT32_MAX) {
		return wrong(error, "--grace: at most 49 days");
	}
	spec->msg.grace_ms = (uint32_t)ms;
	return 0;
}

static int
nice_value(struct jobspec *spec, const char *value, struct error *error)
{
	bool minus = value[0] == '-';
	uint64_t n;

	if (options_number(value + minus, "--nice", JOBSPEC_NICE_MAX, &n,
	    error) < 0) {
		return wrong(error, "--nice takes a number from -40 to 40, "
		    "which is added to the target's");
	}
	spec->msg.nice = minus ? -(int32_t)n : (int32_t)n;
	return 0;
}

static int
umask_value(struct jobspec *spec, const char *value, struct error *error)
{
	if (value[0] == '\0' || strlen(value) > 4 ||
	    strspn(value, "01234567") != strlen(value) ||
	    strtoul(value, NULL, 8) > 0777) {
		return wrong(error, "--umask takes an octal number up to "
		    "0777");
	}
	spec->msg.umask = (uint32_t)strtoul(value, NULL, 8);
	spec->msg.flags |= WIRE_EXEC_UMASK;
	return 0;
}

static int
log_size(struct jobspec *spec, const char *value, struct error *error)
{
	uint64_t bytes;

	if (options_size(value, "--log-size", UINT32_MAX, &bytes,
	    error) < 0) {
		return -1;
	}
	if (bytes == 0 || bytes > WIRE_KEEP_MAX) {
		return wrong(error, "--log-size: from 1 byte to 16M");
	}
	spec->msg.keep = (uint32_t)bytes;
	return 0;
}

int
jobspec_option(struct jobspec *spec, int id, const char *value,
    struct error *error)
{
	switch (id) {
	case 'u':
		return jobspec_user(value, &spec->msg.user, error);
	case 'w':
		return workdir(spec, value, error);
	case 'e':
		return envlist_add(&spec->env, value, error);
	case JOBSPEC_ENV_FILE:
		return envlist_file(&spec->files, value, error);
	case JOBSPEC_UNSET:
		return envlist_remove(&spec->env, value, error);
	case JOBSPEC_CLEAR_ENV:
		spec->msg.flags |= WIRE_EXEC_CLEAR_ENV;
		return 0;
	case JOBSPEC_TIMEOUT:
		return options_duration(value, "--timeout",
		    &spec->msg.timeout_ms, error);
	case JOBSPEC_GRACE:
		return grace(spec, value, error);
	case JOBSPEC_KILL_BACKGROUND:
		spec->msg.flags |= WIRE_EXEC_KILL_BACKGROUND;
		return 0;
	case JOBSPEC_LIMIT:
		return limits_add(&spec->limits, value, error);
	case JOBSPEC_NICE:
		return nice_value(spec, value, error);
	case JOBSPEC_UMASK:
		return umask_value(spec, value, error);
	case JOBSPEC_LOG_SIZE:
		return log_size(spec, value, error);
	case JOBSPEC_SAME_AGENT:
		spec->flags |= CLIENT_SAME_AGENT;
		return 0;
	default:
		return 1;
	}
}

int
jobspec_target(struct jobspec *spec, struct options *options,
    const char *what, struct error *error)
{
	struct target target;

	if (options->at >= options->argc) {
		error_set(error, WIRE_STEP_USAGE, 0, "TARGET is missing; see "
		    "sandmux %s --help", what);
		return -1;
	}
	spec->target = options->argv[options->at++];
	return target_parse(spec->target, &target, error);
}

void
jobspec_word(struct jobspec *spec, const char *word)
{
	items_text(&spec->argv, word);
}

/* What the user's own terminal is: programs draw for it. */
static void
terminal(struct jobspec *spec)
{
	const char *term = getenv("TERM");
	unsigned rows, columns;
	char text[128];

	tty_size(&rows, &columns);
	spec->msg.rows = (uint16_t)rows;
	spec->msg.columns = (uint16_t)columns;
	if (envlist_names(&spec->env, "TERM") ||
	    envlist_names(&spec->files, "TERM")) {
		return;
	}
	snprintf(text, sizeof(text), "TERM=%s", term == NULL ||
	    term[0] == '\0' || strlen(term) > 64 ? JOBSPEC_TERM : term);
	items_text(&spec->files.set, text);
}

/* Those of files come first, so that -e goes over them. */
int
jobspec_complete(struct jobspec *spec, struct error *error)
{
	struct items *env = &spec->files.set;
	struct wire_list list = items_list(&spec->env.set);
	struct wire_bytes item;
	size_t bytes;

	if ((spec->msg.flags & WIRE_EXEC_TTY) != 0) {
		terminal(spec);
	}
	while (wire_next(&list, &item)) {
		items_add(env, item.at, item.len);
	}
	limits_items(&spec->limits, &spec->limit_items);
	spec->msg.argv = items_list(&spec->argv);
	spec->msg.env = items_list(env);
	spec->msg.unset = items_list(&spec->env.unset);
	spec->msg.limits = items_list(&spec->limit_items);
	bytes = spec->argv.bytes + env->bytes + spec->env.unset.bytes;
	if (spec->argv.failed || env->failed || spec->env.unset.failed ||
	    spec->limit_items.failed || bytes > WIRE_ARGS_MAX) {
		error_set(error, WIRE_STEP_USAGE, 0, "arguments and "
		    "environment are longer than %u bytes in all; pass more "
		    "on stdin (-i) or in a file (cp)", WIRE_ARGS_MAX);
		return -1;
	}
	if (spec->argv.count > WIRE_ITEMS_MAX ||
	    env->count > WIRE_ITEMS_MAX) {
		error_set(error, WIRE_STEP_USAGE, 0, "more than %u "
		    "arguments or variables", WIRE_ITEMS_MAX);
		return -1;
	}
	return 0;
}
