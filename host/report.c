/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "words.h"

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

static void
add_error(struct json *json, const struct error *error)
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
add_all(struct json *json, const struct run_end *end, int status)
{
	json_object(json, NULL);
	json_string(json, "outcome", words_outcome(end->complete ?
	    end->outcome : WIRE_FAILED));
	json_i64(json, "status", status);
	if (end->complete && end->outcome == WIRE_EXITED) {
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
	add_error(json, &end->error);
	json_object(json, "bytes");
	json_u64(json, "stdin", end->in);
	json_u64(json, "stdout", end->out);
	json_u64(json, "stderr", end->err);
	json_end_object(json);
	json_double(json, "wall_ms", (double)end->wall_us / 1000);
	json_bool(json, "new_agent", end->new_agent);
	json_bool(json, "detached", end->detached);
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
report_write(const char *path, const struct run_end *end, int status,
    struct error *error)
{
	struct json json = { 0 };
	int rc;

	add_all(&json, end, status);
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
