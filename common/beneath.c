/* SPDX-License-Identifier: MIT */
/* beneath.c - opening and removing below a directory, without links. */
#include "beneath.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "seal.h"
#include "wire.h"

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

#define PASSES 8			/* over a tree that others fill */
#define OPEN_DIR (O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

bool
beneath_name(const void *name, size_t len)
{
	const char *s = name;

	return len > 0 && len <= WIRE_NAME_MAX &&
	    memchr(s, '/', len) == NULL && memchr(s, '\0', len) == NULL &&
	    !(s[0] == '.' && (len == 1 || (len == 2 && s[1] == '.')));
}

void
beneath_temp(char out[BENEATH_TEMP])
{
	uint8_t random[8];
	char hex[2 * sizeof(random) + 1];

	seal_random(random, sizeof(random));
	seal_hex(random, sizeof(random), hex);
	snprintf(out, BENEATH_TEMP, ".part-%s", hex);
}

int
beneath_dir(int dir, const char *name, bool listed)
{
	return openat(dir, name, OPEN_DIR | (listed ? O_RDONLY : O_PATH));
}

/* Our own directory without permissions gets them, by its descriptor. */
static int
open_removed(int dir, const char *name)
{
	int fd = beneath_dir(dir, name, true), path;
	char self[40];

	if (fd != -1 || errno != EACCES) {
		return fd;
	}
	path = beneath_dir(dir, name, false);
	if (path == -1) {
		return -1;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path);
	if (chmod(self, 0700) == 0) {
		fd = openat(path, ".", OPEN_DIR | O_RDONLY);
	}
	close(path);
	return fd;
}

static void
keep_first(int *first, int rc)
{
	if (rc == -1 && *first == 0) {
		*first = errno;
	}
}

static int remove_any(int dir, const char *name, unsigned depth);

/* All that is in the directory of fd, which is taken over. */
static int
empty(int fd, unsigned depth)
{
	DIR *stream = fdopendir(fd);
	struct dirent *e;
	int first = 0;

	if (stream == NULL) {
		close(fd);
		return -1;
	}
	while (errno = 0, (e = readdir(stream)) != NULL) {
		if (beneath_name(e->d_name, strlen(e->d_name))) {
			keep_first(&first, remove_any(fd, e->d_name, depth));
		}
	}
	keep_first(&first, errno == 0 ? 0 : -1);
	closedir(stream);
	errno = first;
	return first == 0 ? 0 : -1;
}

static int
remove_any(int dir, const char *name, unsigned depth)
{
	struct stat st;
	int fd, why;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
		return 0;
	}
	/* EISDIR in Linux, EPERM in POSIX. */
	if (errno != EISDIR && errno != EPERM) {
		return -1;
	}
	if (depth == BENEATH_DEPTH) {
		errno = ELOOP;
		return -1;
	}
	fd = open_removed(dir, name);
	if (fd == -1) {
		return errno == ENOENT ? 0 : -1;
	}
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700) {
		fchmod(fd, 0700);	/* if it fails, unlinkat() will tell */
	}
	why = empty(fd, depth + 1) == -1 ? errno : 0;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		return 0;
	}
	errno = why != 0 ? why : errno;
	return -1;
}

int
beneath_remove(int dir, const char *name)
{
	unsigned pass;

	/* Others may add to it while we go through it: not for ever. */
	for (pass = 0; pass < PASSES; pass++) {
		if (remove_any(dir, name, 0) == 0) {
			return 0;
		}
	}
	return -1;
}
