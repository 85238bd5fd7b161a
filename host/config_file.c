/* SPDX-License-Identifier: MIT */
/* config_file.c - finds a configuration's file and what it is relative to. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yamltree.h"

static const char *const files[] = {
	"sandmux.yaml", "sandmux.yml", "openshell.yaml", "openshell.yml"
};

static enum config_kind
kind_of(const char *path)
{
	const char *name = strrchr(path, '/') == NULL ? path :
	    strrchr(path, '/') + 1;

	return strcmp(name, files[2]) == 0 || strcmp(name, files[3]) == 0 ?
	    CONFIG_OPENSHELL : CONFIG_SANDMUX;
}

/* All of fd, with a byte more than there may be; NULL with *error. */
static char *
slurp(int fd, const char *name, size_t *len, struct error *error)
{
	const size_t room = YAMLTREE_BYTES + 1;
	char *data = malloc(room);
	ssize_t n = 1;

	*len = 0;
	while (data != NULL && n > 0 && *len < room) {
		n = read(fd, data + *len, room - *len);
		if (n < 0 && errno == EINTR) {
			n = 1;
		} else if (n > 0) {
			*len += (size_t)n;
		}
	}
	if (data == NULL || n < 0) {
		error_set(error, WIRE_STEP_USAGE, errno, "%.200s", name);
		free(data);
		return NULL;
	}
	return data;
}

/* The directory that relative paths start at, absolute. */
static int
base_of(const char *file, const char *base, char *out, struct error *error)
{
	char dir[PATH_MAX];
	const char *slash = file == NULL ? NULL : strrchr(file, '/');

	if (base != NULL) {
		snprintf(dir, sizeof(dir), "%s", base);
	} else if (slash != NULL) {
		snprintf(dir, sizeof(dir), "%.*s", slash == file ? 1 :
		    (int)(slash - file), file);
	} else {
		snprintf(dir, sizeof(dir), ".");
	}
	if (realpath(dir, out) == NULL) {
		error_set(error, WIRE_STEP_USAGE, errno, "%.200s", dir);
		return -1;
	}
	return 0;
}

/* The first default file of base that is there, into path; or "". */
static void
search(const char *base, char *path, size_t cap)
{
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		int n = snprintf(path, cap, "%s/%s", base, files[i]);

		if (n > 0 && (size_t)n < cap && access(path, F_OK) == 0) {
			return;
		}
	}
	path[0] = '\0';
}

int
config_load(struct config *config, const char *file, const char *base,
    struct error *error)
{
	char dir[PATH_MAX], path[PATH_MAX + 32] = "";
	const char *name = file;
	bool is_stdin = file != NULL && strcmp(file, "-") == 0;
	size_t len = 0;
	char *data;
	int fd, rc;

	config->count = 0;
	if (base_of(is_stdin ? NULL : file, base, dir, error) < 0) {
		return -1;
	}
	if (file == NULL) {
		search(dir, path, sizeof(path));
		name = path[0] == '\0' ? NULL : path;
	}
	if (name == NULL) {
		return config_parse(config, CONFIG_SANDMUX, "<no file>", dir,
		    "", 0, error);
	}
	fd = is_stdin ? dup(STDIN_FILENO) : open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		error_set(error, WIRE_STEP_USAGE, errno, "%.200s", name);
		return -1;
	}
	data = slurp(fd, name, &len, error);
	close(fd);
	if (data == NULL) {
		return -1;
	}
	rc = config_parse(config, is_stdin ? CONFIG_SANDMUX : kind_of(name),
	    is_stdin ? "<stdin>" : name, dir, data, len, error);
	free(data);
	return rc;
}
