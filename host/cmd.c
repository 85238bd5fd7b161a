/* SPDX-License-Identifier: MIT */
/* cmd.c - what the subcommands share. */
#include "cmd.h"

#include <stdio.h>
#include <unistd.h>

#include "options.h"
#include "words.h"

int
cmd_fail(const char *what, const struct error *error, int status)
{
	char line[WORDS_LINE];

	words_error(error, line, sizeof(line));
	dprintf(STDERR_FILENO, "sandmux: %s: %s\n", what, line);
	return status;
}

int
cmd_help(const char *text)
{
	return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? CMD_FAILED :
	    CMD_OK;
}

int
cmd_plain(int argc, char **argv, const char *usage)
{
	static const struct options_entry table[] = {
		{ 'h', "help", OPTIONS_FLAG },
		OPTIONS_LAST
	};
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct error error;
	int id = options_next(&options, &error);

	if (id == 'h') {
		return 1 + cmd_help(usage);
	}
	if (id == 0 && options.at < argc) {
		error_set(&error, WIRE_STEP_USAGE, 0, "it takes no "
		    "operands, but \"%s\" was given", argv[options.at]);
		id = -1;
	}
	return id < 0 ? 1 + cmd_fail(argv[0], &error, CMD_USAGE) : 0;
}
