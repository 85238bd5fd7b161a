/* SPDX-License-Identifier: MIT */
/* paths.c - the directories of ours, made and checked. */
#include "paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

void
paths_owner(unsigned uid, char *buf, size_t cap)
{
	const struct passwd *pw = getpwuid((uid_t)uid);

	if (pw == NULL) {
		snprintf(buf, cap, "uid %u", uid);
	} else {
		snprintf(buf, cap, "%s (uid %u)", pw->pw_name, uid);
	}
}

int
paths_join(char *buf, size_t cap, const char *dir, const char *name,
    struct error *error)
{
	int n = snprintf(buf, cap, "%s/%s", dir, name);

	if (n < 0 || (size_t)n >= cap) {
		error_set(error, WIRE_STEP_START, ENAMETOOLONG, "%.200s: the "
		    "path is too long; set SANDMUX_DIR to a shorter one",
		    dir);
		return -1;
	}
	return 0;
}

/* The directory as it is, opened without following a link, must be ours. */
static int
check(const char *dir, struct error *error)
{
	struct stat st;
	char owner[64], mine[64];
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s: cannot use it "
		    "as the runtime directory; set SANDMUX_DIR to another",
		    dir);
		if (fd >= 0) {
			close(fd);
		}
		return -1;
	}
	close(fd);
	if (st.st_uid != geteuid()) {
		/* Only now: a look-up of names may ask the network. */
		paths_owner((unsigned)geteuid(), mine, sizeof(mine));
		paths_owner((unsigned)st.st_uid, owner, sizeof(owner));
		error_set(error, WIRE_STEP_START, 0, "%s belongs to %s, not "
		    "to %s; set SANDMUX_DIR to a directory of your own", dir,
		    owner, mine);
		return -1;
	}
	if ((st.st_mode & 077) != 0) {
		error_set(error, WIRE_STEP_START, 0, "%s: its mode %04o lets "
		    "others in; chmod 700 it or set SANDMUX_DIR", dir,
		    (unsigned)(st.st_mode & 07777));
		return -1;
	}
	return 0;
}

/* A socket's path must fit into its address, with a pid while it is made. */
static int
fits(const char *dir, struct error *error)
{
	struct sockaddr_un un;
	char path[sizeof(un.sun_path)];

	return paths_join(path, sizeof(path), dir, PATHS_SOCKET ".4194304",
	    error);
}

int
paths_private(const char *dir, char *buf, size_t cap, struct error *error)
{
	char here[PATH_MAX];
	size_t len;
	int n;

	if (dir[0] == '/') {
		n = snprintf(buf, cap, "%s", dir);
	} else if (getcwd(here, sizeof(here)) != NULL) {
		n = snprintf(buf, cap, "%s/%s", here, dir);
	} else {
		error_set(error, WIRE_STEP_START, errno, "the current "
		    "directory has no name");
		return -1;
	}
	if (n < 0 || (size_t)n >= cap) {
		error_set(error, WIRE_STEP_START, ENAMETOOLONG, "%.200s", dir);
		return -1;
	}
	/* A slash at the end would follow a link. */
	for (len = strlen(buf); len > 1 && buf[len - 1] == '/'; len--) {
		buf[len - 1] = '\0';
	}
	if (fits(buf, error) < 0) {
		return -1;
	}
	if (mkdir(buf, 0700) < 0 && errno != EEXIST) {
		error_set(error, WIRE_STEP_START, errno, "%s: cannot make "
		    "the runtime directory; set SANDMUX_DIR to another", buf);
		return -1;
	}
	return check(buf, error);
}

/* $XDG_RUNTIME_DIR counts only if it is ours: sudo may have left another's. */
static const char *
xdg_runtime(void)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	if (dir == NULL || dir[0] != '/' || stat(dir, &st) < 0 ||
	    !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
		return NULL;
	}
	return dir;
}

int
paths_runtime(char *buf, size_t cap, struct error *error)
{
	const char *dir = getenv("SANDMUX_DIR");
	char made[PATHS_MAX];

	if (dir != NULL && dir[0] != '\0') {
		return paths_private(dir, buf, cap, error);
	}
	dir = xdg_runtime();
	if (dir != NULL) {
		if (paths_join(made, sizeof(made), dir, "sandmux",
		    error) < 0) {
			return -1;
		}
	} else {
		snprintf(made, sizeof(made), "/tmp/sandmux-%u",
		    (unsigned)geteuid());
	}
	return paths_private(made, buf, cap, error);
}

/* mkdir -p: every missing part with mode 0700. */
static int
make_all(char *path)
{
	char *at;

	for (at = path + 1; *at != '\0'; at++) {
		if (*at != '/') {
			continue;
		}
		*at = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST) {
			*at = '/';
			return -1;
		}
		*at = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : 0;
}

int
paths_state(char *buf, size_t cap, struct error *error)
{
	return paths_state_of(getenv("XDG_STATE_HOME"), getenv("HOME"), buf,
	    cap, error);
}

int
paths_state_of(const char *dir, const char *home, char *buf, size_t cap,
    struct error *error)
{
	const struct passwd *pw;
	const char *tail = "sandmux";

	if (dir == NULL || dir[0] != '/') {
		pw = home != NULL && home[0] == '/' ? NULL :
		    getpwuid(geteuid());
		dir = pw != NULL ? pw->pw_dir : home;
		tail = ".local/state/sandmux";
	}
	if (dir == NULL || dir[0] != '/') {
		error_set(error, WIRE_STEP_START, 0, "no home directory to "
		    "keep state in; set HOME or XDG_STATE_HOME");
		return -1;
	}
	if (paths_join(buf, cap, dir, tail, error) < 0) {
		return -1;
	}
	if (make_all(buf) < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s: cannot make "
		    "the state directory; set XDG_STATE_HOME", buf);
		return -1;
	}
	return 0;
}
