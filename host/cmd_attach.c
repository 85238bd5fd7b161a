/* SPDX-License-Identifier: MIT */
/* cmd_attach.c - `sandmux attach`: a running job's stdin and output. */
#include "cmd.h"

#include <unistd.h>

#include "attend.h"
#include "jobs.h"
#include "options.h"

static const char usage[] =
"usage: sandmux attach [--no-stdin] TARGET JOB\n"
"      --no-stdin    only watch\n"
"Its output comes from the first byte kept.  Ctrl-C leaves the job running;\n"
"where the job has a terminal, Ctrl-] three times within a second does.\n"
"Exit status: the job's, as exec's; 1 no such job; 125 anything else.\n";

enum { NO_STDIN = 256 };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ NO_STDIN, "no-stdin", OPTIONS_FLAG },
	OPTIONS_LAST
};

/* Whether the job has a terminal; a job that is not there has none. */
static int
look(const struct jobs_operands *operands, bool *terminal,
    struct error *error)
{
	struct wire msg = { .type = WIRE_JOBS };
	struct text text = { 0 };
	struct wire_job job;
	const char *at;
	size_t len;
	int rc = jobs_ask(operands->target, &msg, &text, error);

	at = text.data;
	len = text.len;
	while (rc == 0 && (rc = jobs_next(&at, &len, &job, error)) > 0) {
		rc = 0;
		if (job.job == operands->job) {
			*terminal = job.terminal != 0;
		}
	}
	text_free(&text);
	return rc;
}

int
cmd_attach(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct attend a = { .what = "attach", .limit = UINT64_MAX,
	    .how = ATTEND_LEAVE | ATTEND_STDIN };
	struct wire msg = { .type = WIRE_ATTACH, .u.attach = {
	    .flags = WIRE_ATTACH_FOLLOW } };
	struct jobs_operands operands;
	bool terminal = false;
	struct error error;
	int id, status;

	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		a.how &= ~(unsigned)ATTEND_STDIN;
	}
	if (id < 0 || jobs_operands(&operands, &options, &error) < 0 ||
	    look(&operands, &terminal, &error) < 0) {
		return cmd_fail("attach", &error, RUN_UNREACHED);
	}
	/* One who only watches must not resize it. */
	terminal = terminal && (a.how & ATTEND_STDIN) != 0;
	if (terminal && !isatty(STDIN_FILENO)) {
		error_set(&error, WIRE_STEP_USAGE, 0, "the job has a terminal "
		    "and stdin is none; --no-stdin only watches");
		return cmd_fail("attach", &error, RUN_UNREACHED);
	}
	a.target = operands.target;
	a.how |= terminal ? ATTEND_TERMINAL : 0u;
	msg.u.attach.job = operands.job;
	msg.u.attach.flags |= (a.how & ATTEND_STDIN) != 0 ?
	    (unsigned)WIRE_ATTACH_STDIN : 0;
	status = attend(&a, &msg);
	attend_free(&a);
	return status;
}
