/* SPDX-License-Identifier: MIT */
/* transport.c - the table of transports. */
#include "transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct transport *const table[] = {
	&transport_local,
	&transport_docker,
	&transport_podman,
	&transport_openshell,
};

/* What selects a target, and HOME: two values, two links. */
static const char *const prefixes[] = {
	"DOCKER_", "CONTAINER_HOST=", "CONTAINER_CONNECTION=",
	"CONTAINER_SSHKEY=", "CONTAINERS_", "OPENSHELL_", "KUBECONFIG=",
	"XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "XDG_RUNTIME_DIR=",
	"SSH_AUTH_SOCK=", "HOME=", TRANSPORT_AGENT_USER_IS,
};

const struct transport *
transport_find(const char *scheme)
{
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i]->scheme, scheme) == 0) {
			return table[i];
		}
	}
	return NULL;
}

const struct transport *
transport_at(size_t index)
{
	return index < sizeof(table) / sizeof(table[0]) ? table[index] : NULL;
}

const char *
transport_baked(const struct transport_place *place)
{
	return place->sandbox != NULL && place->sandbox->agent != NULL ?
	    place->sandbox->agent : TRANSPORT_BAKED;
}

bool
transport_may_inject(const struct transport_place *place)
{
	return place->sandbox == NULL ||
	    place->sandbox->agent_mode != SANDBOX_AGENT_NEVER;
}

bool
transport_injects_first(const struct transport_place *place)
{
	return place->sandbox != NULL && place->sandbox->agent == NULL &&
	    place->sandbox->agent_mode == SANDBOX_AGENT_INJECT;
}

const char *
transport_agent_name(const struct transport_place *place)
{
	return place->sandbox != NULL && place->sandbox->agent_name != NULL ?
	    place->sandbox->agent_name : ".sandmux";
}

void
transport_words(struct argv *argv, struct items items)
{
	struct wire_list list = items_list(&items);
	struct wire_bytes item;

	while (wire_next(&list, &item)) {
		argv_format(argv, "%.*s", (int)item.len,
		    (const char *)item.at);
	}
}

bool
transport_identity_env(const char *entry)
{
	size_t i;

	for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0) {
			return true;
		}
	}
	return false;
}

const char *
transport_getenv(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; *env != NULL; env++) {
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=') {
			return *env + len + 1;
		}
	}
	return NULL;
}

int
transport_agent_user(struct transport_place *place, struct error *error)
{
	const char *who = place->sandbox != NULL &&
	    place->sandbox->agent_user != NULL ? place->sandbox->agent_user :
	    transport_getenv(place->env, TRANSPORT_AGENT_USER);

	if (who == NULL) {
		return 0;
	}
	if (strcmp(who, "root") == 0) {
		place->facts.flags |= TRANSPORT_FORCE_ROOT;
	} else if (strcmp(who, "image") == 0) {
		place->facts.flags |= TRANSPORT_FORCE_IMAGE;
	} else {
		error_set(error, WIRE_STEP_START, 0, TRANSPORT_AGENT_USER
		    " is \"%.100s\"; it takes root or image, or is not set",
		    who);
		return -1;
	}
	return 0;
}

const char *
transport_default_user(const struct transport_place *place)
{
	const char *user = place->facts.user;

	/* "0:5" and "root:x" are root, but with groups of their own. */
	if (place->as_image || user[0] == '\0' || strcmp(user, "0") == 0 ||
	    strcmp(user, "root") == 0) {
		return NULL;
	}
	return user;
}

/* A file that we may execute: its real path into out[PATH_MAX]. */
static bool
runnable(const char *path, char *out)
{
	struct stat st;

	return access(path, X_OK) == 0 && stat(path, &st) == 0 &&
	    S_ISREG(st.st_mode) && realpath(path, out) != NULL;
}

/* Only absolute elements count: a relative one would mean our own cwd. */
static bool
search(const char *path, const char *name, char *out)
{
	char full[PATH_MAX];
	size_t len;

	for (;; path += len + 1) {
		len = strcspn(path, ":");
		if (path[0] == '/' && (size_t)snprintf(full, sizeof(full),
		    "%.*s/%s", (int)len, path, name) < sizeof(full) &&
		    runnable(full, out)) {
			return true;
		}
		if (path[len] == '\0') {
			return false;
		}
	}
}

int
transport_program(struct transport_place *place, const char *name,
    const char *cure, struct error *error)
{
	const char *path = transport_getenv(place->env, "PATH");
	struct stat st;

	if (path == NULL || !search(path, name, place->facts.program)) {
		error_set(error, WIRE_STEP_START, 0, "the program %s is not "
		    "on your PATH%s; %s", name, path == NULL ?
		    ", which is not set" : "", cure);
		return -1;
	}
	if (stat(place->facts.program, &st) == 0) {
		place->facts.program_mtime = st.st_mtime;
	}
	return 0;
}

int
transport_run(struct transport_place *place, struct runcmd *cmd,
    const struct argv *argv, uint64_t deadline, struct error *error)
{
	cmd->path = place->facts.program;
	cmd->argv = argv;
	cmd->env = place->child_env;
	cmd->deadline = deadline;
	return runcmd_run(cmd, error);
}
