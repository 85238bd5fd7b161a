/* SPDX-License-Identifier: MIT */
/* cmd_cp.c - `sandmux cp`: copy one file from or to a target. */
#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cp_tree.h"
#include "interrupt.h"
#include "jobspec.h"
#include "options.h"
#include "progress.h"
#include "run.h"
#include "sink.h"
#include "system.h"
#include "target.h"

static const char usage[] =
"usage: sandmux cp [-r] [-u USER] SRC DST\n"
"  -r, --recursive        a directory with all that is in it\n"
"  -u, --user NAME|UID[:GROUP|GID]  with this user's rights in the target\n"
"With -r:\n"
"  --skip-unreadable      go on without what cannot be read, and fail then\n"
"  --keep-owner           keep user and group numbers, not only modes\n"
"  --keep-setuid          keep setuid and setgid bits\n"
"  --json FILE            write counts and what was skipped\n"
"One of them is TARGET:PATH, the other a local file or - (stdin, stdout).\n"
"A local name with a colon is written with a slash: ./NAME.\n"
"Exit status: 0, 1 failed, 2 usage, 128+N after signal N.\n";

enum { ID_JSON = 256, ID_SKIP, ID_OWNER, ID_SETID };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'r', "recursive", OPTIONS_FLAG },
	{ ID_JSON, "json", OPTIONS_VALUE },
	{ ID_SKIP, "skip-unreadable", OPTIONS_FLAG },
	{ ID_OWNER, "keep-owner", OPTIONS_FLAG },
	{ ID_SETID, "keep-setuid", OPTIONS_FLAG },
	{ 'u', "user", OPTIONS_VALUE },
	OPTIONS_LAST
};

struct copy {
	struct target_operand from, to;
	char target[TARGET_TEXT_MAX];
	struct wire_bytes user;		/* empty: the target's own */
	char base[NAME_MAX + 1];	/* the source's, empty: none */
	struct sink sink;		/* of a download to a file */
	struct stdfd file;		/* bytes come from or go to this */
	int fd;				/* owned source, -1: none */
	mode_t mode;
	uint64_t size;			/* of the source, 0: unknown */
	struct progress progress;
	unsigned tree;			/* enum wire_tree_flags */
	const char *json;
	bool help, recursive;
};

static int
wrong(struct error *error, const char *what)
{
	error_set(error, WIRE_STEP_USAGE, 0, "%s", what);
	return -1;
}

static int
take_option(struct copy *c, int id, const char *value, struct error *error)
{
	switch (id) {
	case 'r':
		c->recursive = true;
		return 0;
	case ID_JSON:
		c->json = value;
		return 0;
	case ID_SKIP:
		c->tree |= WIRE_TREE_SKIP;
		return 0;
	case ID_OWNER:
		c->tree |= WIRE_TREE_OWNER;
		return 0;
	case ID_SETID:
		c->tree |= WIRE_TREE_SETID;
		return 0;
	default:
		return jobspec_user(value, &c->user, error);
	}
}

static int
parse(struct copy *c, int argc, char **argv, struct error *error)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	int id;

	while ((id = options_next(&options, error)) > 0) {
		if (id == 'h') {
			c->help = true;
			return 0;
		}
		if (take_option(c, id, options.value, error) < 0) {
			return -1;
		}
	}
	if (id < 0) {
		return -1;
	}
	if (argc - options.at != 2) {
		return wrong(error, "it takes two operands, SRC and DST; see "
		    "sandmux cp --help");
	}
	if (target_operand(argv[options.at], &c->from, error) < 0 ||
	    target_operand(argv[options.at + 1], &c->to, error) < 0) {
		return -1;
	}
	if (c->from.local && c->to.local) {
		return wrong(error, "both operands are local; one must be "
		    "TARGET:PATH");
	}
	if (!c->from.local && !c->to.local) {
		return wrong(error, "both operands are in targets; copy by "
		    "way of a local file or a pipe (-)");
	}
	target_format(c->from.local ? &c->to.target : &c->from.target,
	    c->target);
	if (!c->recursive && (c->tree != 0 || c->json != NULL)) {
		return wrong(error, "this option is for trees; add -r");
	}
	if (strlen(c->from.local ? c->to.path : c->from.path) >
	    WIRE_PATH_MAX) {
		return wrong(error, "the path is too long");
	}
	if (sink_base(c->from.path, c->base) < 0 ||
	    strcmp(c->from.path, "-") == 0) {
		c->base[0] = '\0';
	}
	return 0;
}

static bool
is_stdio(const struct target_operand *operand)
{
	return operand->local && strcmp(operand->path, "-") == 0;
}

/* ---- one transfer ---------------------------------------------------- */

static ssize_t
move_in(void *ctx, void *buf, size_t len)
{
	struct copy *c = ctx;
	ssize_t n = stdfd_read(&c->file, buf, len);

	c->progress.done += n > 0 ? (size_t)n : 0;
	return n;
}

static ssize_t
move_out(void *ctx, void *buf, size_t len)
{
	struct copy *c = ctx;
	ssize_t n = stdfd_write(&c->file, buf, len);

	c->progress.done += n > 0 ? (size_t)n : 0;
	return n;
}

static void
turn(void *ctx, struct pollset *set)
{
	struct copy *c = ctx;

	progress_turn(&c->progress, set);
}

/* Open what a download goes to; after the handlers, since it may be named. */
static int
open_sink(struct copy *c, struct error *error)
{
	if (is_stdio(&c->to)) {
		stdfd_open(&c->file, STDOUT_FILENO, true);
		return 0;
	}
	if (sink_open(&c->sink, c->to.path, c->base, error) < 0) {
		return -1;
	}
	c->file = c->sink.file;
	return 0;
}

static void
carry(struct copy *c, const struct wire *msg, struct run_end *end)
{
	bool up = msg->type == WIRE_PUT;
	struct run run = { .out = { .fd = { .fd = -1 } },
	    .err = { .fd = { .fd = -1 } }, .has_in = up, .catch = true,
	    .turn = turn, .ctx = c };
	struct client_config config = { .target = c->target,
	    .flags = CLIENT_START, .events = &run_events, .ctx = &run };

	*end = (struct run_end){ 0 };
	run.client = client_open(&config, &end->error);
	if (run.client == NULL) {
		return;
	}
	system_batch();			/* a controller it started is not */
	if (interrupt_init() < 0) {
		error_set(&end->error, WIRE_STEP_START, errno, "signals");
	} else if (up || open_sink(c, &end->error) == 0) {
		*(up ? &run.in : &run.out) = (struct run_flow){
			.fd = c->file, .ctx = c,
			.name = up ? c->from.path : c->to.path,
			.move = up ? move_in : move_out
		};
		progress_start(&c->progress, up ? c->from.path : c->to.path,
		    c->size, !is_stdio(&c->to) || !isatty(STDOUT_FILENO));
		run_request(&run, msg, end);
		progress_end(&c->progress);
	}
	client_close(run.client);
}

/* Whether the far end has done all of it, byte for byte. */
static int
check(const struct copy *c, const struct run_end *end, uint64_t bytes,
    struct error *error)
{
	if (run_complaint(end, error)) {
		return -1;
	}
	if (!end->complete || end->outcome != WIRE_EXITED || end->code != 0) {
		error_set(error, WIRE_STEP_NONE, 0, "interrupted");
		return -1;
	}
	if (bytes != c->progress.done) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "%llu bytes passed "
		    "here, %llu there", (unsigned long long)c->progress.done,
		    (unsigned long long)bytes);
		return -1;
	}
	return 0;
}

static int
status_of(const struct run_end *end)
{
	return end->signal != 0 && (!end->complete ||
	    end->outcome == WIRE_CANCELLED) ? RUN_SIGNAL + end->signal :
	    CMD_FAILED;
}

/* ---- up -------------------------------------------------------------- */

static int
open_source(struct copy *c, struct error *error)
{
	struct stat st;

	c->fd = is_stdio(&c->from) ? STDIN_FILENO :
	    open(c->from.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (c->fd < 0 || fstat(c->fd, &st) < 0) {
		error_set(error, WIRE_STEP_OPEN, errno, "%.900s",
		    c->from.path);
		return -1;
	}
	if (S_ISDIR(st.st_mode)) {
		error_set(error, WIRE_STEP_OPEN, EISDIR, "%.900s (a tree "
		    "takes -r)", c->from.path);
		return -1;
	}
	c->size = S_ISREG(st.st_mode) && st.st_size > 0 ?
	    (uint64_t)st.st_size : 0;
	c->mode = S_ISREG(st.st_mode) && !is_stdio(&c->from) ? st.st_mode & 0777 :
	    0666 & ~sink_umask();
	stdfd_open(&c->file, c->fd, false);
	return 0;
}

static int
upload(struct copy *c, struct error *error)
{
	struct wire msg = { .type = WIRE_PUT };
	struct run_end end;
	int status = CMD_OK;

	if (open_source(c, error) < 0) {
		return CMD_FAILED;
	}
	msg.u.put.mode = c->mode;
	msg.u.put.user = c->user;
	msg.u.put.path = wire_string(c->to.path);
	msg.u.put.name = wire_string(c->base);
	carry(c, &msg, &end);
	if (check(c, &end, end.in, error) < 0) {
		status = status_of(&end);
	}
	run_end_free(&end);
	return status;
}

/* ---- down ------------------------------------------------------------ */

static int
download(struct copy *c, struct error *error)
{
	struct wire msg = { .type = WIRE_GET }, info;
	struct run_end end;
	mode_t mode = 0666;
	int status = CMD_OK;

	msg.u.get.user = c->user;
	msg.u.get.path = wire_string(c->from.path);
	carry(c, &msg, &end);
	if (end.info != NULL && wire_decode(end.info, end.info_len,
	    &info) == WIRE_OK && info.type == WIRE_FILE_INFO) {
		mode = info.u.file_info.mode & 0777;
	}
	if (check(c, &end, end.out, error) < 0) {
		status = status_of(&end);
	} else if (!is_stdio(&c->to) && sink_commit(&c->sink, mode,
	    error) < 0) {
		status = CMD_FAILED;
	}
	run_end_free(&end);
	return status;
}

/* ---- trees ----------------------------------------------------------- */

static int
recurse(const struct copy *c, struct error *error)
{
	const struct cp_tree spec = { .target = c->target, .user = c->user,
	    .from = c->from.path, .to = c->to.path, .up = c->from.local,
	    .flags = c->tree, .json = c->json };

	if (is_stdio(&c->from) || is_stdio(&c->to)) {
		wrong(error, "a tree has no stdin or stdout form; leave -r "
		    "out, or name a directory");
		return CMD_USAGE;
	}
	return cp_tree(&spec, error);
}

int
cmd_cp(int argc, char **argv)
{
	struct copy c = { .fd = -1, .file = { .fd = -1 },
	    .sink = { .dir = -1, .fd = -1, .file = { .fd = -1 } } };
	struct error error;
	int status;

	if (parse(&c, argc, argv, &error) < 0) {
		return cmd_fail("cp", &error, CMD_USAGE);
	}
	if (c.help) {
		return cmd_help(usage);
	}
	status = c.recursive ? recurse(&c, &error) :
	    c.from.local ? upload(&c, &error) : download(&c, &error);
	if (status != CMD_OK) {
		cmd_fail("cp", &error, status);
	}
	if (c.file.fd != c.sink.file.fd) {
		stdfd_close(&c.file);
	}
	sink_close(&c.sink);
	if (c.fd > STDERR_FILENO) {
		close(c.fd);
	}
	return status;
}
