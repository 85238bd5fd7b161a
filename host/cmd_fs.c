/* SPDX-License-Identifier: MIT */
/* cmd_fs.c - `sandmux fs`: what can be done to a target's files by name. */
#include "cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "filecopy.h"
#include "jobspec.h"
#include "json.h"
#include "options.h"
#include "quote.h"
#include "run.h"
#include "target.h"

static const char usage[] =
"usage: sandmux fs OP [OPTION]... TARGET:PATH [ARG]\n"
"  stat [-L] [--json] TARGET:PATH      -L: of what a link names\n"
"  ls [--json] TARGET:PATH             a directory's entries, as they come\n"
"  readlink TARGET:PATH                what a symbolic link says\n"
"  mkdir [-p] [--mode MODE] TARGET:PATH   -p: parents too, there is no error\n"
"  rm [-r] TARGET:PATH                 a file or an empty directory; -r: all\n"
"  mv TARGET:PATH NEWPATH\n"
"  chmod TARGET:PATH MODE              octal; of what a link names\n"
"  chown [-L] TARGET:PATH USER[:GROUP]|:GROUP\n"
"  symlink TARGET:PATH TEXT            make PATH a link that says TEXT\n"
"  -u, --user NAME|UID[:GROUP|GID]     with this user's rights\n"
"Exit status: 0, 1 failed, 2 usage.\n";

enum { JSON = 256, MODE };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'u', "user", OPTIONS_VALUE },
	{ 'L', "dereference", OPTIONS_FLAG },
	{ 'p', "parents", OPTIONS_FLAG },
	{ 'r', "recursive", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_FLAG },
	{ MODE, "mode", OPTIONS_VALUE },
	OPTIONS_LAST
};

static const struct op {
	const char *name;
	uint8_t op;			/* enum wire_fs_op */
	bool link;			/* readlink: the answer is a link */
	const char *argument;		/* NULL: none */
	const char *options;		/* beside -u; j: --json, m: --mode */
} ops[] = {
	{ "stat", WIRE_FS_STAT, false, NULL, "Lj" },
	{ "ls", WIRE_FS_LIST, false, NULL, "j" },
	{ "readlink", WIRE_FS_STAT, true, NULL, "" },
	{ "mkdir", WIRE_FS_MKDIR, false, NULL, "pm" },
	{ "rm", WIRE_FS_REMOVE, false, NULL, "r" },
	{ "mv", WIRE_FS_RENAME, false, "NEWPATH", "" },
	{ "chmod", WIRE_FS_CHMOD, false, "MODE", "" },
	{ "chown", WIRE_FS_CHOWN, false, "USER[:GROUP]", "L" },
	{ "symlink", WIRE_FS_SYMLINK, false, "TEXT", "" }
};

struct fs {
	const struct op *op;
	struct target_operand at;
	char target[TARGET_TEXT_MAX];
	struct wire msg;
	bool json;
	struct run run;
	struct filecopy_head head;	/* ls: the next entry */
	uint64_t entries;
};

static struct fs fs;			/* the process does one thing */

static int
wrong(struct error *error, const char *format, const char *what)
{
	error_set(error, WIRE_STEP_USAGE, 0, format, what);
	return -1;
}

/* ---- the command line -------------------------------------------------- */

static int
option(struct fs *f, int id, const char *value, struct error *error)
{
	struct wire_fs *msg = &f->msg.u.fs;
	int letter = id == JSON ? 'j' : id == MODE ? 'm' : id;
	mode_t mode;

	if (id == 'u') {
		return jobspec_user(value, &msg->user, error);
	}
	if (strchr(f->op->options, letter) == NULL) {
		return wrong(error, "this option is not for %s; see "
		    "sandmux fs --help", f->op->name);
	}
	switch (id) {
	case 'L':
		msg->flags |= WIRE_FS_FOLLOW;
		return 0;
	case 'p':
		msg->flags |= WIRE_FS_PARENTS;
		return 0;
	case 'r':
		msg->flags |= WIRE_FS_TREE;
		return 0;
	case MODE:
		if (options_mode(value, "--mode", &mode, error) < 0) {
			return -1;
		}
		msg->mode = (uint32_t)mode;
		msg->flags |= WIRE_FS_MODE;
		return 0;
	default:
		f->json = true;
		return 0;
	}
}

static int
operands(struct fs *f, int argc, char **argv, struct error *error)
{
	struct wire_fs *msg = &f->msg.u.fs;
	mode_t mode;

	if (argc != (f->op->argument == NULL ? 1 : 2)) {
		return wrong(error, f->op->argument == NULL ?
		    "it takes one TARGET:PATH%s" : "it takes TARGET:PATH and "
		    "%s", f->op->argument == NULL ? "" : f->op->argument);
	}
	if (target_operand(argv[0], &f->at, error) < 0) {
		return -1;
	}
	if (f->at.local) {
		return wrong(error, "%s names no target; write TARGET:PATH",
		    argv[0]);
	}
	target_format(&f->at.target, f->target);
	msg->path = wire_string(f->at.path);
	if (argc == 2 && f->op->op == WIRE_FS_CHMOD) {
		if (options_mode(argv[1], "MODE", &mode, error) < 0) {
			return -1;
		}
		msg->mode = (uint32_t)mode;
	} else if (argc == 2) {
		msg->second = wire_string(argv[1]);
	}
	return msg->path.len > WIRE_PATH_MAX ||
	    msg->second.len > WIRE_PATH_MAX ? wrong(error, "%s",
	    "the path is too long") : 0;
}

/* ---- what is said ------------------------------------------------------ */

static const char *
type_word(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
		return "character-device";
	case S_IFBLK:
		return "block-device";
	default:
		return "unknown";
	}
}

/* Seconds since 1970, towards the past. */
static int64_t
seconds_of(uint64_t ns, uint32_t *rest)
{
	int64_t all = (int64_t)ns, s = all / 1000000000;

	if (all % 1000000000 < 0) {
		s--;
	}
	*rest = (uint32_t)(all - s * 1000000000);
	return s;
}

/* As `ls -l` has it: type, rights, links, ids, size, time, name. */
static void
show_line(const struct wire_file_info *info)
{
	static const char types[] = "?pc?d?b?-?l?s???";
	static const char rights[] = "rwxrwxrwx";
	char mode[11], when[32] = "?";
	char name[4 * 255 + 1], link[4 * WIRE_PATH_MAX + 1];
	uint32_t rest;
	time_t seconds = (time_t)seconds_of(info->mtime, &rest);
	struct tm tm;
	unsigned i;

	mode[0] = types[info->mode >> 12 & 15];
	for (i = 0; i < 9; i++) {
		mode[1 + i] = (info->mode & 0400u >> i) != 0 ? rights[i] :
		    '-';
	}
	for (i = 0; i < 3; i++) {
		if ((info->mode & 04000u >> i) != 0) {
			mode[3 + 3 * i] = mode[3 + 3 * i] == 'x' ?
			    "sst"[i] : "SST"[i];
		}
	}
	mode[10] = '\0';
	if (gmtime_r(&seconds, &tm) != NULL) {
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	}
	quote_bytes(name, sizeof(name), info->name.at, info->name.len);
	quote_bytes(link, sizeof(link), info->link.at, info->link.len);
	printf("%s %3" PRIu32 " %5" PRIu32 " %5" PRIu32 " %12" PRIu64 " %s"
	    "%s%s%s%s\n", mode, info->links, info->uid, info->gid,
	    info->size, when, name[0] == '\0' ? "" : " ", name,
	    link[0] == '\0' ? "" : " -> ", link);
}

static void
show_json(const struct wire_file_info *info, bool named)
{
	struct json json = { 0 };
	char mode[8];
	uint32_t rest;
	int64_t seconds = seconds_of(info->mtime, &rest);

	json_object(&json, NULL);
	if (named) {
		json_bytes(&json, "name", info->name.at, info->name.len);
	}
	json_string(&json, "type", type_word(info->mode));
	snprintf(mode, sizeof(mode), "%04" PRIo32, info->mode & 07777);
	json_string(&json, "mode", mode);
	json_u64(&json, "size", info->size);
	json_u64(&json, "uid", info->uid);
	json_u64(&json, "gid", info->gid);
	json_u64(&json, "links", info->links);
	json_u64(&json, "blocks", info->blocks);
	json_i64(&json, "mtime", seconds);
	json_u64(&json, "mtime_ns", rest);
	if ((info->mode & S_IFMT) == S_IFLNK) {
		json_bytes(&json, "link", info->link.at, info->link.len);
	} else {
		json_null(&json, "link");
	}
	json_end_object(&json);
	if (json_text(&json) != NULL) {
		fputs(json_text(&json), stdout);
	}
	json_free(&json);
}

/* ---- the request ------------------------------------------------------- */

static void
show_entry(struct fs *f, const struct wire_file_info *info)
{
	if (f->json) {
		fputs(f->entries == 0 ? "" : ",\n", stdout);
		show_json(info, true);
	} else {
		show_line(info);
	}
	f->entries++;
}

/* A directory of any size: each entry is shown as it comes. */
static ssize_t
take_entries(void *ctx, void *data, size_t len)
{
	struct fs *f = ctx;
	struct wire msg;
	size_t done = 0, n;
	ssize_t want;

	while (done < len) {
		want = filecopy_head_wants(&f->head);
		if (want < 0) {
			errno = EPROTO;
			return -1;
		}
		n = (size_t)want < len - done ? (size_t)want : len - done;
		memcpy(f->head.buf + f->head.have, (uint8_t *)data + done, n);
		f->head.have += n;
		done += n;
		if (filecopy_head_wants(&f->head) != 0) {
			continue;
		}
		if (filecopy_head_get(&f->head, WIRE_FILE_INFO, &msg) < 0) {
			errno = EPROTO;
			return -1;
		}
		show_entry(f, &msg.u.file_info);
		f->head.have = 0;
	}
	return (ssize_t)len;
}

static int
show(struct fs *f, const struct run_end *end, struct error *error)
{
	const struct wire_file_info *info;
	struct wire msg;

	if (f->op->op == WIRE_FS_LIST) {
		return 0;
	}
	if (end->info == NULL || wire_decode(end->info, end->info_len,
	    &msg) != WIRE_OK || msg.type != WIRE_FILE_INFO) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "no word on the file");
		return -1;
	}
	info = &msg.u.file_info;
	if (f->op->link && (info->mode & S_IFMT) != S_IFLNK) {
		error_set(error, WIRE_STEP_READ, EINVAL, "%.900s as a "
		    "symbolic link", f->at.path);
		return -1;
	}
	if (f->op->link) {
		fwrite(info->link.at, 1, info->link.len, stdout);
		putchar('\n');
	} else if (f->json) {
		show_json(info, false);
		putchar('\n');
	} else {
		show_line(info);
	}
	return 0;
}

static int
ask(struct fs *f, struct error *error)
{
	struct client_config config = { .target = f->target,
	    .flags = CLIENT_START, .events = &run_events, .ctx = &f->run };
	bool list = f->op->op == WIRE_FS_LIST && f->json;
	struct run_end end;
	int rc;

	f->run.out = (struct run_flow){ .fd = { .fd = -1 }, .ctx = f,
	    .move = take_entries, .name = "the agent's answer" };
	f->run.err = f->run.out;
	f->run.client = client_open(&config, error);
	if (f->run.client == NULL) {
		return -1;
	}
	if (list) {
		fputs("{\"entries\": [", stdout);
	}
	run_request(&f->run, &f->msg, &end);
	rc = run_complaint(&end, error) ? -1 : 0;
	if (rc == 0 && (f->op->op <= WIRE_FS_LIST)) {
		rc = show(f, &end, error);
	}
	if (list && rc == 0) {
		puts("]}");
	}
	if (fflush(stdout) != 0 && rc == 0) {
		error_set(error, WIRE_STEP_WRITE, errno, "stdout");
		rc = -1;
	}
	run_end_free(&end);
	client_close(f->run.client);
	return rc;
}

int
cmd_fs(int argc, char **argv)
{
	struct options options = { .argc = argc - 1, .argv = argv + 1,
	    .table = table };
	struct error error;
	size_t i;
	int id = 0;

	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 ||
	    strcmp(argv[1], "-h") == 0)) {
		return cmd_help(usage);
	}
	for (i = 0; argc >= 2 && i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(argv[1], ops[i].name) == 0) {
			fs.op = &ops[i];
		}
	}
	if (fs.op == NULL) {
		wrong(&error, "%s", "it takes an operation and TARGET:PATH; "
		    "see sandmux fs --help");
		return cmd_fail("fs", &error, CMD_USAGE);
	}
	fs.msg.type = WIRE_FS;
	fs.msg.u.fs.op = fs.op->op;
	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		if (option(&fs, id, options.value, &error) < 0) {
			return cmd_fail("fs", &error, CMD_USAGE);
		}
	}
	if (id < 0 || operands(&fs, options.argc - options.at,
	    options.argv + options.at, &error) < 0) {
		return cmd_fail("fs", &error, CMD_USAGE);
	}
	return ask(&fs, &error) < 0 ? cmd_fail("fs", &error, CMD_FAILED) :
	    CMD_OK;
}
