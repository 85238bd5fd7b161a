/* SPDX-License-Identifier: MIT */
/* listener.c - a runtime directory's lock and socket. */
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "system.h"

#define BACKLOG 1024
#define TRY_AGAIN_MS 20

static int
address(struct sockaddr_un *un, const char *path)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(un->sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(un->sun_path, path);
	return 0;
}

static int
new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd >= 0) {
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		system_nonblock(fd, 1);
	}
	return fd;
}

/* Whether somebody listens there; nothing is said, the end follows. */
static bool
answers(const char *path)
{
	struct sockaddr_un un;
	int fd = new_socket(), rc = -1;

	if (fd >= 0 && address(&un, path) == 0) {
		rc = connect(fd, (const struct sockaddr *)&un, sizeof(un));
	}
	if (fd >= 0) {
		close(fd);
	}
	return rc == 0;
}

/*
 * The lock is a file's, not a name's: one that was removed meanwhile, or
 * replaced, is no lock.
 */
static bool
same_file(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* 1: ours; 0: another's now; -1 with errno. */
static int
take_lock(struct listener *l, const char *path)
{
	int rc;

	l->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
	    O_NONBLOCK, 0600);
	if (l->lock < 0) {
		return -1;
	}
	rc = flock(l->lock, LOCK_EX | LOCK_NB);
	if (rc == 0 && same_file(l->lock, path)) {
		return 1;
	}
	if (rc < 0 && errno != EWOULDBLOCK) {
		return -1;
	}
	close(l->lock);
	l->lock = -1;
	return 0;
}

/* Bound under a name of its own and renamed: there is always one socket. */
static int
bind_socket(struct listener *l)
{
	char temp[PATHS_MAX + 16];
	struct sockaddr_un un;
	struct stat st;

	/* A stale socket is replaced, somebody's file is not. */
	if (lstat(l->path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
		errno = EEXIST;
		return -1;
	}
	snprintf(temp, sizeof(temp), "%s.%ld", l->path, (long)getpid());
	l->fd = new_socket();
	if (l->fd < 0 || address(&un, temp) < 0) {
		return -1;
	}
	unlink(temp);
	if (bind(l->fd, (const struct sockaddr *)&un, sizeof(un)) < 0) {
		return -1;
	}
	if (chmod(temp, 0600) < 0 || listen(l->fd, BACKLOG) < 0 ||
	    lstat(temp, &st) < 0 || rename(temp, l->path) < 0) {
		unlink(temp);
		return -1;
	}
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return 0;
}

static int
give_up(struct listener *l, struct error *error, const char *what)
{
	error_set(error, WIRE_STEP_START, errno, "%s", what);
	listener_close(l);
	return -1;
}

int
listener_open(struct listener *l, const char *directory, struct error *error)
{
	struct timespec tick = { .tv_nsec = TRY_AGAIN_MS * 1000000L };
	uint64_t until = clock_now() + LISTENER_WAIT_MS * (uint64_t)CLOCK_MS;
	char lock[PATHS_MAX];
	int rc;

	l->lock = l->fd = -1;
	l->ino = 0;
	if (paths_join(l->path, sizeof(l->path), directory, PATHS_SOCKET,
	    error) < 0 || paths_join(lock, sizeof(lock), directory,
	    PATHS_LOCK, error) < 0) {
		return -1;
	}
	while ((rc = take_lock(l, lock)) == 0) {
		if (answers(l->path)) {
			return 0;
		}
		if (clock_now() >= until) {
			errno = EBUSY;
			return give_up(l, error, lock);
		}
		nanosleep(&tick, NULL);
	}
	if (rc < 0) {
		return give_up(l, error, lock);
	}
	return bind_socket(l) < 0 ? give_up(l, error, l->path) : 1;
}

bool
listener_fits(const char *directory, int lock, int fd)
{
	struct sockaddr_un un = { 0 };
	socklen_t size = sizeof(un), len = sizeof(int);
	char path[PATHS_MAX];
	struct error ignored;
	int listens = 0;

	return lock != -1 && fd != -1 && paths_join(path, sizeof(path),
	    directory, PATHS_LOCK, &ignored) == 0 && same_file(lock, path) &&
	    flock(lock, LOCK_EX | LOCK_NB) == 0 &&
	    getsockname(fd, (struct sockaddr *)&un, &size) == 0 &&
	    un.sun_family == AF_UNIX && getsockopt(fd, SOL_SOCKET,
	    SO_ACCEPTCONN, &listens, &len) == 0 && listens != 0;
}

int
listener_adopt(struct listener *l, const char *directory, int lock, int fd,
    struct error *error)
{
	struct stat st;

	l->lock = lock;
	l->fd = fd;
	l->ino = 0;
	if (paths_join(l->path, sizeof(l->path), directory, PATHS_SOCKET,
	    error) < 0) {
		listener_close(l);
		return -1;
	}
	system_nonblock(fd, 1);
	/* Who listens is who did it last, for those that ask the kernel. */
	if (listen(fd, BACKLOG) < 0 || lstat(l->path, &st) < 0) {
		return give_up(l, error, l->path);
	}
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return 0;
}

bool
listener_there(const struct listener *l)
{
	struct stat st;

	return lstat(l->path, &st) == 0 && st.st_dev == l->dev &&
	    st.st_ino == l->ino;
}

void
listener_close(struct listener *l)
{
	int saved = errno;

	if (l->fd >= 0) {
		close(l->fd);
		l->fd = -1;
	}
	if (l->lock >= 0) {
		if (l->ino != 0 && listener_there(l)) {
			unlink(l->path);
		}
		close(l->lock);
		l->lock = -1;
	}
	errno = saved;
}
