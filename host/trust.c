/* SPDX-License-Identifier: MIT */
/* trust.c - the files that say which sandboxes were used. */
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"
#include "seal.h"

#define FRESH "fresh\n"
#define USED "used\n"

static char directory[PATHS_MAX];

int
trust_open(struct error *error)
{
	char state[PATHS_MAX];

	directory[0] = '\0';
	if (paths_state(state, sizeof(state), error) < 0 ||
	    paths_join(directory, sizeof(directory), state, "trust",
	    error) < 0) {
		directory[0] = '\0';
		return -1;
	}
	if (mkdir(directory, 0700) < 0 && errno != EEXIST) {
		error_set(error, WIRE_STEP_START, errno, "%s", directory);
		directory[0] = '\0';
		return -1;
	}
	return 0;
}

/* An id may hold anything: the name is a hash, the content says whose. */
static int
record(const char *scheme, const char *id, char *path, size_t cap)
{
	uint8_t hash[SEAL_KEY];
	char hex[2 * SEAL_KEY + 1];
	int n;

	if (directory[0] == '\0') {
		errno = ENOENT;
		return -1;
	}
	seal_hash(id, strlen(id), hash);
	seal_hex(hash, sizeof(hash), hex);
	n = snprintf(path, cap, "%s/%s-%.32s", directory, scheme, hex);
	if (n < 0 || (size_t)n >= cap) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

bool
trust_is_not_root(const char *user, size_t len)
{
	size_t i;
	uint64_t id = 0;

	for (i = 0; i < len && user[i] != ':'; i++) {
		if (user[i] < '0' || user[i] > '9' || id > INT32_MAX) {
			return false;
		}
		id = id * 10 + (uint64_t)(user[i] - '0');
	}
	return id > 0 && id <= INT32_MAX;
}

bool
trust_is_fresh(const char *scheme, const char *id)
{
	char path[PATHS_MAX + 96], text[sizeof(FRESH) - 1];
	ssize_t n = 0;
	int fd;

	if (record(scheme, id, path, sizeof(path)) < 0) {
		return false;
	}
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text));
		close(fd);
	}
	return n == (ssize_t)sizeof(text) &&
	    memcmp(text, FRESH, sizeof(text)) == 0;
}

/* A new file under its name, with its directory on disk too. */
static int
put(const char *scheme, const char *id, const char *what, bool sync)
{
	char path[PATHS_MAX + 96], temp[PATHS_MAX + 128], text[512];
	int fd, dir, n, rc = -1;

	if (record(scheme, id, path, sizeof(path)) < 0) {
		return -1;
	}
	snprintf(temp, sizeof(temp), "%s.%ld", path, (long)getpid());
	unlink(temp);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -1;
	}
	n = snprintf(text, sizeof(text), "%s%s:%.256s\n", what, scheme, id);
	if (write(fd, text, (size_t)n) == n && (!sync || fsync(fd) == 0) &&
	    rename(temp, path) == 0) {
		rc = 0;
	}
	close(fd);
	dir = sync ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir >= 0) {
		fsync(dir);
		close(dir);
	}
	return rc;
}

int
trust_use(const char *scheme, const char *id)
{
	char path[PATHS_MAX + 96];
	bool fresh = trust_is_fresh(scheme, id);

	if (!fresh && record(scheme, id, path, sizeof(path)) == 0 &&
	    access(path, F_OK) == 0) {
		return 0;	/* it says so already */
	}
	/* Without a record it counts as used: losing that one does no harm. */
	return put(scheme, id, USED, fresh) < 0 && fresh ? -1 : 0;
}

void
trust_forget(const char *scheme, const char *id)
{
	char path[PATHS_MAX + 96];

	if (record(scheme, id, path, sizeof(path)) == 0) {
		unlink(path);
	}
}

int
trust_make(const char *scheme, const char *id)
{
	return put(scheme, id, FRESH, true);
}
