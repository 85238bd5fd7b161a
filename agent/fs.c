/* SPDX-License-Identifier: MIT */
/* fs.c - worker processes for what can be done to files by their names. */
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "filecopy.h"
#include "user.h"
#include "worker.h"

struct order {
	struct file_who who;
	char second[WIRE_PATH_MAX];
	uint8_t op;
	uint32_t flags, mode;
};

/* ---- stat and list ------------------------------------------------------ */

/* Fill info for name in dir; link gets what a symbolic one says. */
static int
look(int dir, const char *name, int how, struct wire_file_info *info,
    char link[WIRE_PATH_MAX])
{
	struct stat st;
	ssize_t n;

	if (fstatat(dir, name, &st, how) == -1) {
		return -1;
	}
	*info = (struct wire_file_info){ 0 };
	file_info(info, &st);
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, link, WIRE_PATH_MAX);
		if (n == -1) {
			return -1;
		}
		info->link = (struct wire_bytes){ (uint8_t *)link,
		    (uint32_t)n };
	}
	return 0;
}

static void
list(const struct order *o, const struct worker_child *c)
{
	static uint8_t buf[WIRE_INFO_MAX];
	static char link[WIRE_PATH_MAX];
	struct wire msg = { .type = WIRE_FILE_INFO };
	struct dirent *e;
	DIR *d;
	int fd = open(o->who.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK |
	    O_CLOEXEC);

	d = fd == -1 ? NULL : fdopendir(fd);
	if (d == NULL) {
		worker_fail(c->note, WIRE_STEP_LIST, errno, o->who.path);
	}
	while (errno = 0, (e = readdir(d)) != NULL) {
		/* What has gone meanwhile is not there. */
		if (strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0 || look(fd, e->d_name,
		    AT_SYMLINK_NOFOLLOW, &msg.u.file_info, link) == -1) {
			continue;
		}
		msg.u.file_info.name = wire_string(e->d_name);
		if (file_write(c->out, buf, filecopy_head_put(&msg, buf,
		    sizeof(buf))) == -1) {
			_exit(1);
		}
	}
	if (errno != 0) {
		worker_fail(c->note, WIRE_STEP_LIST, errno, o->who.path);
	}
}

/* ---- remove -------------------------------------------------------------- */

/* What failed: the path, as far as it fits into a note. */
static char failed[WIRE_PATH_MAX];

/* Put name and a slash before what failed. */
static int
fail_in(const char *name, const char *rest)
{
	char path[sizeof(failed)];

	snprintf(path, sizeof(path), "%s%s%s", name, rest[0] == '\0' ? "" :
	    "/", rest);
	memcpy(failed, path, sizeof(failed));
	return -1;
}

/*
 * Never through a link.  A directory is open for each level, so one that is
 * deeper than our descriptors reach fails with EMFILE.
 */
static int
remove_tree(int dir, const char *name)
{
	struct dirent *e;
	DIR *d;
	int fd, saved;

	if (unlinkat(dir, name, 0) == 0) {
		return 0;
	}
	saved = errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_NONBLOCK | O_CLOEXEC);
	if (fd == -1) {
		errno = errno == ENOTDIR || errno == ELOOP ? saved : errno;
		return fail_in(name, "");
	}
	d = fdopendir(fd);
	if (d == NULL) {
		return fail_in(name, "");
	}
	while (errno = 0, (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0 &&
		    remove_tree(fd, e->d_name) == -1) {
			break;
		}
	}
	saved = errno;
	closedir(d);
	errno = saved;
	if (e != NULL) {
		return fail_in(name, failed);
	}
	if (saved != 0 || unlinkat(dir, name, AT_REMOVEDIR) == -1) {
		return fail_in(name, "");
	}
	return 0;
}

static int
take_away(const struct order *o)
{
	const char *path = o->who.path;

	if ((o->flags & WIRE_FS_TREE) != 0) {
		return remove_tree(AT_FDCWD, path);
	}
	if (unlink(path) == 0) {
		return 0;
	}
	return errno != EISDIR && errno != EPERM ? -1 : rmdir(path);
}

/* ---- the others ---------------------------------------------------------- */

static int
make_directory(struct order *o)
{
	char *path = o->who.path, *at;
	bool parents = (o->flags & WIRE_FS_PARENTS) != 0;
	struct stat st;

	for (at = path + 1; parents && *at != '\0'; at++) {
		if (*at == '/' && at[-1] != '/' && at[1] != '\0') {
			*at = '\0';
			if (mkdir(path, 0777) == -1 && errno != EEXIST) {
				return -1;
			}
			*at = '/';
		}
	}
	if (mkdir(path, 0777) == -1) {
		if (errno == EEXIST && parents && stat(path, &st) == 0 &&
		    S_ISDIR(st.st_mode)) {
			return 0;
		}
		return -1;
	}
	return (o->flags & WIRE_FS_MODE) != 0 ?
	    chmod(path, (mode_t)o->mode & 07777) : 0;
}

/* Look up as the agent's files are, as exec does: NAME|UID[:GROUP|GID]. */
static int
change_owner(const struct order *o, int note)
{
	static struct user user;
	const char *spec = o->second;
	struct error error;
	char self[WIRE_USER_MAX + 3];
	uid_t uid;

	if (spec[0] == ':') {
		snprintf(self, sizeof(self), "0%.*s", WIRE_USER_MAX, spec);
		spec = self;
	}
	if (user_find(&user, spec, NULL, &error) == -1) {
		worker_fail(note, error.step, error.number, error.text);
	}
	uid = spec == self ? (uid_t)-1 : user.uid;
	return fchownat(AT_FDCWD, o->who.path, uid, strchr(spec, ':') ==
	    NULL ? (gid_t)-1 : user.gid,
	    (o->flags & WIRE_FS_FOLLOW) != 0 ? 0 : AT_SYMLINK_NOFOLLOW);
}

static void
stat_it(const struct order *o, int note)
{
	static char link[WIRE_PATH_MAX];
	struct wire_file_info info;

	if (look(AT_FDCWD, o->who.path, (o->flags & WIRE_FS_FOLLOW) != 0 ?
	    0 : AT_SYMLINK_NOFOLLOW, &info, link) == -1) {
		worker_fail(note, WIRE_STEP_STAT, errno, o->who.path);
	}
	file_done(note, &info);
}

static void
fs_child(const struct worker_child *c, void *arg)
{
	struct order *o = arg;
	const char *path = o->who.path;
	int rc = 0;

	strcpy(failed, path);
	file_become(&o->who, c->note);
	switch (o->op) {
	case WIRE_FS_STAT:
		stat_it(o, c->note);
		break;
	case WIRE_FS_LIST:
		list(o, c);
		break;
	case WIRE_FS_MKDIR:
		rc = make_directory(o);
		break;
	case WIRE_FS_REMOVE:
		rc = take_away(o);
		break;
	case WIRE_FS_RENAME:
		rc = rename(path, o->second);
		break;
	case WIRE_FS_CHMOD:
		rc = chmod(path, (mode_t)o->mode & 07777);
		break;
	case WIRE_FS_CHOWN:
		rc = change_owner(o, c->note);
		break;
	default:
		rc = symlink(o->second, path);
	}
	if (rc == -1) {
		worker_fail(c->note, (enum wire_step)(WIRE_STEP_STAT - 1 +
		    o->op), errno, failed);
	}
	worker_done(c->note, NULL, 0);
}

void
file_fs(struct session_request *req, const struct wire_fs *msg,
    const struct agent_start *start)
{
	struct order *o = calloc(1, sizeof(*o));

	if (o == NULL) {
		file_refuse(req, "no memory");
	} else if (msg->op < WIRE_FS_STAT || msg->op > WIRE_FS_SYMLINK) {
		file_refuse(req, "this agent has no such operation");
	} else if (wire_copy(o->second, sizeof(o->second),
	    msg->second) == -1) {
		file_refuse(req, "the second path is too long or has a NUL "
		    "byte");
	} else if (file_take_who(&o->who, req, msg->user, msg->path,
	    start) == 0) {
		o->op = msg->op;
		o->flags = msg->flags;
		o->mode = msg->mode;
		worker_start(req, msg->op == WIRE_FS_LIST ? WORKER_OUT : 0,
		    fs_child, o);
	}
	free(o);
}
