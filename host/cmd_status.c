/* SPDX-License-Identifier: MIT */
/* cmd_status.c - `sandmux status`: the controller and its links. */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

#include "options.h"
#include "run.h"
#include "text.h"

static const char usage[] =
"usage: sandmux status [--json]\n"
"      --json    for programs\n";

enum { JSON = 256 };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_FLAG },
	OPTIONS_LAST
};

static int
none(bool json)
{
	puts(json ? "{\"running\": false}" : "no controller is running");
	return fflush(stdout) == 0 ? CMD_OK : CMD_FAILED;
}

static int
show(const struct text *text, bool json, struct error *error)
{
	int rc;

	if (!json) {
		rc = text_print(text->data, text->len);
	} else if (text_json(text->data, text->len, NULL, NULL) < 0) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "the controller's "
		    "answer is no JSON");
		return -1;
	} else {
		rc = fwrite(text->data, 1, text->len, stdout) == text->len &&
		    (text->data[text->len - 1] == '\n' || putchar('\n') !=
		    EOF) && fflush(stdout) == 0 ? 0 : -1;
	}
	if (rc < 0) {
		error_set(error, WIRE_STEP_WRITE, 0, "stdout");
	}
	return rc;
}

static int
query(bool json, struct error *error)
{
	struct text text = { 0 };
	struct run run = {
		.out = { .fd = { .fd = -1 }, .move = text_append,
		    .ctx = &text, .name = "the controller's answer" },
		.err = { .fd = { .fd = -1 } }
	};
	struct client_config config = { .target = "",
	    .flags = CLIENT_ANY_PROGRAM, .events = &run_events, .ctx = &run };
	struct wire msg = { .type = WIRE_STATUS, .u.status = { json } };
	struct run_end end;
	int rc;

	run.client = client_open(&config, error);
	if (run.client == NULL) {
		return -1;
	}
	if (client_peer(run.client)->version == 0) {
		error_set(error, WIRE_STEP_START, 0, "the controller (pid "
		    "%u) is version %s and speaks no common protocol",
		    (unsigned)client_peer(run.client)->pid,
		    client_peer(run.client)->program);
		client_close(run.client);
		return -1;
	}
	run_request(&run, &msg, &end);
	rc = run_complaint(&end, error) ? -1 : show(&text, json, error);
	/* NONE would mean that there is no controller. */
	if (rc < 0 && error->step == WIRE_STEP_NONE) {
		error->step = WIRE_STEP_LINK;
	}
	run_end_free(&end);
	text_free(&text);
	client_close(run.client);
	return rc;
}

int
cmd_status(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct error error;
	bool json = false;
	int id;

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
		return cmd_fail("status", &error, CMD_USAGE);
	}
	if (query(json, &error) == 0) {
		return CMD_OK;
	}
	return error.step == WIRE_STEP_NONE ? none(json) :
	    cmd_fail("status", &error, CMD_FAILED);
}
