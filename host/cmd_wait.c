/* SPDX-License-Identifier: MIT */
/* cmd_wait.c - `sandmux wait`: until a job has ended, and how it did. */
#include "cmd.h"

#include "attend.h"
#include "jobs.h"
#include "options.h"
#include "report.h"

static const char usage[] =
"usage: sandmux wait [--json FILE] TARGET JOB\n"
"      --json FILE    write how it ended to FILE\n"
"What was kept of the job is dropped then.  Ctrl-C leaves it running.\n"
"Exit status: the job's, as exec's; 1 no such job; 125 anything else.\n";

enum { JSON = 256 };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_VALUE },
	OPTIONS_LAST
};

int
cmd_wait(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct attend a = { .what = "wait", .limit = UINT64_MAX,
	    .how = ATTEND_LEAVE };
	struct wire msg = { .type = WIRE_ATTACH, .u.attach = {
	    .flags = WIRE_ATTACH_FOLLOW | WIRE_ATTACH_QUIET |
	    WIRE_ATTACH_FORGET } };
	struct jobs_operands operands;
	struct error error;
	int id, status;

	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		a.json = options.value;
		if (report_check(a.json, &error) < 0) {
			return cmd_fail("wait", &error, RUN_UNREACHED);
		}
	}
	if (id < 0 || jobs_operands(&operands, &options, &error) < 0) {
		return cmd_fail("wait", &error, RUN_UNREACHED);
	}
	a.target = operands.target;
	msg.u.attach.job = operands.job;
	status = attend(&a, &msg);
	attend_free(&a);
	return status;
}
