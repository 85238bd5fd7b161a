/* SPDX-License-Identifier: MIT */
/* cmd_down.c - `sandmux down` and `sandmux cleanup`: removing sandboxes. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cp_partial.h"
#include "crew.h"
#include "interrupt.h"
#include "options.h"
#include "quote.h"
#include "run.h"
#include "survey.h"
#include "words.h"

static const char down_usage[] =
"usage: sandmux down [--json] NAME...\n"
"  --json   print what was removed and what was not as one JSON object\n"
"Ends everything that runs there and removes the sandboxes.  One that is not\n"
"there is fine.\n"
"Exit status: 0, 1 failed, 2 usage, 128+N after signal N.\n";

static const char cleanup_usage[] =
"usage: sandmux cleanup [--json]\n"
"  --json   print what was removed and what was not as one JSON object\n"
"Removes every sandbox that `sandmux up` made and that is still there, used or\n"
"not, also what a killed `up` has left; one that another process makes or\n"
"removes at this moment stays, and counts as left.  Then every partial file\n"
"that `sandmux cp --resume` has left, here and in targets.\n"
"Exit status: 0, 1 something is left, 2 usage, 128+N after signal N.\n";

#define AT_ONCE 8u

enum { JSON = 256 };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_FLAG },
	OPTIONS_LAST
};

/* What is to be removed, up to CREW_MAX in one go. */
struct removal {
	struct lifecycle life;
	const char *command;
	bool json;
	char **names;			/* of down, or NULL */
	const struct survey_entry *entries;	/* of cleanup */
	struct json removed, failed, partial;
	bool left;
};

static struct removal removal;

static int
work(void *ctx, unsigned index, struct error *error)
{
	struct removal *r = ctx;
	const struct survey_entry *e;

	if (r->names != NULL) {
		return lifecycle_remove(&r->life, r->names[index], 0, error);
	}
	e = &r->entries[index];
	return e->state == SURVEY_ORPHAN ? lifecycle_remove_orphan(&r->life,
	    e->transport, e->sandbox->name, e->sandbox->container, error) :
	    lifecycle_remove(&r->life, e->sandbox->name, 0, error);
}

static void
tell(struct removal *r, const char *name, const struct crew_answer *answer)
{
	char what[96], shown[64], line[WORDS_LINE];

	if (answer->rc < 0) {
		r->left = true;
		quote_text(shown, sizeof(shown), name);
		snprintf(what, sizeof(what), "%s: %s", r->command, shown);
		cmd_fail(what, &answer->error, CMD_FAILED);
		json_object(&r->failed, NULL);
		json_string(&r->failed, "name", name);
		json_string(&r->failed, "error", words_error(&answer->error,
		    line, sizeof(line)));
		json_end_object(&r->failed);
	} else if (answer->rc == 0) {
		json_string(&r->removed, NULL, name);
		if (!r->json) {
			puts(name);
		}
	}
}

/* All of them, at most CREW_MAX a go; 0, or the signal that ended it. */
static int
remove_all(struct removal *r, size_t count)
{
	struct crew_answer answers[CREW_MAX];
	int number = 0;
	unsigned i, n;

	json_array(&r->removed, NULL);
	json_array(&r->failed, NULL);
	json_array(&r->partial, NULL);
	for (; count > 0 && number == 0; count -= n) {
		n = count < CREW_MAX ? (unsigned)count : CREW_MAX;
		number = crew_run(n, AT_ONCE, false, 0, work, r, answers);
		for (i = 0; i < n; i++) {
			tell(r, r->names != NULL ? r->names[i] :
			    r->entries[i].sandbox->name, &answers[i]);
		}
		if (r->names != NULL) {
			r->names += n;
		} else {
			r->entries += n;
		}
	}
	return number;
}

static void
tell_partial(void *ctx, const char *where, const struct error *error)
{
	struct removal *r = ctx;
	char shown[WORDS_LINE], line[WORDS_LINE];

	if (error != NULL) {
		r->left = true;
		cmd_fail(r->command, error, CMD_FAILED);
		json_object(&r->failed, NULL);
		json_string(&r->failed, "name", where);
		json_string(&r->failed, "error", words_error(error, line,
		    sizeof(line)));
		json_end_object(&r->failed);
		return;
	}
	json_string(&r->partial, NULL, where);
	if (!r->json) {
		quote_text(shown, sizeof(shown), where);
		puts(shown);
	}
}

static int
report(struct removal *r, int number)
{
	struct json json = { 0 };

	json_end_array(&r->removed);
	json_end_array(&r->failed);
	json_end_array(&r->partial);
	if (r->json) {
		json_object(&json, NULL);
		json_raw(&json, "removed", r->removed.data, r->removed.len);
		json_raw(&json, "failed", r->failed.data, r->failed.len);
		if (r->names == NULL) {
			json_raw(&json, "partial_files", r->partial.data,
			    r->partial.len);
		}
		json_end_object(&json);
		if (json_text(&json) != NULL) {
			puts(json_text(&json));
		}
	}
	json_free(&json);
	json_free(&r->removed);
	json_free(&r->failed);
	json_free(&r->partial);
	if (fflush(stdout) != 0) {
		r->left = true;
	}
	return number != 0 ? RUN_SIGNAL + number : r->left ? CMD_FAILED :
	    CMD_OK;
}

/* Options; 0, 1: help was asked for, or -1 with *error. */
static int
understand(struct options *options, struct error *error)
{
	int id;

	while ((id = options_next(options, error)) > 0) {
		if (id == 'h') {
			return 1;
		}
		removal.json = true;
	}
	return id;
}

int
cmd_down(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct error error;
	int i, rc = understand(&options, &error);

	if (rc > 0) {
		return cmd_help(down_usage);
	}
	if (rc == 0 && options.at == argc) {
		error_set(&error, WIRE_STEP_USAGE, 0, "NAME is missing; "
		    "`sandmux ls` lists them");
		rc = -1;
	}
	for (i = options.at; rc == 0 && i < argc; i++) {
		if (!target_sandbox_name(argv[i], strlen(argv[i]))) {
			error_set(&error, WIRE_STEP_USAGE, 0, "\"%.64s\" is "
			    "no sandbox's name", argv[i]);
			rc = -1;
		}
	}
	if (rc < 0) {
		return cmd_fail("down", &error, CMD_USAGE);
	}
	if (lifecycle_init(&removal.life, &error) < 0) {
		return cmd_fail("down", &error, CMD_FAILED);
	}
	removal.command = "down";
	removal.names = argv + options.at;
	return report(&removal, remove_all(&removal,
	    (size_t)(argc - options.at)));
}

int
cmd_cleanup(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct survey survey;
	struct error error;
	int number, rc = understand(&options, &error);

	if (rc > 0) {
		return cmd_help(cleanup_usage);
	}
	if (rc == 0 && options.at < argc) {
		error_set(&error, WIRE_STEP_USAGE, 0, "it takes no operands; "
		    "`sandmux down` removes what it is told");
		rc = -1;
	}
	if (rc < 0) {
		return cmd_fail("cleanup", &error, CMD_USAGE);
	}
	removal.command = "cleanup";
	if (lifecycle_init(&removal.life, &error) < 0) {
		return cmd_fail("cleanup", &error, CMD_FAILED);
	}
	if (survey_take(&survey, &removal.life) < 0) {
		return cmd_fail("cleanup", &survey.error, CMD_FAILED);
	}
	if (survey.error.step != WIRE_STEP_NONE) {
		/* There may be more than we have seen. */
		removal.left = true;
		cmd_fail("cleanup", &survey.error, CMD_FAILED);
	}
	removal.entries = survey.entries;
	number = remove_all(&removal, survey.count);
	survey_free(&survey);
	record_sweep(&removal.life.store);
	if (number == 0) {
		number = cp_partial_clean(tell_partial, &removal, &error);
	}
	if (number < 0) {
		removal.left = true;
		cmd_fail("cleanup", &error, CMD_FAILED);
		number = 0;
	}
	return report(&removal, number);
}
