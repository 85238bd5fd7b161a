/* SPDX-License-Identifier: MIT */
/* cmd_ls.c - `sandmux ls`: the sandboxes that up made, and how they are. */
#include "cmd.h"

#include <stdio.h>
#include <time.h>

#include "options.h"
#include "quote.h"
#include "survey.h"

static const char usage[] =
"usage: sandmux ls [--json]\n"
"  --json   one JSON object\n"
"States: creating (an `up` is at work, or was killed), ready, stopped, gone\n"
"(a record is all there is), removing, orphan (no record, but our label),\n"
"unknown (its transport does not answer).\n"
"Exit status: 0, 1 failed, 2 usage.\n";

enum { JSON = 256 };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_FLAG },
	OPTIONS_LAST
};

static void
show(const struct survey_entry *e)
{
	const struct sandbox *s = e->sandbox;
	char name[128], key[128], age[32] = "?";
	time_t now = time(NULL), made = (time_t)s->created;

	quote_text(name, sizeof(name), s->name);
	quote_text(key, sizeof(key), s->key);
	if (made > 0 && now >= made) {
		long seconds = (long)(now - made);

		snprintf(age, sizeof(age), seconds < 600 ? "%lds" : seconds <
		    36000 ? "%ldm" : "%ldh", seconds < 600 ? seconds :
		    seconds < 36000 ? seconds / 60 : seconds / 3600);
	}
	printf("%-19s  %-9s  %-9s  %6s  %s\n", name, s->transport,
	    survey_words(e->state), age, key);
}

static int
print_json(const struct survey *survey)
{
	struct json json = { 0 };
	size_t i;
	int rc;

	json_object(&json, NULL);
	json_array(&json, "sandboxes");
	for (i = 0; i < survey->count; i++) {
		const struct survey_entry *e = &survey->entries[i];

		json_object(&json, NULL);
		lifecycle_json(&json, e->sandbox);
		json_string(&json, "state", survey_words(e->state));
		json_u64(&json, "created", e->sandbox->created);
		json_end_object(&json);
	}
	json_end_array(&json);
	json_end_object(&json);
	rc = json_text(&json) == NULL || puts(json_text(&json)) < 0 ?
	    CMD_FAILED : CMD_OK;
	json_free(&json);
	return rc;
}

int
cmd_ls(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct lifecycle life;
	struct survey survey;
	struct error error;
	bool json = false;
	int id, status = CMD_OK;
	size_t i;

	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		json = true;
	}
	if (id == 0 && options.at < argc) {
		error_set(&error, WIRE_STEP_USAGE, 0, "it takes no operands");
		id = -1;
	}
	if (id < 0) {
		return cmd_fail("ls", &error, CMD_USAGE);
	}
	if (lifecycle_init(&life, &error) < 0) {
		return cmd_fail("ls", &error, CMD_FAILED);
	}
	if (survey_take(&survey, &life) < 0) {
		status = cmd_fail("ls", &survey.error, CMD_FAILED);
	} else {
		if (survey.error.step != WIRE_STEP_NONE) {
			cmd_fail("ls", &survey.error, CMD_OK);
		}
		if (json) {
			status = print_json(&survey);
		}
		for (i = 0; !json && i < survey.count; i++) {
			show(&survey.entries[i]);
		}
		status = fflush(stdout) != 0 ? CMD_FAILED : status;
	}
	survey_free(&survey);
	return status;
}
