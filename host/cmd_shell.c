/* SPDX-License-Identifier: MIT */
/* cmd_shell.c - `sandmux shell`: the user's shell on a terminal. */
#include "cmd.h"

#include <unistd.h>

#include "attend.h"
#include "jobspec.h"

static const char usage[] =
"usage: sandmux shell [OPTION]... TARGET\n"
"  -u, --user NAME|UID[:GROUP|GID]  be this user of the target\n"
"  -w, --workdir DIR       begin in DIR (else where the target says)\n"
"  -e, --env K=V | K       set a variable, or pass it on\n"
"      --env-file FILE     set those of a file, one K=V or K a line\n"
"      --require-same-agent  refuse a target whose agent is new and unproven\n"
"The shell is the user's own by /etc/passwd, else /bin/bash, else /bin/sh.\n"
"Ctrl-] three times within a second leaves, and ends it.\n"
"Exit status: the shell's, and as exec's.\n";

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'u', "user", OPTIONS_VALUE },
	{ 'w', "workdir", OPTIONS_VALUE },
	{ 'e', "env", OPTIONS_VALUE },
	{ JOBSPEC_ENV_FILE, "env-file", OPTIONS_VALUE },
	{ JOBSPEC_SAME_AGENT, "require-same-agent", OPTIONS_FLAG },
	OPTIONS_LAST
};

static int
parse(struct jobspec *spec, int argc, char **argv, bool *help,
    struct error *error)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	int id;

	while ((id = options_next(&options, error)) > 0) {
		*help = *help || id == 'h';
		if (jobspec_option(spec, id, options.value, error) < 0) {
			return -1;
		}
	}
	if (id < 0 || *help) {
		return id;
	}
	if (jobspec_target(spec, &options, "shell", error) < 0) {
		return -1;
	}
	if (options.at < argc) {
		error_set(error, WIRE_STEP_USAGE, 0, "it takes no command; "
		    "`sandmux exec -it TARGET COMMAND` runs one on a "
		    "terminal");
		return -1;
	}
	if (!isatty(STDIN_FILENO)) {
		error_set(error, WIRE_STEP_USAGE, 0, "stdin is not a "
		    "terminal; `sandmux exec -i TARGET sh` reads commands "
		    "from it");
		return -1;
	}
	spec->msg.flags |= WIRE_EXEC_TTY | WIRE_EXEC_STDIN;
	spec->msg.flags |= WIRE_EXEC_SHELL;	/* the agent finds it */
	return jobspec_complete(spec, error);
}

int
cmd_shell(int argc, char **argv)
{
	struct attend a = { .what = "shell", .limit = UINT64_MAX,
	    .how = ATTEND_STDIN | ATTEND_TERMINAL };
	struct jobspec spec;
	struct wire msg = { .type = WIRE_EXEC };
	struct error error;
	bool help = false;
	int status;

	jobspec_init(&spec);
	if (parse(&spec, argc, argv, &help, &error) < 0) {
		status = cmd_fail("shell", &error, RUN_UNREACHED);
	} else if (help) {
		status = cmd_help(usage);
	} else {
		msg.u.exec = spec.msg;
		a.target = spec.target;
		a.flags = spec.flags;
		status = attend(&a, &msg);
	}
	attend_free(&a);
	jobspec_free(&spec);
	return status;
}
