/* SPDX-License-Identifier: MIT */
/* cmd_exec.c - `sandmux exec`: run one command in a target. */
#include "cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "envlist.h"
#include "interrupt.h"
#include "items.h"
#include "options.h"
#include "report.h"
#include "run.h"
#include "target.h"

#define EXEC_GRACE_MS 2000u		/* TERM to KILL */

static const char usage[] =
"usage: sandmux exec [OPTION]... TARGET [--] COMMAND [ARG]...\n"
"  -i, --interactive       pass stdin on (else it is /dev/null)\n"
"  -w, --workdir DIR       run in DIR (else where the target says)\n"
"  -e, --env K=V | K       set a variable, or pass it on\n"
"      --env-file FILE     set those of a file, one K=V or K a line\n"
"      --unset K           leave a variable of the target out\n"
"      --clear-env         begin with an empty environment\n"
"      --timeout TIME      end it after 30, 1.5s, 2m, 1h: status 124\n"
"      --require-same-agent  refuse a target whose agent is new and unproven\n"
"      --json FILE         write how it ended to FILE\n"
"Exit status: the command's; 128+N if signal N ended it; 124 timed out;\n"
"127 not found; 126 it could not start; 125 anything else that failed.\n";

enum {
	ENV_FILE = 256, UNSET, CLEAR_ENV, TIMEOUT, SAME_AGENT, JSON,
	PRIVILEGED, DETACH_KEYS
};

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'i', "interactive", OPTIONS_FLAG },
	{ 'w', "workdir", OPTIONS_VALUE },
	{ 'e', "env", OPTIONS_VALUE },
	{ ENV_FILE, "env-file", OPTIONS_VALUE },
	{ UNSET, "unset", OPTIONS_VALUE },
	{ CLEAR_ENV, "clear-env", OPTIONS_FLAG },
	{ TIMEOUT, "timeout", OPTIONS_VALUE },
	{ SAME_AGENT, "require-same-agent", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_VALUE },
	{ 'u', "user", OPTIONS_LATER },
	{ 't', "tty", OPTIONS_LATER },
	{ 'd', "detach", OPTIONS_LATER },
	{ PRIVILEGED, "privileged", OPTIONS_LATER },
	{ DETACH_KEYS, "detach-keys", OPTIONS_LATER },
	OPTIONS_LAST
};

struct exec {
	struct wire_exec msg;
	struct envlist env, files;
	struct items argv;
	const char *target, *json;
	unsigned flags;			/* enum client_flags */
	bool help;
};

static int
take_option(struct exec *e, int id, const char *value, struct error *error)
{
	switch (id) {
	case 'h':
		e->help = true;
		return 0;
	case 'i':
		e->msg.flags |= WIRE_EXEC_STDIN;
		return 0;
	case 'w':
		if (value[0] == '\0' || strlen(value) > WIRE_PATH_MAX) {
			error_set(error, WIRE_STEP_USAGE, 0, "-w: the "
			    "directory is empty or too long");
			return -1;
		}
		e->msg.cwd = wire_string(value);
		return 0;
	case 'e':
		return envlist_add(&e->env, value, error);
	case ENV_FILE:
		return envlist_file(&e->files, value, error);
	case UNSET:
		return envlist_remove(&e->env, value, error);
	case CLEAR_ENV:
		e->msg.flags |= WIRE_EXEC_CLEAR_ENV;
		return 0;
	case TIMEOUT:
		return options_duration(value, "--timeout",
		    &e->msg.timeout_ms, error);
	case SAME_AGENT:
		e->flags |= CLIENT_SAME_AGENT;
		return 0;
	default:
		e->json = value;
		return report_check(value, error);
	}
}

static int
take_operands(struct exec *e, struct options *options, struct error *error)
{
	struct target target;

	if (options->at >= options->argc) {
		error_set(error, WIRE_STEP_USAGE, 0, "TARGET is missing; see "
		    "sandmux exec --help");
		return -1;
	}
	e->target = options->argv[options->at++];
	if (target_parse(e->target, &target, error) < 0) {
		return -1;
	}
	options_skip_dashes(options);
	if (options->at >= options->argc) {
		error_set(error, WIRE_STEP_USAGE, 0, "COMMAND is missing; "
		    "see sandmux exec --help");
		return -1;
	}
	for (; options->at < options->argc; options->at++) {
		items_text(&e->argv, options->argv[options->at]);
	}
	return 0;
}

/* Put the lists together: those of files first, so that -e goes over them. */
static int
complete(struct exec *e, struct error *error)
{
	struct wire_list list = items_list(&e->env.set);
	struct wire_bytes item;
	size_t bytes;

	while (wire_next(&list, &item)) {
		items_add(&e->files.set, item.at, item.len);
	}
	e->msg.argv = items_list(&e->argv);
	e->msg.env = items_list(&e->files.set);
	e->msg.unset = items_list(&e->env.unset);
	bytes = e->argv.bytes + e->files.set.bytes + e->env.unset.bytes;
	if (e->argv.failed || e->files.set.failed || e->env.unset.failed ||
	    bytes > WIRE_ARGS_MAX) {
		error_set(error, WIRE_STEP_USAGE, 0, "arguments and "
		    "environment are longer than %u bytes in all; pass more "
		    "on stdin (-i) or in a file (cp)", WIRE_ARGS_MAX);
		return -1;
	}
	if (e->argv.count > WIRE_ITEMS_MAX ||
	    e->files.set.count > WIRE_ITEMS_MAX) {
		error_set(error, WIRE_STEP_USAGE, 0, "more than %u "
		    "arguments or variables", WIRE_ITEMS_MAX);
		return -1;
	}
	return 0;
}

static int
parse(struct exec *e, int argc, char **argv, struct error *error)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	int id;

	while ((id = options_next(&options, error)) > 0) {
		if (take_option(e, id, options.value, error) < 0) {
			return -1;
		}
	}
	if (id < 0 || e->help) {
		return id;
	}
	if (take_operands(e, &options, error) < 0) {
		return -1;
	}
	return complete(e, error);
}

static void
carry(struct exec *e, struct run_end *end)
{
	struct run run = {
		.in = { .name = "stdin" }, .out = { .name = "stdout" },
		.err = { .name = "stderr" },
		.has_in = (e->msg.flags & WIRE_EXEC_STDIN) != 0,
		.catch = true
	};
	struct client_config config = {
		.target = e->target, .flags = e->flags | CLIENT_START,
		.events = &run_events, .ctx = &run
	};
	struct wire msg = { .type = WIRE_EXEC, .u.exec = e->msg };

	*end = (struct run_end){ 0 };
	run.client = client_open(&config, &end->error);
	if (run.client == NULL) {
		return;
	}
	if (interrupt_init() < 0) {
		error_set(&end->error, WIRE_STEP_START, errno, "signals");
		client_close(run.client);
		return;
	}
	stdfd_open(&run.in.fd, STDIN_FILENO, false);
	stdfd_open(&run.out.fd, STDOUT_FILENO, true);
	stdfd_open(&run.err.fd, STDERR_FILENO, true);
	msg.u.exec.grace_ms = EXEC_GRACE_MS;
	run_request(&run, &msg, end);
	stdfd_close(&run.in.fd);
	stdfd_close(&run.out.fd);
	stdfd_close(&run.err.fd);
	client_close(run.client);
}

int
cmd_exec(int argc, char **argv)
{
	struct exec e = { 0 };
	struct run_end end = { 0 };
	struct error error;
	int status;

	if (parse(&e, argc, argv, &error) < 0) {
		return cmd_fail("exec", &error, RUN_UNREACHED);
	}
	if (e.help) {
		return cmd_help(usage);
	}
	carry(&e, &end);
	status = run_exit_status(&end);
	if (run_complaint(&end, &error)) {
		cmd_fail("exec", &error, status);
	}
	if (e.json != NULL && report_write(e.json, &end, status,
	    &error) < 0) {
		status = cmd_fail("exec", &error, RUN_UNREACHED);
	}
	run_end_free(&end);
	envlist_free(&e.env);
	envlist_free(&e.files);
	items_free(&e.argv);
	return status;
}
