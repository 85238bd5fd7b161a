/* SPDX-License-Identifier: MIT */
/* record.c - a sandbox's file on disk: written, read, locked, removed. */
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "json.h"
#include "seal.h"
#include "target.h"

#define DIRECTORY "sandboxes"
#define OWNER ".owner"			/* dots: no sandbox is called so */
#define NEW ".new."			/* and the writer's process */
#define LOCK ".lock"
#define RECORD_PATH (PATHS_MAX + 64)

static int
failed(const char *path, struct error *error)
{
	error_set(error, WIRE_STEP_START, errno, "the record %.400s", path);
	return -1;
}

int
record_open(struct record_store *store, const char *xdg_state,
    const char *home, struct error *error)
{
	char state[PATHS_MAX];

	if (paths_state_of(xdg_state, home, state, sizeof(state),
	    error) < 0 || paths_join(store->directory,
	    sizeof(store->directory), state, DIRECTORY, error) < 0) {
		return -1;
	}
	return mkdir(store->directory, 0700) < 0 && errno != EEXIST ?
	    failed(store->directory, error) : 0;
}

static void
path_of(const struct record_store *store, const char *name, const char *tail,
    char *out)
{
	snprintf(out, RECORD_PATH, "%s/%s%s", store->directory, name, tail);
}

static int
sync_directory(const struct record_store *store)
{
	int fd = open(store->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? -1 : fsync(fd);

	if (fd >= 0) {
		close(fd);
	}
	return rc;
}

/* Write text under a name of our own, then rename or link it to path. */
static int
put(const struct record_store *store, const char *path, const char *text,
    size_t len, bool exclusive, struct error *error)
{
	char temp[RECORD_PATH];
	int fd, rc = -1, saved;

	snprintf(temp, sizeof(temp), "%s/" NEW "%ld", store->directory,
	    (long)getpid());
	unlink(temp);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		return failed(temp, error);
	}
	errno = ENOSPC;			/* of a short write */
	if (write(fd, text, len) == (ssize_t)len && fsync(fd) == 0) {
		rc = exclusive ? link(temp, path) : rename(temp, path);
	}
	saved = errno;
	close(fd);
	if (rc < 0 || exclusive) {
		unlink(temp);
	}
	errno = saved;
	if (rc < 0 || sync_directory(store) < 0) {
		return failed(path, error);
	}
	return 0;
}

/* A file of ours, whole, NUL-terminated; NULL with errno. */
static char *
slurp(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	char *data = NULL;
	ssize_t n;

	if (fd < 0) {
		return NULL;
	}
	if (fstat(fd, &st) == 0 && (!S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid() || st.st_size > (off_t)RECORD_MAX)) {
		errno = EINVAL;
	} else if ((data = malloc((size_t)st.st_size + 1)) != NULL) {
		n = read(fd, data, (size_t)st.st_size);
		*len = n < 0 ? 0 : (size_t)n;
		data[*len] = '\0';
	}
	close(fd);
	return data;
}

int
record_owner(const struct record_store *store, char *out,
    struct error *error)
{
	uint8_t random[RECORD_OWNER / 2];
	char path[RECORD_PATH], *text;
	struct error taken = { .step = WIRE_STEP_NONE };
	size_t len;
	int tries;

	path_of(store, "", OWNER, path);
	for (tries = 0; tries < 2; tries++) {
		text = slurp(path, &len);
		if (text != NULL && len == RECORD_OWNER &&
		    strspn(text, "0123456789abcdef") == len) {
			memcpy(out, text, RECORD_OWNER + 1);
			free(text);
			return 0;
		}
		free(text);
		seal_random(random, sizeof(random));
		seal_hex(random, sizeof(random), out);
		/* Of two that make one at once the first counts. */
		if (put(store, path, out, RECORD_OWNER, true, &taken) == 0) {
			return 0;
		}
	}
	*error = taken;
	return -1;
}

int
record_put(const struct record_store *store, const struct sandbox *sandbox,
    struct error *error)
{
	char path[RECORD_PATH];
	struct json json = { 0 };
	const char *text;
	int rc;

	path_of(store, sandbox->name, "", path);
	config_write(&json, sandbox);
	text = json_text(&json);
	if (text == NULL || json.len > RECORD_MAX) {
		json_free(&json);
		error_set(error, WIRE_STEP_START, 0, "its settings are longer "
		    "than %u bytes as a record", RECORD_MAX);
		return -1;
	}
	rc = put(store, path, text, json.len, false, error);
	json_free(&json);
	return rc;
}

struct sandbox *
record_get(const struct record_store *store, const char *name,
    struct error *error)
{
	char path[RECORD_PATH], *text;
	struct config config = { .count = 0 };
	struct sandbox *s = NULL;
	size_t len = 0;

	if (!target_sandbox_name(name, strlen(name))) {
		error_set(error, WIRE_STEP_TARGET, ENOENT, "\"%.32s\" is no "
		    "sandbox's name", name);
		return NULL;
	}
	path_of(store, name, "", path);
	text = slurp(path, &len);
	if (text == NULL) {
		failed(path, error);
		return NULL;
	}
	if (config_parse(&config, CONFIG_RECORD, path, "/", text, len,
	    error) == 0) {
		s = sandbox_hold(config.sandboxes[0]);
		if (s->name == NULL || strcmp(s->name, name) != 0) {
			sandbox_release(s);
			s = NULL;
			error_set(error, WIRE_STEP_START, 0, "the record %s "
			    "is another sandbox's", path);
		}
	}
	config_free(&config);
	free(text);
	return s;
}

int
record_remove(const struct record_store *store, const char *name,
    struct error *error)
{
	char path[RECORD_PATH];

	path_of(store, name, "", path);
	if (unlink(path) < 0 && errno != ENOENT) {
		return failed(path, error);
	}
	return sync_directory(store) < 0 ? failed(path, error) : 0;
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void
record_free_names(char **names)
{
	size_t i;

	for (i = 0; names != NULL && names[i] != NULL; i++) {
		free(names[i]);
	}
	free(names);
}

char **
record_names(const struct record_store *store, struct error *error)
{
	DIR *d = opendir(store->directory);
	char **names = calloc(1, sizeof(*names)), **grown;
	struct dirent *entry;
	size_t n = 0;

	while (d != NULL && names != NULL && (entry = readdir(d)) != NULL) {
		if (!target_sandbox_name(entry->d_name,
		    strlen(entry->d_name))) {
			continue;
		}
		grown = realloc(names, (n + 2) * sizeof(*names));
		if (grown == NULL) {
			break;
		}
		names = grown;
		names[n + 1] = NULL;
		names[n] = strdup(entry->d_name);
		if (names[n] == NULL) {
			break;
		}
		n++;
	}
	if (d == NULL || names == NULL) {
		failed(store->directory, error);
		record_free_names(names);
		names = NULL;
	} else {
		qsort(names, n, sizeof(*names), compare);
	}
	if (d != NULL) {
		closedir(d);
	}
	return names;
}

int
record_lock(const struct record_store *store, const char *name,
    struct error *error)
{
	char path[RECORD_PATH];
	struct stat there, ours;
	int fd;

	path_of(store, name, LOCK, path);
	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
		    0600);
		if (fd < 0) {
			return failed(path, error);
		}
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			error_set(error, WIRE_STEP_BUSY, errno, "another "
			    "process makes or removes %s", name);
			close(fd);
			return -1;
		}
		/* Its last holder may have removed it meanwhile. */
		if (fstat(fd, &ours) == 0 && stat(path, &there) == 0 &&
		    ours.st_ino == there.st_ino &&
		    ours.st_dev == there.st_dev) {
			return fd;
		}
		close(fd);
	}
}

void
record_unlock(const struct record_store *store, const char *name, int fd)
{
	char path[RECORD_PATH];

	if (fd < 0) {
		return;
	}
	path_of(store, name, LOCK, path);
	unlink(path);
	close(fd);
}

/* A lock's file that nobody holds. */
static void
sweep_lock(const struct record_store *store, const char *file)
{
	char name[TARGET_SANDBOX_MAX + 1];
	size_t len = strlen(file) - strlen(LOCK);
	struct error ignored;

	if (target_sandbox_name(file, len)) {
		memcpy(name, file, len);
		name[len] = '\0';
		record_unlock(store, name, record_lock(store, name,
		    &ignored));
	}
}

void
record_sweep(const struct record_store *store)
{
	DIR *d = opendir(store->directory);
	struct dirent *entry;
	size_t len;
	long pid;

	while (d != NULL && (entry = readdir(d)) != NULL) {
		len = strlen(entry->d_name);
		if (len > strlen(LOCK) && strcmp(entry->d_name + len -
		    strlen(LOCK), LOCK) == 0) {
			sweep_lock(store, entry->d_name);
		} else if (strncmp(entry->d_name, NEW, strlen(NEW)) == 0) {
			pid = strtol(entry->d_name + strlen(NEW), NULL, 10);
			if (pid > 0 && kill((pid_t)pid, 0) < 0 &&
			    errno == ESRCH) {
				unlinkat(dirfd(d), entry->d_name, 0);
			}
		}
	}
	if (d != NULL) {
		closedir(d);
	}
}
