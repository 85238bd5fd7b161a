/* SPDX-License-Identifier: MIT */
/* cmd_logs.c - `sandmux logs`: what a detached job has written. */
#include "cmd.h"

#include "attend.h"
#include "jobs.h"
#include "options.h"

static const char usage[] =
"usage: sandmux logs [-f] TARGET JOB\n"
"  -f, --follow    go on until the job ends\n"
"Its stdout and stderr come out here, apart, from the first byte kept.\n"
"Exit status: 0, 1 failed, 2 usage, 128+N after signal N.\n";

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'f', "follow", OPTIONS_FLAG },
	OPTIONS_LAST
};

int
cmd_logs(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct attend a = { .what = "logs", .limit = UINT64_MAX,
	    .how = ATTEND_LEAVE | ATTEND_LOOK };
	struct wire msg = { .type = WIRE_ATTACH };
	struct jobs_operands operands;
	struct error error;
	int id, status;

	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		msg.u.attach.flags |= WIRE_ATTACH_FOLLOW;
	}
	if (id < 0 || jobs_operands(&operands, &options, &error) < 0) {
		return cmd_fail("logs", &error, CMD_USAGE);
	}
	a.target = operands.target;
	msg.u.attach.job = operands.job;
	status = attend(&a, &msg);
	attend_free(&a);
	return status > RUN_SIGNAL || status == CMD_OK ? status : CMD_FAILED;
}
