/* SPDX-License-Identifier: MIT */
/* cmd_exec.c - `sandmux exec`: run one command in a target. */
#include "cmd.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attend.h"
#include "jobspec.h"
#include "report.h"

static const char usage[] =
"usage: sandmux exec [OPTION]... TARGET [--] COMMAND [ARG]...\n"
"  -i, --interactive       pass stdin on (else it is /dev/null)\n"
"  -t, --tty               give it a terminal\n"
"  -d, --detach            print its job number and leave it running\n"
"  -u, --user NAME|UID[:GROUP|GID]  run as this user of the target\n"
"  -w, --workdir DIR       run in DIR (else where the target says)\n"
"  -e, --env K=V | K       set a variable, or pass it on\n"
"      --env-file FILE     set those of a file, one K=V or K a line\n"
"      --unset K           leave a variable of the target out\n"
"      --clear-env         begin with an empty environment\n"
"      --timeout TIME      end it after 30, 1.5s, 2m, 1h: status 124\n"
"      --grace TIME        from SIGTERM to SIGKILL (2s)\n"
"      --kill-background   when it ends, end what it left running too\n"
"      --limit NAME=SOFT[:HARD]  a resource limit, like nofile=1024\n"
"      --nice N            add N to its niceness\n"
"      --umask OCTAL       its file mode mask\n"
"      --max-output SIZE   show at most SIZE of stdout and of stderr\n"
"      --keep WHICH        of these show the head, the tail or both (head)\n"
"      --on-limit WHAT     there continue or kill it: status 153 (continue)\n"
"      --log-size SIZE     with -d: keep so much of each stream\n"
"      --require-same-agent  refuse a target whose agent is new and unproven\n"
"      --json FILE         write how it ended to FILE\n"
"Exit status: the command's; 128+N if signal N ended it; 124 timed out;\n"
"127 not found; 126 it could not start; 125 anything else that failed.\n";

enum {
	JSON = JOBSPEC_OTHER, MAX_OUTPUT, KEEP, ON_LIMIT, PRIVILEGED,
	DETACH_KEYS
};

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'i', "interactive", OPTIONS_FLAG },
	{ 't', "tty", OPTIONS_FLAG },
	{ 'd', "detach", OPTIONS_FLAG },
	{ 'u', "user", OPTIONS_VALUE },
	{ 'w', "workdir", OPTIONS_VALUE },
	{ 'e', "env", OPTIONS_VALUE },
	{ JOBSPEC_ENV_FILE, "env-file", OPTIONS_VALUE },
	{ JOBSPEC_UNSET, "unset", OPTIONS_VALUE },
	{ JOBSPEC_CLEAR_ENV, "clear-env", OPTIONS_FLAG },
	{ JOBSPEC_TIMEOUT, "timeout", OPTIONS_VALUE },
	{ JOBSPEC_GRACE, "grace", OPTIONS_VALUE },
	{ JOBSPEC_KILL_BACKGROUND, "kill-background", OPTIONS_FLAG },
	{ JOBSPEC_LIMIT, "limit", OPTIONS_VALUE },
	{ JOBSPEC_NICE, "nice", OPTIONS_VALUE },
	{ JOBSPEC_UMASK, "umask", OPTIONS_VALUE },
	{ MAX_OUTPUT, "max-output", OPTIONS_VALUE },
	{ KEEP, "keep", OPTIONS_VALUE },
	{ ON_LIMIT, "on-limit", OPTIONS_VALUE },
	{ JOBSPEC_LOG_SIZE, "log-size", OPTIONS_VALUE },
	{ JOBSPEC_SAME_AGENT, "require-same-agent", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_VALUE },
	{ PRIVILEGED, "privileged", OPTIONS_REFUSED },
	{ DETACH_KEYS, "detach-keys", OPTIONS_REFUSED },
	OPTIONS_LAST
};

struct exec {
	struct jobspec spec;
	struct attend attend;
	bool help, keep, on_limit;	/* these options were given */
};

static int
wrong(struct error *error, const char *what)
{
	error_set(error, WIRE_STEP_USAGE, 0, "%s", what);
	return -1;
}

static int
take_keep(struct exec *e, const char *value, struct error *error)
{
	static const char *const names[] = {
		[CLIP_HEAD] = "head", [CLIP_TAIL] = "tail",
		[CLIP_BOTH] = "both"
	};
	unsigned i;

	e->keep = true;
	for (i = CLIP_HEAD; i <= CLIP_BOTH; i++) {
		if (strcmp(value, names[i]) == 0) {
			e->attend.keep = (enum clip_keep)i;
			return 0;
		}
	}
	return wrong(error, "--keep takes head, tail or both");
}

static int
take_on_limit(struct exec *e, const char *value, struct error *error)
{
	e->on_limit = true;
	e->attend.kill = strcmp(value, "kill") == 0;
	if (!e->attend.kill && strcmp(value, "continue") != 0) {
		return wrong(error, "--on-limit takes continue or kill");
	}
	return 0;
}

static int
take_option(struct exec *e, int id, const char *value, struct error *error)
{
	switch (id) {
	case 'h':
		e->help = true;
		return 0;
	case 'i':
		e->spec.msg.flags |= WIRE_EXEC_STDIN;
		return 0;
	case 't':
		e->spec.msg.flags |= WIRE_EXEC_TTY;
		return 0;
	case 'd':
		e->spec.msg.flags |= WIRE_EXEC_DETACH;
		return 0;
	case MAX_OUTPUT:
		return options_size(value, "--max-output", UINT64_MAX - 1,
		    &e->attend.limit, error);
	case KEEP:
		return take_keep(e, value, error);
	case ON_LIMIT:
		return take_on_limit(e, value, error);
	case JSON:
		e->attend.json = value;
		return report_check(value, error);
	case PRIVILEGED:
		return wrong(error, "--privileged: a command never has more "
		    "than its container; give that the capabilities when it "
		    "is made");
	case DETACH_KEYS:
		return wrong(error, "--detach-keys: the keys are fixed, "
		    "Ctrl-] three times leaves a terminal; start with -d what "
		    "is to live on");
	default:
		return jobspec_option(&e->spec, id, value, error);
	}
}

/* What does not go together. */
static int
check(const struct exec *e, struct error *error)
{
	uint32_t flags = e->spec.msg.flags;
	bool detach = (flags & WIRE_EXEC_DETACH) != 0;
	bool limit = e->attend.limit != UINT64_MAX;

	if (detach && (limit || e->keep || e->on_limit)) {
		return wrong(error, "-d shows no output; --log-size says how "
		    "much of it is kept for `sandmux logs`");
	}
	if (!detach && e->spec.msg.keep != 0) {
		return wrong(error, "--log-size is for -d; --max-output cuts "
		    "what is shown");
	}
	if (!limit && (e->keep || e->on_limit)) {
		return wrong(error, "--keep and --on-limit need --max-output");
	}
	if (limit && e->attend.keep != CLIP_HEAD &&
	    e->attend.limit > CLIP_TAIL_MAX) {
		return wrong(error, "--max-output: a tail is held in memory, "
		    "at most 1G");
	}
	if ((flags & WIRE_EXEC_TTY) != 0 && (flags & WIRE_EXEC_STDIN) != 0 &&
	    !detach && !isatty(STDIN_FILENO)) {
		return wrong(error, "the input device is not a TTY; leave -t "
		    "out to pass stdin on as it is");
	}
	return 0;
}

static int
take_operands(struct exec *e, struct options *options, struct error *error)
{
	if (jobspec_target(&e->spec, options, "exec", error) < 0) {
		return -1;
	}
	options_skip_dashes(options);
	if (options->at >= options->argc) {
		return wrong(error, "COMMAND is missing; see sandmux exec "
		    "--help");
	}
	for (; options->at < options->argc; options->at++) {
		jobspec_word(&e->spec, options->argv[options->at]);
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
	if (take_operands(e, &options, error) < 0 || check(e, error) < 0) {
		return -1;
	}
	return jobspec_complete(&e->spec, error);
}

/* -d: the number to name it by. */
static int
print_job(const struct exec *e, int status)
{
	struct wire_exec_info info;
	struct error error;

	if (status != CMD_OK) {
		return status;
	}
	if (!run_exec_info(&e->attend.end, &info)) {
		error_set(&error, WIRE_STEP_PROTOCOL, 0, "the agent did not "
		    "say which job it is");
		return cmd_fail("exec", &error, RUN_UNREACHED);
	}
	if (printf("%u\n", (unsigned)info.job) < 0 || fflush(stdout) != 0) {
		error_set(&error, WIRE_STEP_WRITE, 0, "stdout; it runs as "
		    "job %u", (unsigned)info.job);
		return cmd_fail("exec", &error, RUN_UNREACHED);
	}
	return status;
}

static int
carry(struct exec *e)
{
	struct wire msg = { .type = WIRE_EXEC, .u.exec = e->spec.msg };
	bool detach = (msg.u.exec.flags & WIRE_EXEC_DETACH) != 0;
	int status;

	e->attend.target = e->spec.target;
	e->attend.flags = e->spec.flags;
	/*
	 * A detached job's stdin and terminal are for attach, its end is for
	 * wait, even if it is over before the answer is here.
	 */
	if (detach) {
		e->attend.how |= ATTEND_LOOK;
	}
	if (!detach && (msg.u.exec.flags & WIRE_EXEC_STDIN) != 0) {
		e->attend.how |= ATTEND_STDIN;
	}
	if (!detach && (msg.u.exec.flags & WIRE_EXEC_TTY) != 0) {
		e->attend.how |= ATTEND_TERMINAL;
	}
	status = attend(&e->attend, &msg);
	return detach ? print_job(e, status) : status;
}

int
cmd_exec(int argc, char **argv)
{
	struct exec e = { .attend = { .what = "exec",
	    .limit = UINT64_MAX } };
	struct error error;
	int status;

	jobspec_init(&e.spec);
	if (parse(&e, argc, argv, &error) < 0) {
		status = cmd_fail("exec", &error, RUN_UNREACHED);
	} else if (e.help) {
		status = cmd_help(usage);
	} else {
		status = carry(&e);
	}
	attend_free(&e.attend);
	jobspec_free(&e.spec);
	return status;
}
