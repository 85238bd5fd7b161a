/* SPDX-License-Identifier: MIT */
/* log.c - lines with a time in the controller's log file. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "quote.h"

#define LINE_MAX_BYTES 4096

static const char *const names[] = { "error", "warning", "note", "debug" };

static struct {
	int fd;
	enum log_level level;
	off_t size;
	char path[PATH_MAX];
} state = { .fd = -1 };

/* O_NOFOLLOW and O_NONBLOCK: neither a link nor a fifo there may catch us. */
static int
start(void)
{
	struct stat st;
	int fd = open(state.path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC |
	    O_NOFOLLOW | O_NONBLOCK, 0600);

	if (fd < 0) {
		return -1;
	}
	if (fstat(fd, &st) < 0) {
		close(fd);
		return -1;
	}
	state.size = S_ISREG(st.st_mode) ? st.st_size : 0;
	state.fd = fd;
	return 0;
}

int
log_open(const char *path, enum log_level level)
{
	if (strlen(path) + sizeof(".old") > sizeof(state.path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	log_close();
	strcpy(state.path, path);
	state.level = level;
	return start();
}

void
log_close(void)
{
	if (state.fd >= 0) {
		close(state.fd);
		state.fd = -1;
	}
}

static void
rotate(void)
{
	char old[PATH_MAX + 4];

	snprintf(old, sizeof(old), "%s.old", state.path);
	log_close();
	rename(state.path, old);
	start();
}

void
log_write(enum log_level level, const char *format, ...)
{
	char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
	int saved = errno;
	struct timespec now;
	struct tm tm;
	size_t len;
	ssize_t put;
	va_list ap;

	if (state.fd < 0 || level > state.level) {
		return;
	}
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	len = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(line + len, sizeof(line) - len,
	    ".%03ldZ %ld %s ", now.tv_nsec / 1000000, (long)getpid(),
	    names[level]);
	len += quote_text(line + len, sizeof(line) - len - 1, text);
	line[len++] = '\n';
	put = write(state.fd, line, len);
	if (put > 0) {
		state.size += put;
	}
	if (state.size > (off_t)LOG_SIZE_MAX) {
		rotate();
	}
	errno = saved;
}

const char *
log_name(enum log_level level)
{
	return names[level];
}

int
log_parse(const char *name, enum log_level *level)
{
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0) {
			*level = (enum log_level)i;
			return 0;
		}
	}
	return -1;
}
