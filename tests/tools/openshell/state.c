/* SPDX-License-Identifier: MIT */
/* state.c - the stand-in's directory, its records and phases. */
#include "state.h"

#include "wire.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[STATE_PATH / 2];

const char *
state_dir(void)
{
	const char *dir = getenv("STANDIN_DIR");
	const char *run = getenv("XDG_RUNTIME_DIR");
	char sub[STATE_PATH];

	if (base[0] != '\0') {
		return base;
	}
	if (dir != NULL && *dir != '\0') {
		(void)snprintf(base, sizeof(base), "%s", dir);
	} else {
		(void)snprintf(base, sizeof(base), "%s/standin-openshell-%u",
		    run != NULL && *run != '\0' ? run : "/tmp",
		    (unsigned)getuid());
	}
	if (mkdir(base, 0700) == -1 && errno != EEXIST) {
		base[0] = '\0';
		return NULL;
	}
	(void)snprintf(sub, sizeof(sub), "%s/sandboxes", base);
	if (mkdir(sub, 0700) == -1 && errno != EEXIST) {
		base[0] = '\0';
		return NULL;
	}
	/* docker wants an absolute path */
	if (realpath(base, sub) != NULL && strlen(sub) < sizeof(base)) {
		memcpy(base, sub, strlen(sub) + 1);
	}
	return base;
}

const char *
state_check_name(const char *name)
{
	static char why[128];
	size_t n = strlen(name);

	if (n > STATE_NAME_MAX) {
		(void)snprintf(why, sizeof(why),
		    "name exceeds maximum length (%zu > %d)", n,
		    STATE_NAME_MAX);
		return why;
	}
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] !=
	    '\0') {
		return "name must contain only lowercase alphanumeric "
		    "characters or hyphens";
	}
	if (n == 0 || name[0] == '-' || name[n - 1] == '-') {
		return "name must not start or end with a hyphen";
	}
	if (strstr(name, "--") != NULL) {
		return "name must not contain consecutive hyphens";
	}
	return NULL;
}

static void
make_path(char path[STATE_PATH], const char *name, const char *leaf)
{
	(void)snprintf(path, STATE_PATH, "%s/sandboxes/%.64s%s%s",
	    state_dir(), name, *leaf != '\0' ? "/" : "", leaf);
}

void
state_link_dir(char path[STATE_PATH], const char *name)
{
	make_path(path, name, "link");
}

int
state_add(const struct state_sandbox *sb)
{
	char path[STATE_PATH];
	FILE *f;

	make_path(path, sb->name, "");
	if (mkdir(path, 0700) == -1) {
		return -1;
	}
	make_path(path, sb->name, "link");
	if (mkdir(path, 0700) == -1) {
		return -1;
	}
	make_path(path, sb->name, "record");
	f = fopen(path, "we");
	if (f == NULL) {
		return -1;
	}
	(void)fprintf(f, "%s %s %lld %s\n%s", sb->id, sb->container,
	    (long long)sb->created, sb->image, sb->labels);
	return fclose(f);
}

int
state_load(struct state_sandbox *sb, const char *name)
{
	char path[STATE_PATH];
	long long created;
	FILE *f;
	int n;

	memset(sb, 0, sizeof(*sb));
	if (state_check_name(name) != NULL) {
		errno = ENOENT;
		return -1;
	}
	make_path(path, name, "record");
	f = fopen(path, "re");
	if (f == NULL) {
		return -1;
	}
	n = fscanf(f, "%39s %127s %lld %511s", sb->id, sb->container,
	    &created, sb->image);
	if (n == 4 && fgetc(f) == '\n') {
		(void)!fread(sb->labels, 1, sizeof(sb->labels) - 1, f);
	}
	(void)fclose(f);
	(void)snprintf(sb->name, sizeof(sb->name), "%s", name);
	sb->created = created;
	errno = EPROTO;
	return n >= 3 ? 0 : -1;
}

void
state_remove(const char *name)
{
	static const char *const leaves[] = {
		"link/sock", "link/error", "link/error.new", "record"
	};
	char path[STATE_PATH];
	size_t i;

	if (state_check_name(name) != NULL) {
		return;
	}
	for (i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
		make_path(path, name, leaves[i]);
		(void)unlink(path);
	}
	make_path(path, name, "link");
	(void)rmdir(path);
	make_path(path, name, "");
	(void)rmdir(path);
}

static int
no_dot(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

char **
state_names(void)
{
	char path[STATE_PATH];
	struct dirent **list;
	char **names;
	int n, i;

	(void)snprintf(path, sizeof(path), "%s/sandboxes", state_dir());
	n = scandir(path, &list, no_dot, alphasort);
	if (n < 0) {
		n = 0;
		list = NULL;
	}
	names = calloc((size_t)n + 1, sizeof(*names));
	for (i = 0; i < n; i++) {
		if (names != NULL) {
			names[i] = strdup(list[i]->d_name);
		}
		free(list[i]);
	}
	free(list);
	return names;
}

void
state_free_names(char **names)
{
	size_t i;

	for (i = 0; names != NULL && names[i] != NULL; i++) {
		free(names[i]);
	}
	free(names);
}

const char *
state_phase(const char *name)
{
	char path[STATE_PATH];
	int fd;

	make_path(path, name, "link/error");
	if (access(path, F_OK) == 0) {
		return "Error";
	}
	state_link_dir(path, name);
	fd = wire_connect(path, "sock");
	if (fd != -1) {
		(void)close(fd);
		return "Ready";
	}
	return errno == ECONNREFUSED ? "Stopped" : "Provisioning";
}
