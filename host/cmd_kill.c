/* SPDX-License-Identifier: MIT */
/* cmd_kill.c - `sandmux kill`: end a job, or send it a signal. */
#include "cmd.h"

#include "jobs.h"
#include "options.h"

static const char usage[] =
"usage: sandmux kill [-s SIGNAL] TARGET JOB\n"
"  -s, --signal SIGNAL    send this to its process group; KILL: to all of it\n"
"Without -s the job is ended: SIGTERM, its grace, SIGKILL, for all of it.\n"
"Exit status: 0, 1 failed, 2 usage.\n";

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 's', "signal", OPTIONS_VALUE },
	OPTIONS_LAST
};

int
cmd_kill(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct wire msg = { .type = WIRE_KILL };
	struct jobs_operands operands;
	struct text text = { 0 };
	struct error error;
	unsigned number = 0;
	int id, rc;

	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		if (options_signal(options.value, "-s", &number,
		    &error) < 0) {
			return cmd_fail("kill", &error, CMD_USAGE);
		}
	}
	if (id < 0 || jobs_operands(&operands, &options, &error) < 0) {
		return cmd_fail("kill", &error, CMD_USAGE);
	}
	msg.u.kill.job = operands.job;
	msg.u.kill.signal = (uint8_t)number;
	rc = jobs_ask(operands.target, &msg, &text, &error);
	text_free(&text);
	return rc < 0 ? cmd_fail("kill", &error, CMD_FAILED) : CMD_OK;
}
