/* SPDX-License-Identifier: MIT */
/* cmd_cp.c - `sandmux cp`: what to copy, from where to where. */
#include "cmd.h"

#include <string.h>

#include "cp.h"
#include "jobspec.h"
#include "options.h"
#include "sink.h"

static const char usage[] =
"usage: sandmux cp [-r] [OPTION]... SRC DST\n"
"  -r, --recursive     a directory with all that is in it\n"
"  -u, --user NAME|UID[:GROUP|GID]  with this user's rights in the target\n"
"  -p, --parents       make missing directories of DST\n"
"  -a, --archive       mode with setuid bits, time and, where allowed, owner\n"
"      --mode MODE     octal; of an existing file too, without umask\n"
"      --append        add to the end of DST\n"
"      --offset N      from this byte of SRC on\n"
"      --length N      so many bytes at most\n"
"      --resume        keep what has arrived if the copy breaks off, and go\n"
"                      on with it next time if it is the same\n"
"      --verify        read both ends and print their BLAKE2b-256\n"
"      --json FILE     events for programs, one JSON object a line\n"
"  -L, --follow-link   with -r follow SRC if it is a link; a file always is\n"
"With -r (then of the above -a, -L, -p, -u and --json alone):\n"
"      --skip-unreadable   go on without what cannot be read, and fail then\n"
"      --keep-owner    keep user and group numbers, not only modes\n"
"      --keep-setuid   keep setuid and setgid bits\n"
"One of them is TARGET:PATH, the other a local file or - (stdin, stdout).\n"
"A local name with a colon is written with a slash: ./NAME.\n"
"Exit status: 0, 1 failed, 2 usage, 128+N after signal N.\n";

enum {
	MODE = 256, APPEND, OFFSET, LENGTH, RESUME, VERIFY, JSON, SKIP, OWNER,
	SETID
};

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'r', "recursive", OPTIONS_FLAG },
	{ 'u', "user", OPTIONS_VALUE },
	{ 'p', "parents", OPTIONS_FLAG },
	{ 'a', "archive", OPTIONS_FLAG },
	{ 'L', "follow-link", OPTIONS_FLAG },
	{ MODE, "mode", OPTIONS_VALUE },
	{ APPEND, "append", OPTIONS_FLAG },
	{ OFFSET, "offset", OPTIONS_VALUE },
	{ LENGTH, "length", OPTIONS_VALUE },
	{ RESUME, "resume", OPTIONS_FLAG },
	{ VERIFY, "verify", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_VALUE },
	{ SKIP, "skip-unreadable", OPTIONS_FLAG },
	{ OWNER, "keep-owner", OPTIONS_FLAG },
	{ SETID, "keep-setuid", OPTIONS_FLAG },
	OPTIONS_LAST
};

bool
cp_is_stdio(const struct target_operand *operand)
{
	return operand->local && strcmp(operand->path, "-") == 0;
}

static int
wrong(struct error *error, const char *what)
{
	error_set(error, WIRE_STEP_USAGE, 0, "%s", what);
	return -1;
}

static int
option(struct cp *cp, int id, const char *value, struct error *error)
{
	switch (id) {
	case 'u':
		return jobspec_user(value, &cp->user, error);
	case 'p':
		cp->flags |= CP_PARENTS;
		return 0;
	case 'a':
		cp->flags |= CP_ARCHIVE;
		return 0;
	case MODE:
		cp->flags |= CP_MODE;
		return options_mode(value, "--mode", &cp->mode, error);
	case APPEND:
		cp->flags |= CP_APPEND;
		return 0;
	case OFFSET:
		return options_size(value, "--offset", INT64_MAX, &cp->offset,
		    error);
	case LENGTH:
		return options_size(value, "--length", INT64_MAX, &cp->length,
		    error);
	case RESUME:
		cp->flags |= CP_RESUME;
		return 0;
	case VERIFY:
		cp->flags |= CP_VERIFY;
		return 0;
	case JSON:
		cp->json = value;
		return 0;
	case 'r':
		cp->flags |= CP_TREE;
		return 0;
	case SKIP:
		cp->tree |= WIRE_TREE_SKIP;
		return 0;
	case OWNER:
		cp->tree |= WIRE_TREE_OWNER;
		return 0;
	case SETID:
		cp->tree |= WIRE_TREE_SETID;
		return 0;
	default:			/* -L */
		cp->flags |= CP_FOLLOW;
		return 0;
	}
}

static int
operands(struct cp *cp, char **argv, struct error *error)
{
	if (target_operand(argv[0], &cp->from, error) < 0 ||
	    target_operand(argv[1], &cp->to, error) < 0) {
		return -1;
	}
	if (cp->from.local && cp->to.local) {
		return wrong(error, "both operands are local; one must be "
		    "TARGET:PATH");
	}
	if (!cp->from.local && !cp->to.local) {
		return wrong(error, "both operands are in targets; copy by "
		    "way of a local file or a pipe (-)");
	}
	target_format(cp->from.local ? &cp->to.target : &cp->from.target,
	    cp->target);
	if (strlen(cp->from.local ? cp->to.path : cp->from.path) >
	    WIRE_PATH_MAX) {
		return wrong(error, "the path is too long");
	}
	if (sink_base(cp->from.path, cp->base) < 0 ||
	    strcmp(cp->from.path, "-") == 0) {
		cp->base[0] = '\0';
	}
	return 0;
}

/* What cannot be asked for together. */
static int
fits(const struct cp *cp, struct error *error)
{
	bool ranged = cp->offset > 0 || cp->length != WIRE_TO_END;
	bool stdio = cp_is_stdio(&cp->from) || cp_is_stdio(&cp->to);
	unsigned flags = cp->flags;

	if ((flags & CP_TREE) != 0) {
		if (ranged || (flags & ~(unsigned)(CP_TREE |
		    CP_ARCHIVE | CP_FOLLOW | CP_PARENTS)) != 0) {
			return wrong(error, "of the options for a file, -r "
			    "takes -a, -L, -p, -u and --json alone");
		}
		return !stdio ? 0 : wrong(error, "a tree has no stdin or "
		    "stdout form; leave -r out, or name a directory");
	}
	if (cp->tree != 0) {
		return wrong(error, "this option is for trees; add -r");
	}
	if ((flags & CP_RESUME) != 0 && (ranged || stdio ||
	    (flags & CP_APPEND) != 0)) {
		return wrong(error, "--resume is for whole files, with "
		    "neither -, --append, --offset nor --length");
	}
	if ((flags & CP_APPEND) != 0 && (flags & CP_VERIFY) != 0) {
		return wrong(error, "--append and --verify do not go "
		    "together: the files are not the same");
	}
	if (cp_is_stdio(&cp->to) && (flags & (CP_APPEND | CP_MODE |
	    CP_ARCHIVE | CP_PARENTS)) != 0) {
		return wrong(error, "--append, --mode, --parents and -a are "
		    "for files, not for stdout");
	}
	return 0;
}

int
cp_failed(const struct run_end *end)
{
	return end->signal != 0 && (!end->complete ||
	    end->outcome == WIRE_CANCELLED) ? RUN_SIGNAL + end->signal :
	    CMD_FAILED;
}

int
cmd_cp(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct cp cp = { .length = WIRE_TO_END };
	struct error error;
	int id, status;

	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		if (option(&cp, id, options.value, &error) < 0) {
			return cmd_fail("cp", &error, CMD_USAGE);
		}
	}
	if (id == 0 && argc - options.at != 2) {
		id = wrong(&error, "it takes two operands, SRC and DST; see "
		    "sandmux cp --help");
	}
	if (id < 0 || operands(&cp, argv + options.at, &error) < 0 ||
	    fits(&cp, &error) < 0) {
		return cmd_fail("cp", &error, CMD_USAGE);
	}
	status = (cp.flags & CP_TREE) != 0 ? cp_tree(&cp, &error) :
	    cp_file(&cp, &error);
	return status == CMD_OK ? CMD_OK : cmd_fail("cp", &error, status);
}
