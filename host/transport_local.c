/* SPDX-License-Identifier: MIT */
/*
 * transport_local.c - the host itself: the embedded agent as our own child.
 *
 * The agent is put into the runtime directory once per content, so its jobs
 * run in HOME with the environment that the client sent in HELLO.  A sandbox
 * is a private directory and an agent of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "embed.h"
#include "transport.h"

#define PREFIX "agent-"

/* Whether the file there is ours, as we made it, and our agent. */
static bool
genuine(const char *path, const struct embed *embed)
{
	uint8_t hash[SEAL_KEY];
	char hex[2 * SEAL_KEY + 1] = "";
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0) {
		return false;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_uid == geteuid() && (st.st_mode & 07777) == 0500 &&
	    (size_t)st.st_size == embed->len && seal_hash_fd(fd, hash) == 0) {
		seal_hex(hash, sizeof(hash), hex);
	}
	close(fd);
	return strcmp(hex, embed->hash) == 0;
}

static int
write_all(int fd, const uint8_t *data, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = write(fd, data, len);
		if (n < 0) {
			return -1;
		}
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int
extract(const char *path, const struct embed *embed, struct error *error)
{
	char temp[TRANSPORT_PATH_MAX + 16];
	int fd, rc;

	snprintf(temp, sizeof(temp), "%s.%ld", path, (long)getpid());
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    0500);
	if (fd < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s", temp);
		return -1;
	}
	rc = write_all(fd, embed->data, embed->len);
	if (fchmod(fd, 0500) < 0 || close(fd) < 0 || rc < 0 ||
	    rename(temp, path) < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s: cannot put the "
		    "agent there", path);
		unlink(temp);
		return -1;
	}
	return 0;
}

/* Agents of other versions of this program: nobody starts them any more. */
static void
clean(const char *dir, const char *keep)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	if (d == NULL) {
		return;
	}
	while ((entry = readdir(d)) != NULL) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
		    strlen(entry->d_name) == strlen(keep) &&
		    strcmp(entry->d_name, keep) != 0) {
			unlinkat(dirfd(d), entry->d_name, 0);
		}
	}
	closedir(d);
}

static int
resolve(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct transport_facts *facts = &place->facts;
	struct embed embed;
	int n;

	(void)deadline;
	if (embed_find("", &embed) < 0) {
		error_set(error, WIRE_STEP_START, 0, "this program has no "
		    "agent for its own architecture");
		return -1;
	}
	n = snprintf(facts->agent, sizeof(facts->agent), "%s/" PREFIX
	    "%.16s", place->runtime, embed.hash);
	if (n < 0 || (size_t)n >= sizeof(facts->agent)) {
		error_set(error, WIRE_STEP_START, ENAMETOOLONG, "%s",
		    place->runtime);
		return -1;
	}
	strcpy(facts->hash, embed.hash);
	snprintf(facts->id, sizeof(facts->id), "local%s%s",
	    place->sandbox != NULL ? "/" : "",
	    place->sandbox != NULL ? place->sandbox->name : "");
	facts->flags |= TRANSPORT_KEEP;
	if (genuine(facts->agent, &embed)) {
		return 0;
	}
	clean(place->runtime, strrchr(facts->agent, '/') + 1);
	return extract(facts->agent, &embed, error);
}

static void
link_words(const struct transport_place *place, struct argv *argv)
{
	(void)place;
	(void)argv;
}

/* ---- up, down, ls ----------------------------------------------------- */

#define DEPTH_MAX 4096			/* directories in directories */

/* Its directory has a name that no other has, whatever the sandbox's is. */
static int
plan(struct sandbox *made, struct error *error)
{
	const char *dir = getenv("TMPDIR"), *sub = made->workdir;
	char *name = sandbox_make_name(), *full = NULL, *work = NULL;
	int rc = -1;

	if (dir == NULL || dir[0] != '/') {
		dir = "/tmp";
	}
	if (name != NULL && asprintf(&full, "%s/%s", dir, name) > 0 &&
	    asprintf(&work, "%s%s%s", full, sub == NULL ? "" : "/",
	    sub == NULL ? "" : sub) > 0) {
		rc = sandbox_set(&made->directory, full) < 0 ||
		    sandbox_set(&made->workdir, work) < 0 ? -1 : 0;
	}
	if (rc < 0) {
		error_set(error, WIRE_STEP_START, ENOMEM, "a directory");
	}
	free(name);
	free(full);
	free(work);
	return rc;
}

static int
create(struct transport_place *place, struct sandbox *made,
    uint64_t deadline, struct error *error)
{
	(void)place;
	(void)deadline;
	if (mkdir(made->directory, 0700) < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s",
		    made->directory);
		return -1;
	}
	return 0;
}

/* Ours, a directory and no link: what a job has put there instead stays. */
static bool
there(const struct sandbox *sandbox)
{
	struct stat st;

	return sandbox->directory != NULL &&
	    lstat(sandbox->directory, &st) == 0 && S_ISDIR(st.st_mode);
}

/*
 * Empty the directory that fd is open on, which is closed.  No link is
 * followed: a job that still lives may put one anywhere.
 */
static int
empty(int fd, unsigned depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *entry;
	int inner, rc = 0;

	if (d == NULL) {
		close(fd);
		return -1;
	}
	while (rc == 0 && (entry = readdir(d)) != NULL) {
		const char *name = entry->d_name;

		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
		    unlinkat(fd, name, 0) == 0 || errno == ENOENT) {
			continue;
		}
		if ((errno != EISDIR && errno != EPERM && errno != EACCES) ||
		    depth == DEPTH_MAX) {
			rc = -1;
			break;
		}
		/* One that its owner made unreadable is still ours. */
		inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
		    O_CLOEXEC);
		if (inner < 0 && errno == EACCES &&
		    fchmodat(fd, name, 0700, 0) == 0) {
			inner = openat(fd, name, O_RDONLY | O_DIRECTORY |
			    O_NOFOLLOW | O_CLOEXEC);
		}
		rc = inner < 0 || (fchmod(inner, 0700) < 0 &&
		    errno != EPERM) ? -1 : 0;
		if (inner >= 0 && rc < 0) {
			close(inner);
		}
		rc = rc < 0 || empty(inner, depth + 1) < 0 ||
		    unlinkat(fd, name, AT_REMOVEDIR) < 0 ? -1 : 0;
	}
	closedir(d);
	return rc;
}

static int
remove_directory(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	const struct sandbox *s = place->sandbox;
	int fd, rc;

	(void)deadline;
	if (!there(s)) {
		return 1;
	}
	chmod(s->directory, 0700);
	fd = open(s->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	rc = fd < 0 || empty(fd, 0) < 0 || rmdir(s->directory) < 0 ? -1 : 0;
	if (rc < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s cannot be "
		    "removed", s->directory);
	}
	return rc;
}

static const char *const no_keys[] = {
	"image", "build", "policy", "create_args", "exec_args", "command",
	"agent", "agent_name", "agent_user", NULL
};
static const char *const nothing[] = { NULL };

static const struct transport_life life = {
	.no_keys = no_keys,
	.no_create_args = nothing,
	.no_exec_args = nothing,
	.select = nothing,
	.plan = plan,
	.create = create,
	.remove = remove_directory,
	.there = there,
};

const struct transport transport_local = {
	.scheme = "local",
	.traits = TRANSPORT_HOME | TRANSPORT_OWN_DIR,
	.resolve = resolve,
	.link = link_words,
	.life = &life,
};
