/* SPDX-License-Identifier: MIT */
/* sink.c - the file that a copy writes here, and its way to its name. */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "clock.h"
#include "system.h"

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

#define SINK_TRIES 100
#define MOVED_AT_ONCE 65536

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

/* mkdir -p for all that is before the last slash. */
static int
make_parents(const char *path)
{
	char part[PATH_MAX];
	size_t i, len = strlen(path);

	if (len >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(part, path, len + 1);
	for (i = 1; i < len; i++) {
		if (part[i] != '/' || part[i - 1] == '/') {
			continue;
		}
		part[i] = '\0';
		if (mkdir(part, 0777) < 0 && errno != EEXIST) {
			return -1;
		}
		part[i] = '/';
	}
	return 0;
}

/* What is there already; 1: a file or nothing, 0: write into it, -1. */
static int
look(struct sink *sink)
{
	if (fstatat(sink->dir, sink->name, &sink->old,
	    AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 1 : -1;
	}
	if (S_ISDIR(sink->old.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	if (S_ISLNK(sink->old.st_mode)) {
		errno = ELOOP;		/* it came this very moment */
		return -1;
	}
	if (faccessat(sink->dir, sink->name, W_OK, 0) < 0) {
		return -1;
	}
	sink->existed = true;
	return S_ISREG(sink->old.st_mode);
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
	fd = openat(sink->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#endif
	for (try = 0; fd < 0 && try < SINK_TRIES; try++) {
		temporary_name(sink, try);
		fd = openat(sink->dir, sink->tmp, O_RDWR | O_CREAT |
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

/* The one that an earlier copy has left; -1 with errno. */
static int
find_partial(struct sink *sink)
{
	filecopy_partial(sink->name, sink->tmp);
	return openat(sink->dir, sink->tmp, O_RDWR | O_NOFOLLOW |
	    O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* It is ours alone, and nobody else is at it; 0, or -1 with *error. */
static int
check_partial(const struct sink *sink, int fd, struct error *error)
{
	struct stat st, now;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid() || (st.st_mode & 077) != 0 ||
	    st.st_nlink != 1) {
		error_set(error, WIRE_STEP_PARTIAL, EPERM, "%s", sink->tmp);
		return -1;
	}
	/* Whoever has just finished with it has renamed it. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 ||
	    fstatat(sink->dir, sink->tmp, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
	    now.st_ino != st.st_ino) {
		error_set(error, WIRE_STEP_PARTIAL, EAGAIN, "%s", sink->tmp);
		return -1;
	}
	return 0;
}

/*
 * That, or a new one: it stays.  -1 with *error, or with errno if there is
 * none and none can be made.
 */
static int
open_partial(struct sink *sink, struct error *error)
{
	int fd = find_partial(sink);

	sink->keep = true;
	error->step = WIRE_STEP_NONE;
	if (fd < 0 && errno != ENOENT) {
		error_set(error, WIRE_STEP_PARTIAL, errno, "%s", sink->tmp);
		return -1;
	}
	if (fd < 0) {
		fd = openat(sink->dir, sink->tmp, O_RDWR | O_CREAT | O_EXCL |
		    O_CLOEXEC, 0600);
	}
	if (fd >= 0 && check_partial(sink, fd, error) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static int
open_direct(struct sink *sink)
{
	bool append = (sink->flags & SINK_APPEND) != 0;

	sink->direct = true;
	sink->stream = append || !S_ISREG(sink->old.st_mode);
	return openat(sink->dir, sink->name, (sink->stream ? O_WRONLY :
	    O_RDWR) | (append ? O_APPEND : 0) | O_NOFOLLOW | O_NOCTTY |
	    O_CLOEXEC);
}

static int
open_place(struct sink *sink, const char *full, struct error *error)
{
	int rc = look(sink);

	if (rc < 0) {
		return failed(error, full);
	}
	if (rc == 0) {
		sink->fd = open_direct(sink);
		return sink->fd < 0 ? failed(error, full) : 0;
	}
	if ((sink->flags & SINK_RESUME) != 0) {
		sink->fd = open_partial(sink, error);
		if (sink->fd >= 0) {
			return 0;
		}
		sink->tmp[0] = '\0';
		sink->keep = false;
		if (error->step != WIRE_STEP_NONE) {
			return -1;
		}
	} else {
		sink->fd = create(sink);
	}
	if (sink->fd < 0 && sink->existed && (errno == EACCES ||
	    errno == EPERM || errno == EROFS)) {
		sink->fd = open_direct(sink);
	}
	return sink->fd < 0 ? failed(error, full) : 0;
}

int
sink_open(struct sink *sink, const char *path, const char *base,
    unsigned flags, struct error *error)
{
	char full[PATH_MAX];

	*sink = (struct sink){ .flags = flags, .dir = -1, .fd = -1,
	    .file = { .fd = -1 } };
	if (((flags & SINK_PARENTS) != 0 && make_parents(path) < 0) ||
	    settle(path, base, full) < 0) {
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
	if (open_place(sink, full, error) < 0) {
		return -1;
	}
	if (sink->stream) {
		stdfd_open(&sink->file, sink->fd, true);
	} else {
		sink->file = (struct stdfd){ .fd = sink->fd };
	}
	return 0;
}

int
sink_discard(const char *path, const char *base, struct error *error)
{
	struct sink sink = { .dir = -1, .fd = -1, .file = { .fd = -1 },
	    .keep = true };
	char full[PATH_MAX];
	int rc = -1;

	if (settle(path, base, full) == 0) {
		errno = EISDIR;
		if (sink_base(full, sink.name) == 0 &&
		    (sink.dir = open_dir(full)) >= 0) {
			sink.fd = find_partial(&sink);
		}
	}
	if (sink.fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		rc = 1;
	} else if (sink.fd >= 0 && check_partial(&sink, sink.fd, error) < 0) {
		rc = -1;
	} else if (sink.fd >= 0 && unlinkat(sink.dir, sink.tmp, 0) == 0) {
		rc = 0;
	} else {
		error_set(error, WIRE_STEP_PARTIAL, errno, "%.900s", path);
	}
	sink_close(&sink);
	return rc;
}

ssize_t
sink_put(struct sink *sink, struct filecopy *copy, const void *data,
    size_t len)
{
	size_t n = len < copy->left ? len : (size_t)copy->left;
	bool hole = false;
	ssize_t done;

	if (sink->stream) {
		done = stdfd_write(&sink->file, data, n);
	} else if (n = filecopy_run(copy, data, n, &hole), hole) {
		done = (ssize_t)n;
	} else {
		do {
			done = pwrite(sink->fd, data, n, (off_t)copy->at);
		} while (done < 0 && errno == EINTR);
	}
	if (done > 0) {
		filecopy_moved(copy, (uint64_t)done);
	}
	return done;
}

int
sink_end(struct sink *sink, const struct filecopy *copy)
{
	return sink->stream ? 0 : ftruncate(sink->fd, (off_t)copy->at);
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

/* ---- the end ----------------------------------------------------------- */

/* Mode, owner and time of what is ours to change. */
static int
dress_up(const struct sink *sink, const struct sink_dress *dress)
{
	int64_t ns = (int64_t)dress->mtime;
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
	    { .tv_sec = (time_t)(ns / 1000000000),
	    .tv_nsec = (long)(ns % 1000000000) } };
	mode_t mode = dress->mode & 0777 & ~sink_umask();

	if (dress->exact) {
		mode = dress->mode & 07777;
	} else if (sink->existed) {
		/* What comes out of a sandbox is not setuid unasked. */
		mode = sink->old.st_mode & 0777;
	}
	if (dress->archive && fchown(sink->fd, dress->uid, dress->gid) < 0) {
		mode &= 0777;		/* no setuid to someone else */
	}
	/* In place it has its own mode, and may be someone else's. */
	if ((dress->exact || !sink->direct) && fchmod(sink->fd, mode) < 0) {
		return -1;
	}
	if (times[1].tv_nsec < 0) {
		times[1].tv_sec--;
		times[1].tv_nsec += 1000000000;
	}
	return dress->archive ? futimens(sink->fd, times) : 0;
}

/* Whether a new file in its place would be the same but for its content. */
static bool
replaceable(const struct sink *sink)
{
	if (!sink->existed) {
		return true;
	}
	return sink->old.st_nlink <= 1 && (sink->flags & SINK_APPEND) == 0 &&
	    ((sink->old.st_uid == geteuid() &&
	    sink->old.st_gid == getegid()) ||
	    fchown(sink->fd, sink->old.st_uid, sink->old.st_gid) == 0);
}

/*
 * Room for what is to come, before the old content goes: it survives a full
 * disk.  What cannot tell is tried.
 */
static int
reserve(int fd, const struct stat *whole, off_t from)
{
	off_t room = (off_t)whole->st_blocks * 512;

	room = room < whole->st_size ? room : whole->st_size;
	return room > 0 && system_reserve(fd, from, room) < 0 &&
	    (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) ? -1 : 0;
}

/* All of sink's bytes to fd: at its end, or where they belong. */
static int
move_all(struct sink *sink, int fd)
{
	bool append = (sink->flags & SINK_APPEND) != 0;
	struct sink to = { .fd = fd, .stream = append,
	    .file = { .fd = fd, .way = STDFD_DIRECT } };
	static struct filecopy copy;
	static char buf[MOVED_AT_ONCE];
	ssize_t n, done, part;

	filecopy_scan(&copy, sink->fd, 0, append);
	while ((n = pread(sink->fd, buf, copy.left < sizeof(buf) ?
	    (size_t)copy.left : sizeof(buf), (off_t)copy.at)) != 0) {
		for (done = 0; done < n; done += part) {
			part = sink_put(&to, &copy, buf + done,
			    (size_t)(n - done));
			if (part < 0) {
				return -1;
			}
		}
		if (n < 0 && errno != EINTR) {
			return -1;
		}
	}
	return sink_end(&to, &copy);
}

/* The complete bytes into the file that is there. */
static int
overwrite(struct sink *sink)
{
	bool append = (sink->flags & SINK_APPEND) != 0;
	int fd = openat(sink->dir, sink->name, O_WRONLY | (append ?
	    O_APPEND : 0) | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	struct stat whole;
	int saved;

	if (fd < 0) {
		return -1;
	}
	if (fstat(sink->fd, &whole) == 0 && reserve(fd, &whole, append ?
	    sink->old.st_size : 0) == 0 && (append ||
	    ftruncate(fd, 0) == 0)) {
		if (move_all(sink, fd) == 0) {
			close(sink->fd);
			sink->fd = fd;
			sink->direct = true;
			return 0;
		}
		saved = errno;
		if (append && ftruncate(fd, sink->old.st_size) < 0) {
			saved = errno;	/* nothing better to say */
		}
		errno = saved;
	}
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* A new name for the file that is complete. */
static int
rename_it(struct sink *sink)
{
	int rc = name_it(sink);

	if (rc == 0) {
		rc = renameat(sink->dir, sink->tmp, sink->dir, sink->name);
		if (rc == 0) {
			sink->tmp[0] = '\0';
		}
	}
	return rc < 0 ? -1 : 0;
}

static int
publish(struct sink *sink, const struct sink_dress *dress)
{
	if (sink->direct) {
		return sink->stream ? 0 : dress_up(sink, dress);
	}
	if (replaceable(sink)) {
		if (dress_up(sink, dress) < 0) {
			return -1;
		}
		if (rename_it(sink) == 0) {
			sink->atomic = true;
			return 0;
		}
		/* A mount point, or someone else's in a sticky directory. */
		if (!sink->existed || (errno != EBUSY && errno != EPERM &&
		    errno != EACCES)) {
			return -1;
		}
	}
	if (overwrite(sink) < 0) {
		return -1;
	}
	sink->keep = false;		/* it has served */
	return dress_up(sink, dress);
}

int
sink_commit(struct sink *sink, const struct sink_dress *dress,
    struct error *error)
{
	int rc = publish(sink, dress), fd = sink->fd;

	if (rc == 0 && !sink->stream) {
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

	if (sink->stream) {
		stdfd_close(&sink->file);
	}
	if (sink->fd >= 0) {
		close(sink->fd);
	}
	if (sink->dir >= 0) {
		if (sink->tmp[0] != '\0' && !sink->keep) {
			unlinkat(sink->dir, sink->tmp, 0);
		}
		close(sink->dir);
	}
	*sink = (struct sink){ .dir = -1, .fd = -1, .file = { .fd = -1 } };
	errno = saved;
}
