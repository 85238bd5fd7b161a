/* SPDX-License-Identifier: MIT */
/* cmd_up.c - `sandmux up`: the sandboxes of a file, all or none. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "crew.h"
#include "interrupt.h"
#include "lifecycle.h"
#include "options.h"
#include "run.h"
#include "words.h"

static const char usage[] =
"usage: sandmux up [OPTION]... [NAME]\n"
"  -f, --file FILE   the configuration; - is stdin.  Without it the first of\n"
"                    sandmux.yaml, sandmux.yml, openshell.yaml, openshell.yml\n"
"                    here, and without any of them all defaults\n"
"      --base DIR    what relative paths in it are relative to (its own\n"
"                    directory)\n"
"      --json        print what was made as one JSON object\n"
"      --no-build    do not build images that the file builds\n"
"      --prepare     check the file and build, but make nothing\n"
"Makes all sandboxes of the file side by side, or none of them.  NAME is for\n"
"a file with one: at most 19 of a-z, 0-9 and -.\n"
"Exit status: 0, 1 failed, 2 usage or configuration, 128+N after signal N.\n";

#define ANSWER_MS 180000u		/* for a first link and its request */

enum { BASE = 256, JSON, NO_BUILD, PREPARE };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'f', "file", OPTIONS_VALUE },
	{ BASE, "base", OPTIONS_VALUE },
	{ JSON, "json", OPTIONS_FLAG },
	{ NO_BUILD, "no-build", OPTIONS_FLAG },
	{ PREPARE, "prepare", OPTIONS_FLAG },
	OPTIONS_LAST
};

struct up {
	const char *file, *base, *name;
	bool json, no_build, prepare;
	struct config config;
	struct lifecycle life;
	int locks[CONFIG_SANDBOXES_MAX];
	struct crew_answer answers[CONFIG_SANDBOXES_MAX];
};

static struct up up;			/* the process does one thing */

/* One line about one of them. */
static void
say(const struct sandbox *s, const struct error *error)
{
	char what[128];

	snprintf(what, sizeof(what), "up: %s (%s)", s->name != NULL ?
	    s->name : s->transport, s->key);
	cmd_fail(what, error, CMD_FAILED);
}

/* ---- builds ----------------------------------------------------------- */

/* Whether an earlier one builds the same. */
static bool
built(const struct up *u, unsigned index)
{
	const struct sandbox *s = u->config.sandboxes[index], *other;
	unsigned i;

	for (i = 0; i < index; i++) {
		other = u->config.sandboxes[i];
		if (other->build != NULL &&
		    strcmp(other->build, s->build) == 0 &&
		    strcmp(other->image, s->image) == 0) {
			return true;
		}
	}
	return false;
}

static int
build_one(void *ctx, unsigned index, struct error *error)
{
	struct up *u = ctx;
	struct sandbox *s = u->config.sandboxes[index];

	return s->build == NULL || built(u, index) ? 0 :
	    lifecycle_build(&u->life, s, error);
}

static int
build(struct up *u)
{
	unsigned i, count = u->config.count;
	int number, status = CMD_OK;

	number = crew_run(count, 4, true, 0, build_one, u, u->answers);
	for (i = 0; i < count && number == 0; i++) {
		if (u->answers[i].rc < 0 &&
		    u->answers[i].error.step != WIRE_STEP_NONE) {
			say(u->config.sandboxes[i], &u->answers[i].error);
			status = CMD_FAILED;
		}
	}
	return number != 0 ? RUN_SIGNAL + number : status;
}

/* ---- what is said ----------------------------------------------------- */

static void
prepared(struct json *json, const struct sandbox *s)
{
	json_string(json, "key", s->key);
	json_string(json, "transport", s->transport);
	json_string_or_null(json, "image", s->image);
	json_string_or_null(json, "workdir", s->workdir);
	json_string_or_null(json, "user", s->user);
	json_string_or_null(json, "policy", s->policy);
}

static int
report(const struct up *u)
{
	struct json json = { 0 };
	unsigned i;
	int rc = CMD_OK;

	json_object(&json, NULL);
	json_array(&json, "sandboxes");
	for (i = 0; i < u->config.count; i++) {
		const struct sandbox *s = u->config.sandboxes[i];

		json_object(&json, NULL);
		if (u->prepare) {
			prepared(&json, s);
		} else {
			lifecycle_json(&json, s);
		}
		json_end_object(&json);
		if (!u->json && !u->prepare) {
			puts(s->name);
		}
	}
	json_end_array(&json);
	json_end_object(&json);
	if (u->json) {
		rc = json_text(&json) == NULL ||
		    puts(json_text(&json)) < 0 ? CMD_FAILED : CMD_OK;
	}
	json_free(&json);
	return fflush(stdout) != 0 ? CMD_FAILED : rc;
}

/* ---- making ----------------------------------------------------------- */

static int
make_one(void *ctx, unsigned index, struct error *error)
{
	struct up *u = ctx;

	return lifecycle_make(&u->life, u->config.sandboxes[index], error);
}

/* What any of them may take: to be made, and then to answer. */
static uint64_t
longest(const struct up *u)
{
	uint64_t ms = 0;
	unsigned i;

	for (i = 0; i < u->config.count; i++) {
		if (u->config.sandboxes[i]->create_ms > ms) {
			ms = u->config.sandboxes[i]->create_ms;
		}
	}
	return ms + ANSWER_MS;
}

static int
remove_one(void *ctx, unsigned index, struct error *error)
{
	struct up *u = ctx;
	/* A create that ended by itself has nothing under way. */
	unsigned flags = LIFECYCLE_LOCKED | (u->answers[index].rc < 0 &&
	    u->answers[index].error.step != WIRE_STEP_NONE ?
	    LIFECYCLE_SETTLED : 0);

	return lifecycle_remove(&u->life, u->config.sandboxes[index]->name,
	    flags, error);
}

/* All or none: what there is of the first count goes again. */
static void
take_back(struct up *u, unsigned count)
{
	struct crew_answer answers[CONFIG_SANDBOXES_MAX];
	unsigned i;

	crew_run(count, CREW_MAX, false, 0, remove_one, u, answers);
	/* Also a record's half that a killed worker was about to write. */
	record_sweep(&u->life.store);
	for (i = 0; i < count; i++) {
		if (answers[i].rc < 0) {
			say(u->config.sandboxes[i], &answers[i].error);
			dprintf(STDERR_FILENO, "sandmux: up: %s is left; "
			    "`sandmux cleanup` tries again\n",
			    u->config.sandboxes[i]->name);
		}
	}
}

static void
unlock(struct up *u, unsigned count)
{
	unsigned i;

	for (i = 0; i < count; i++) {
		record_unlock(&u->life.store, u->config.sandboxes[i]->name,
		    u->locks[i]);
	}
}

/* Every name has its record before anything is made. */
static int
plan(struct up *u, unsigned *planned)
{
	struct error error;
	unsigned i;

	for (i = 0; i < u->config.count; i++) {
		struct sandbox *s = u->config.sandboxes[i];

		if (lifecycle_plan(&u->life, s, u->name, &u->locks[i],
		    &error) < 0) {
			say(s, &error);
			*planned = i;
			return -1;
		}
	}
	*planned = i;
	return 0;
}

/* What a worker has made is in the records; 0, or -1. */
static int
read_back(struct up *u)
{
	struct error error;
	struct sandbox *s;
	unsigned i;

	for (i = 0; i < u->config.count; i++) {
		s = record_get(&u->life.store,
		    u->config.sandboxes[i]->name, &error);
		if (s == NULL) {
			say(u->config.sandboxes[i], &error);
			return -1;
		}
		sandbox_release(u->config.sandboxes[i]);
		u->config.sandboxes[i] = s;
	}
	return 0;
}

static int
make(struct up *u)
{
	struct error error;
	unsigned i, planned;
	int number = 0, status = CMD_OK;

	/* From the first record on a signal takes everything back. */
	if (interrupt_init() < 0) {
		error_set(&error, WIRE_STEP_START, errno, "signals");
		return cmd_fail("up", &error, CMD_FAILED);
	}
	if (plan(u, &planned) < 0) {
		status = CMD_FAILED;
	} else {
		number = crew_run(planned, CREW_MAX, true, longest(u),
		    make_one, u, u->answers);
		status = number != 0 ? RUN_SIGNAL + number : CMD_OK;
		for (i = 0; i < planned; i++) {
			if (u->answers[i].rc < 0) {
				status = number != 0 ? status : CMD_FAILED;
				if (u->answers[i].error.step !=
				    WIRE_STEP_NONE) {
					say(u->config.sandboxes[i],
					    &u->answers[i].error);
				}
			}
		}
	}
	if (status == CMD_OK && read_back(u) < 0) {
		status = CMD_FAILED;
	}
	if (status == CMD_OK && report(u) != CMD_OK) {
		/* Nobody knows their names. */
		error_set(&error, WIRE_STEP_WRITE, errno, "stdout");
		status = cmd_fail("up", &error, CMD_FAILED);
	}
	if (status != CMD_OK) {
		take_back(u, planned);
	}
	unlock(u, planned);
	return status;
}

/* ---- the command line -------------------------------------------------- */

static int
option(struct up *u, int id, const char *value)
{
	switch (id) {
	case 'f':
		u->file = value;
		return 0;
	case BASE:
		u->base = value;
		return 0;
	case JSON:
		u->json = true;
		return 0;
	case NO_BUILD:
		u->no_build = true;
		return 0;
	default:
		u->prepare = true;
		return 0;
	}
}

static int
operand(struct up *u, int argc, char **argv, struct error *error)
{
	if (argc == 0) {
		return 0;
	}
	if (argc > 1 || u->prepare) {
		error_set(error, WIRE_STEP_USAGE, 0, "it takes %s",
		    u->prepare ? "no NAME with --prepare" :
		    "one NAME at most");
		return -1;
	}
	u->name = argv[0];
	if (!target_sandbox_name(u->name, strlen(u->name))) {
		error_set(error, WIRE_STEP_USAGE, 0, "\"%.64s\" cannot be a "
		    "sandbox's name: at most %u of a-z, 0-9 and single - "
		    "between, and no scheme's name", u->name,
		    TARGET_SANDBOX_MAX);
		return -1;
	}
	return 0;
}

/* Options, operand and file: what is wrong there is usage. */
static int
understand(struct up *u, int argc, char **argv, struct error *error)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	int id;

	while ((id = options_next(&options, error)) > 0) {
		if (id == 'h') {
			return 1;
		}
		option(u, id, options.value);
	}
	if (id < 0 || operand(u, argc - options.at, argv + options.at,
	    error) < 0 || config_load(&u->config, u->file, u->base,
	    error) < 0) {
		return -1;
	}
	if (u->name != NULL && u->config.count > 1) {
		error_set(error, WIRE_STEP_USAGE, 0, "the file has %u "
		    "sandboxes; NAME is for a file with one",
		    u->config.count);
		return -1;
	}
	return 0;
}

int
cmd_up(int argc, char **argv)
{
	struct error error;
	int rc = understand(&up, argc, argv, &error), status = CMD_OK;

	if (rc > 0) {
		return cmd_help(usage);
	}
	if (rc < 0) {
		config_free(&up.config);
		return cmd_fail("up", &error, CMD_USAGE);
	}
	if (lifecycle_init(&up.life, &error) < 0) {
		status = cmd_fail("up", &error, CMD_FAILED);
	}
	if (status == CMD_OK && !up.no_build) {
		status = build(&up);
	}
	if (status == CMD_OK) {
		status = up.prepare ? report(&up) : make(&up);
	}
	config_free(&up.config);
	return status;
}
