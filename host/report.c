/* SPDX-License-Identifier: MIT */
/* report.c - how a job ended, as JSON for --json. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "words.h"

#define REPORT_WALL_MAX UINT64_C(1000000000000000)	/* us: 31 years */

/* Whether path is there and no regular file: then it is written into. */
static bool
special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Where the temporary file goes: beside path. */
static int
beside(const char *path, char *out, size_t cap)
{
	const char *slash = strrchr(path, '/');
	int n = snprintf(out, cap, "%.*s.sandmux-%ld.tmp",
	    slash == NULL ? 0 : (int)(slash - path + 1), path,
	    (long)getpid());

	return n < 0 || (size_t)n >= cap ? -1 : 0;
}

static int
failed(struct error *error, const char *path)
{
	error_set(error, WIRE_STEP_NONE, errno, "--json %.256s", path);
	return -1;
}

int
report_check(const char *path, struct error *error)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return failed(error, path);
	}
	if (special(path)) {
		return access(path, W_OK) < 0 ? failed(error, path) : 0;
	}
	snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 1 :
	    (int)(slash - path + 1), slash == NULL ? "." : path);
	return access(dir, W_OK | X_OK) < 0 ? failed(error, path) : 0;
}

void
report_error(struct json *json, const struct error *error)
{
	char line[WORDS_LINE];

	if (error->step == WIRE_STEP_NONE) {
		json_null(json, "error");
		return;
	}
	json_object(json, "error");
	json_string(json, "step", words_step((unsigned)error->step));
	json_i64(json, "errno", error->number);
	if (words_errno((unsigned)error->number) != NULL) {
		json_string(json, "errno_name",
		    words_errno((unsigned)error->number));
	} else {
		json_null(json, "errno_name");
	}
	json_string(json, "text", error->text);
	json_string(json, "message", words_error(error, line, sizeof(line)));
	json_end_object(json);
}

static void
add_number(struct json *json, const char *key, bool known, uint64_t value)
{
	if (known) {
		json_u64(json, key, value);
	} else {
		json_null(json, key);
	}
}

static void
add_seconds(struct json *json, const char *key, bool known, uint64_t us)
{
	if (known) {
		json_double(json, key, (double)us / 1e6);
	} else {
		json_null(json, key);
	}
}

/* a times b, or the most there is: the numbers are an agent's. */
static uint64_t
product(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static void
add_survivors(struct json *json, struct wire_list list)
{
	struct wire_bytes item;

	json_array(json, "survivors");
	while (wire_next(&list, &item)) {
		json_bytes(json, NULL, item.at, item.len);
	}
	json_end_array(json);
}

/* What EXEC_INFO says; without one the members are null. */
static void
add_info(struct json *json, const struct run_end *end)
{
	struct wire_exec_info info = { 0 };
	bool known = run_exec_info(end, &info);

	add_number(json, "job", known, info.job);
	add_number(json, "uid", known, info.uid);
	add_seconds(json, "user_seconds", known, info.user_us);
	add_seconds(json, "system_seconds", known, info.system_us);
	add_number(json, "read_bytes", known, product(info.read_blocks, 512));
	add_number(json, "written_bytes", known,
	    product(info.written_blocks, 512));
	add_number(json, "peak_rss_bytes", known,
	    product(info.peak_kib, 1024));
	if ((info.flags & WIRE_EXEC_CWD_FELL_BACK) != 0) {
		json_bytes(json, "cwd", info.cwd.at, info.cwd.len);
	} else {
		json_null(json, "cwd");
	}
	add_survivors(json, info.survivors);
}

static bool
running(const struct run_end *end)
{
	struct wire_exec_info info;

	return end->complete && end->outcome == WIRE_EXITED &&
	    run_exec_info(end, &info) &&
	    (info.flags & WIRE_EXEC_RUNNING) != 0;
}

static void
add_outcome(struct json *json, const struct run_end *end)
{
	bool runs = running(end);

	json_string(json, "outcome", runs ? "running" :
	    words_outcome(end->complete ? end->outcome : WIRE_FAILED));
	if (end->complete && end->outcome == WIRE_EXITED && !runs) {
		json_i64(json, "code", end->code);
	} else {
		json_null(json, "code");
	}
	if (end->complete && end->outcome == WIRE_SIGNALED) {
		json_i64(json, "signal", end->code);
	} else {
		json_null(json, "signal");
	}
	json_bool(json, "timed_out", end->complete &&
	    end->outcome == WIRE_TIMED_OUT);
}

static void
add_stream(struct json *json, const char *key, const struct clip *clip)
{
	json_object(json, key);
	json_u64(json, "bytes", clip->seen);
	json_u64(json, "shown", clip->shown);
	json_bool(json, "truncated", clip_cut(clip));
	json_end_object(json);
}

static void
add_all(struct json *json, const struct attend *a, int status)
{
	const struct run_end *end = &a->end;

	json_object(json, NULL);
	add_outcome(json, end);
	json_i64(json, "status", status);
	report_error(json, &end->error);
	json_object(json, "bytes");
	json_u64(json, "stdin", end->in);
	json_u64(json, "stdout", end->out);
	json_u64(json, "stderr", end->err);
	json_end_object(json);
	add_stream(json, "stdout", &a->clip[0]);
	add_stream(json, "stderr", &a->clip[1]);
	json_bool(json, "over_limit", a->over_limit);
	/* An agent's number; one that no lifetime has must not hide the rest. */
	json_double(json, "wall_ms", end->wall_us > REPORT_WALL_MAX ? 0 :
	    (double)end->wall_us / 1000);
	json_bool(json, "new_agent", end->new_agent);
	json_bool(json, "detached", end->detached);
	add_info(json, end);
	json_end_object(json);
}

static int
write_all(int fd, const char *data, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = write(fd, data, len);
		if (n < 0 && errno != EINTR) {
			return -1;
		}
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Write text to path, or beside it and then over it. */
static int
store(const char *path, const char *text)
{
	char tmp[PATH_MAX];
	bool direct = special(path);
	int fd, saved;

	if (direct) {
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	} else if (beside(path, tmp, sizeof(tmp)) < 0) {
		errno = ENAMETOOLONG;
		return -1;
	} else {
		fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
		    O_CLOEXEC, 0666);
	}
	if (fd < 0) {
		return -1;
	}
	if (write_all(fd, text, strlen(text)) < 0 ||
	    write_all(fd, "\n", 1) < 0) {
		saved = errno;
		close(fd);
	} else {
		saved = close(fd) < 0 ? errno : 0;
	}
	if (!direct && saved == 0 && rename(tmp, path) < 0) {
		saved = errno;
	}
	if (!direct && saved != 0) {
		unlink(tmp);
	}
	errno = saved;
	return saved == 0 ? 0 : -1;
}

int
report_write(const struct attend *a, int status, struct error *error)
{
	const char *path = a->json;
	struct json json = { 0 };
	int rc;

	add_all(&json, a, status);
	if (json_text(&json) == NULL) {
		errno = ENOMEM;
		rc = failed(error, path);
	} else {
		rc = store(path, json_text(&json)) < 0 ?
		    failed(error, path) : 0;
	}
	json_free(&json);
	return rc;
}
