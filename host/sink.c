/* SPDX-License-Identifier: MIT */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

#define SINK_TRIES 100

int
sink_base(const char *path, char *out)
{
	size_t end = strlen(path), start;

	while (end > 0 && path[end - 1] == '/') {
		end--;
	}
	for (start = end; start > 0 && path[start - 1] != '/'; start--) {
	}
	if (end == start || end - start > NAME_MAX) {
		return -1;
	}
	memcpy(out, path + start, end - start);
	out[end - start] = '\0';
	return strcmp(out, ".") == 0 || strcmp(out, "..") == 0 ? -1 : 0;
}

static int
failed(struct error *error, const char *what)
{
	error_set(error, WIRE_STEP_OPEN, errno, "%.900s", what);
	return -1;
}

/*
 * The path of the file itself into full[PATH_MAX]: inside a directory that
 * was given, and behind a link that the user named.
 */
static int
settle(const char *path, const char *base, char *full)
{
	size_t len = strlen(path);
	struct stat st;
	char *real;
	int n = snprintf(full, PATH_MAX, "%s", path);

	if (n >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if ((len > 0 && path[len - 1] == '/') ||
	    (stat(path, &st) == 0 && S_ISDIR(st.st_mode))) {
		if (base[0] == '\0') {
			errno = EISDIR;
			return -1;
		}
		n = snprintf(full, PATH_MAX, "%s/%s", path, base);
		if (n >= PATH_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
	}
	if (lstat(full, &st) < 0 || !S_ISLNK(st.st_mode)) {
		return 0;
	}
	real = realpath(full, NULL);
	if (real == NULL) {
		return -1;
	}
	n = snprintf(full, PATH_MAX, "%s", real);
	free(real);
	return n >= PATH_MAX ? -1 : 0;
}

static int
open_dir(const char *full)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(full, '/');

	snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 1 :
	    (int)(slash - full + 1), slash == NULL ? "." : full);
	return open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* What is there already; 1: a file or nothing, 0: write into it, -1. */
static int
look(struct sink *sink)
{
	struct stat st;

	if (fstatat(sink->dir, sink->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 1 : -1;
	}
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	if (S_ISLNK(st.st_mode)) {
		errno = ELOOP;		/* it came this very moment */
		return -1;
	}
	if (faccessat(sink->dir, sink->name, W_OK, 0) < 0) {
		return -1;
	}
	if (!S_ISREG(st.st_mode)) {
		return 0;
	}
	sink->existed = true;
	sink->mode = st.st_mode & 0777;
	sink->uid = st.st_uid;
	sink->gid = st.st_gid;
	return 1;
}

static void
temporary_name(struct sink *sink, int try)
{
	snprintf(sink->tmp, sizeof(sink->tmp), ".sandmux-%ld-%llx.tmp",
	    (long)getpid(), (unsigned long long)clock_now() +
	    (unsigned)try);
}

/* A file without a name, or with a temporary one. */
static int
create(struct sink *sink)
{
	int fd = -1, try;

#ifdef O_TMPFILE
	fd = openat(sink->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
#endif
	for (try = 0; fd < 0 && try < SINK_TRIES; try++) {
		temporary_name(sink, try);
		fd = openat(sink->dir, sink->tmp, O_WRONLY | O_CREAT |
		    O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST) {
			break;
		}
	}
	if (fd < 0) {
		sink->tmp[0] = '\0';
	}
	return fd;
}

int
sink_open(struct sink *sink, const char *path, const char *base,
    struct error *error)
{
	char full[PATH_MAX];
	int rc;

	*sink = (struct sink){ .dir = -1, .fd = -1 };
	if (settle(path, base, full) < 0) {
		return failed(error, path);
	}
	if (sink_base(full, sink->name) < 0) {
		errno = EISDIR;
		return failed(error, path);
	}
	sink->dir = open_dir(full);
	if (sink->dir < 0) {
		return failed(error, path);
	}
	rc = look(sink);
	if (rc == 1) {
		sink->fd = create(sink);
	} else if (rc == 0) {
		sink->direct = true;
		sink->fd = openat(sink->dir, sink->name, O_WRONLY |
		    O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	}
	if (sink->fd < 0) {
		return failed(error, full);
	}
	stdfd_open(&sink->file, sink->fd, true);
	return 0;
}

/* Give a nameless file a name: the last one if that is free. */
static int
name_it(struct sink *sink)
{
	char self[40];
	int try;

	if (sink->tmp[0] != '\0') {
		return 0;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", sink->fd);
	if (!sink->existed && linkat(AT_FDCWD, self, sink->dir, sink->name,
	    AT_SYMLINK_FOLLOW) == 0) {
		return 1;
	}
	for (try = 0; try < SINK_TRIES; try++) {
		temporary_name(sink, try);
		if (linkat(AT_FDCWD, self, sink->dir, sink->tmp,
		    AT_SYMLINK_FOLLOW) == 0) {
			return 0;
		}
		if (errno != EEXIST) {
			break;
		}
	}
	sink->tmp[0] = '\0';
	return -1;
}

mode_t
sink_umask(void)
{
	mode_t mask = umask(077);

	umask(mask);
	return mask;
}

/* Only root can give a file back to its owner; no harm if not. */
static void
give_back(const struct sink *sink)
{
	if (fchown(sink->fd, sink->uid, sink->gid) < 0) {
		return;
	}
}

int
sink_commit(struct sink *sink, mode_t mode, struct error *error)
{
	int rc, fd;

	if (sink->direct) {
		return 0;
	}
	if (sink->existed) {
		mode = sink->mode;
		give_back(sink);
	} else {
		mode &= 0777 & ~sink_umask();
	}
	rc = fchmod(sink->fd, mode);
	if (rc == 0) {
		rc = name_it(sink);
	}
	if (rc == 0) {
		rc = renameat(sink->dir, sink->tmp, sink->dir, sink->name);
		if (rc == 0) {
			sink->tmp[0] = '\0';
		}
	}
	if (rc >= 0) {
		fd = sink->fd;
		sink->fd = -1;
		rc = close(fd);
	}
	if (rc < 0) {
		error_set(error, WIRE_STEP_RENAME, errno, "%s", sink->name);
	}
	return rc;
}

void
sink_close(struct sink *sink)
{
	int saved = errno;

	stdfd_close(&sink->file);
	if (sink->fd >= 0) {
		close(sink->fd);
	}
	if (sink->dir >= 0) {
		if (sink->tmp[0] != '\0') {
			unlinkat(sink->dir, sink->tmp, 0);
		}
		close(sink->dir);
	}
	*sink = (struct sink){ .dir = -1, .fd = -1, .file = { .fd = -1 } };
	errno = saved;
}
