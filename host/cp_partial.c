/* SPDX-License-Identifier: MIT */
/* cp_partial.c - the records of copies that can be resumed. */
#include "cp_partial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "paths.h"
#include "record.h"
#include "sink.h"

#define DIRECTORY "partials"
#define NAME_BYTES 16u			/* of a record's name, in hex */
#define NAME_HEX (2 * NAME_BYTES)
#define FIELDS 4u

/* A record: target (empty: here), user, path, name; each ends with a NUL. */
#define RECORD_BYTES (TARGET_TEXT_MAX + WIRE_USER_MAX + 1 + PATH_MAX + \
    NAME_MAX + 1)

struct partial {
	const char *field[FIELDS];
	size_t len;
	char text[RECORD_BYTES + 1];
};

enum field { TARGET, USER, PATH, BASE };

/* ---- records ----------------------------------------------------------- */

static int
failed(const char *what, struct error *error)
{
	error_set(error, WIRE_STEP_START, errno, "the record of a partial "
	    "file %.400s", what);
	return -1;
}

static int
directory(char *out, struct error *error)
{
	char state[PATHS_MAX];

	if (paths_state(state, sizeof(state), error) < 0 ||
	    paths_join(out, PATHS_MAX, state, DIRECTORY, error) < 0) {
		return -1;
	}
	return mkdir(out, 0700) < 0 && errno != EEXIST ? failed(out, error) :
	    0;
}

static int
add(struct partial *p, enum field field, const char *text, size_t len)
{
	if (p->len + len + 1 > RECORD_BYTES || memchr(text, '\0', len)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	p->field[field] = memcpy(p->text + p->len, text, len);
	p->text[p->len + len] = '\0';
	p->len += len + 1;
	return 0;
}

/* What is to be found again whatever the current directory is then. */
static int
describe(struct partial *p, const struct cp *cp)
{
	bool up = cp->from.local;
	const char *path = cp->to.path;
	char whole[PATH_MAX], cwd[PATH_MAX];

	if (!up && path[0] != '/') {
		if (getcwd(cwd, sizeof(cwd)) == NULL) {
			return -1;
		}
		if (snprintf(whole, sizeof(whole), "%s/%s", cwd, path) >=
		    (int)sizeof(whole)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		path = whole;
	}
	p->len = 0;
	return add(p, TARGET, cp->target, up ? strlen(cp->target) : 0) < 0 ||
	    add(p, USER, up && cp->user.len > 0 ? (const char *)cp->user.at :
	    "", up ? cp->user.len : 0) < 0 ||
	    add(p, PATH, path, strlen(path)) < 0 ||
	    add(p, BASE, cp->base, strlen(cp->base)) < 0 ? -1 : 0;
}

/* Its path, by its content. */
static int
path_of(const struct partial *p, char *out, size_t cap, struct error *error)
{
	char dir[PATHS_MAX], hex[NAME_HEX + 1];
	uint8_t hash[SEAL_KEY];

	seal_hash(p->text, p->len, hash);
	seal_hex(hash, NAME_BYTES, hex);
	return directory(dir, error) < 0 ? -1 :
	    paths_join(out, cap, dir, hex, error);
}

int
cp_partial_begin(const struct cp *cp, struct error *error)
{
	static struct partial p;
	char path[PATHS_MAX];
	struct stat st;
	int fd;

	if (describe(&p, cp) < 0) {
		return failed("", error);
	}
	if (path_of(&p, path, sizeof(path), error) < 0) {
		return -1;
	}
	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		    0600);
		if (fd < 0 || flock(fd, LOCK_SH) < 0 || fstat(fd, &st) < 0) {
			break;
		}
		/* Whoever has ended or cleaned up just now has removed it. */
		if (st.st_nlink == 0) {
			close(fd);
			continue;
		}
		errno = ENOSPC;		/* of a short write */
		if (pwrite(fd, p.text, p.len, 0) == (ssize_t)p.len) {
			return fd;
		}
		break;
	}
	failed(path, error);
	if (fd >= 0) {
		close(fd);
	}
	return -1;
}

void
cp_partial_end(const struct cp *cp, int fd, bool whole)
{
	static struct partial p;
	char path[PATHS_MAX];
	struct error error;
	int saved = errno;

	/* Another copy to the same place needs it yet. */
	if (fd >= 0 && whole && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    describe(&p, cp) == 0 &&
	    path_of(&p, path, sizeof(path), &error) == 0) {
		unlink(path);
	}
	if (fd >= 0) {
		close(fd);
	}
	errno = saved;
}

/* ---- cleanup ----------------------------------------------------------- */

/* A record's fields; -1: it is not whole. */
static int
load(struct partial *p, int fd)
{
	ssize_t n = pread(fd, p->text, RECORD_BYTES, 0);
	char *at = p->text;
	unsigned i;

	p->len = n < 0 ? 0 : (size_t)n;
	p->text[p->len] = '\0';
	for (i = 0; i < FIELDS; i++) {
		if (at >= p->text + p->len) {
			return -1;
		}
		p->field[i] = at;
		at += strlen(at) + 1;
	}
	return at == p->text + p->len ? 0 : -1;
}

/* Whether the record's sandbox has gone, and all that was in it. */
static bool
sandbox_gone(const char *target)
{
	struct record_store store;
	struct sandbox *sandbox;
	struct error error;

	if (strchr(target, ':') != NULL || strcmp(target, "local") == 0 ||
	    record_open(&store, getenv("XDG_STATE_HOME"), getenv("HOME"),
	    &error) < 0) {
		return false;
	}
	sandbox = record_get(&store, target, &error);
	if (sandbox != NULL) {
		sandbox_release(sandbox);
		return false;
	}
	return error.number == ENOENT;
}

/* An older agent would wait for the bytes: there are none. */
static ssize_t
no_bytes(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	(void)buf;
	(void)len;
	return 0;
}

static ssize_t
swallow(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	(void)buf;
	return (ssize_t)len;
}

/* As of a RESULT: 0, 1: there is none, or -1 with *error. */
static int
judge(const struct run_end *end, struct error *error)
{
	struct wire msg;

	if (run_complaint(end, error)) {
		/* The container, or the directory, is not there any more. */
		return end->complete && (error->step == WIRE_STEP_TARGET ||
		    error->step == WIRE_STEP_SANDBOX ||
		    (error->step == WIRE_STEP_OPEN && (error->number ==
		    ENOENT || error->number == ENOTDIR))) ? 1 : -1;
	}
	if (!end->complete || end->info == NULL || wire_decode(end->info,
	    end->info_len, &msg) != WIRE_OK || msg.type != WIRE_FILE_INFO) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "no word on the "
		    "partial file");
		return -1;
	}
	return msg.u.file_info.links == 0;
}

/* In a target; as judge(). */
static int
discard_there(const struct partial *p, int *number, struct error *error)
{
	struct wire msg = { .type = WIRE_PUT };
	struct run run = { .catch = true, .has_in = true,
	    .in = { .fd = { .fd = -1 }, .move = no_bytes, .name = "nothing" },
	    .out = { .fd = { .fd = -1 }, .move = swallow, .name = "" },
	    .err = { .fd = { .fd = -1 }, .move = swallow, .name = "" } };
	struct client_config config = { .target = p->field[TARGET],
	    .flags = CLIENT_START, .events = &run_events, .ctx = &run };
	struct run_end end;
	int rc;

	if (sandbox_gone(p->field[TARGET])) {
		return 1;
	}
	msg.u.put.flags = WIRE_PUT_RESUME | WIRE_PUT_DISCARD;
	msg.u.put.user = wire_string(p->field[USER]);
	msg.u.put.path = wire_string(p->field[PATH]);
	msg.u.put.name = wire_string(p->field[BASE]);
	run.client = client_open(&config, error);
	if (run.client == NULL) {
		return -1;
	}
	run_request(&run, &msg, &end);
	*number = end.signal;
	rc = judge(&end, error);
	run_end_free(&end);
	client_close(run.client);
	return rc;
}

/* The record of fd, which is at path; what is said is said. */
static int
clean_one(int fd, const char *path, cp_partial_told *told, void *ctx)
{
	static struct partial p;
	char where[TARGET_TEXT_MAX + PATH_MAX];
	struct error error;
	int rc = 1, number = 0;

	bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;

	if (load(&p, fd) < 0) {
		if (locked) {
			unlink(path);	/* its writer died: it began nothing */
		}
		return 0;
	}
	snprintf(where, sizeof(where), "%s%s%s", p.field[TARGET],
	    p.field[TARGET][0] != '\0' ? ":" : "", p.field[PATH]);
	if (!locked) {
		error_set(&error, WIRE_STEP_PARTIAL, EAGAIN, "%.900s", where);
		rc = -1;
	} else if (p.field[TARGET][0] == '\0') {
		rc = sink_discard(p.field[PATH], p.field[BASE], &error);
	} else {
		rc = discard_there(&p, &number, &error);
	}
	if (number == 0 && rc <= 0) {
		told(ctx, where, rc < 0 ? &error : NULL);
	}
	if (rc >= 0) {
		unlink(path);
	}
	return number;
}

int
cp_partial_clean(cp_partial_told *told, void *ctx, struct error *error)
{
	char dir[PATHS_MAX], path[PATHS_MAX];
	DIR *stream = directory(dir, error) < 0 ? NULL : opendir(dir);
	int fd, number = 0;
	struct dirent *e;

	if (stream == NULL || interrupt_init() < 0) {
		if (stream != NULL) {
			closedir(stream);
		}
		return failed(dir, error);
	}
	while (number == 0 && (e = readdir(stream)) != NULL) {
		if (strlen(e->d_name) != NAME_HEX ||
		    paths_join(path, sizeof(path), dir, e->d_name, error) <
		    0) {
			continue;
		}
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
		    O_CLOEXEC);
		if (fd >= 0) {
			number = clean_one(fd, path, told, ctx);
			close(fd);
		}
		number = number != 0 ? number : interrupt_take();
	}
	closedir(stream);
	return number;
}
