/* SPDX-License-Identifier: MIT */
/* overlay.c - a sandbox's settings laid over one request. */
#include "overlay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of our own in a local target's environment: nothing for a job. */
#define OURS "SANDMUX_AGENT_USER"

struct overlay {
	const struct sandbox *sandbox;
	struct wire msg;		/* borrows from the request and below */
	char *paths[2];			/* owned */
	struct items env, unset, limits;
	bool failed;
};

static void
add_all(struct items *items, struct wire_list list)
{
	struct wire_bytes item;

	while (wire_next(&list, &item)) {
		items_add(items, item.at, item.len);
	}
}

static void
user(struct overlay *o, struct wire_bytes *field)
{
	if (field->len == 0 && o->sandbox->user != NULL) {
		*field = wire_string(o->sandbox->user);
	}
}

/* A relative path begins in the sandbox's workdir; empty stays none. */
static void
path(struct overlay *o, unsigned slot, struct wire_bytes *field)
{
	const char *dir = o->sandbox->workdir;

	if (dir == NULL || field->len == 0 || field->at[0] == '/') {
		return;
	}
	if (memchr(field->at, '\0', field->len) != NULL) {
		return;			/* the agent refuses it */
	}
	if (asprintf(&o->paths[slot], "%s/%.*s", dir, (int)field->len,
	    (const char *)field->at) < 0) {
		o->paths[slot] = NULL;
		o->failed = true;
		return;
	}
	*field = wire_string(o->paths[slot]);
}

static void
exec(struct overlay *o, struct wire_exec *exec)
{
	const struct sandbox *s = o->sandbox;

	user(o, &exec->user);
	if (exec->cwd.len == 0 && s->workdir != NULL) {
		exec->cwd = wire_string(s->workdir);
	} else {
		path(o, 0, &exec->cwd);
	}
	add_all(&o->env, items_list(&s->env));
	add_all(&o->env, exec->env);
	add_all(&o->unset, items_list(&s->hide));
	items_text(&o->unset, OURS);
	add_all(&o->unset, exec->unset);
	limits_bound(&s->limits, exec->limits, &o->limits);
	exec->env = items_list(&o->env);
	exec->unset = items_list(&o->unset);
	exec->limits = items_list(&o->limits);
	if (s->exec_ms != 0 && (exec->timeout_ms == 0 ||
	    exec->timeout_ms > s->exec_ms)) {
		exec->timeout_ms = s->exec_ms;
	}
	o->failed |= o->env.failed || o->unset.failed || o->limits.failed;
}

static void
fs(struct overlay *o, struct wire_fs *fs)
{
	user(o, &fs->user);
	path(o, 0, &fs->path);
	if (fs->op == WIRE_FS_RENAME) {
		path(o, 1, &fs->second);
	}
}

/* False: this kind has nothing to lay over. */
static bool
lay(struct overlay *o)
{
	switch (o->msg.type) {
	case WIRE_EXEC:
		exec(o, &o->msg.u.exec);
		return true;
	case WIRE_PUT:
		user(o, &o->msg.u.put.user);
		path(o, 0, &o->msg.u.put.path);
		return true;
	case WIRE_GET:
		user(o, &o->msg.u.get.user);
		path(o, 0, &o->msg.u.get.path);
		return true;
	case WIRE_FS:
		fs(o, &o->msg.u.fs);
		return true;
	case WIRE_TREE_PUT:
		user(o, &o->msg.u.tree_put.user);
		path(o, 0, &o->msg.u.tree_put.path);
		return true;
	case WIRE_TREE_GET:
		user(o, &o->msg.u.tree_get.user);
		path(o, 0, &o->msg.u.tree_get.path);
		return true;
	default:
		return false;
	}
}

int
overlay_request(const struct sandbox *sandbox, const struct wire *msg,
    uint8_t **body, uint32_t *len, struct error *error)
{
	struct overlay o = { .sandbox = sandbox, .msg = *msg };
	int rc = 0;

	*body = NULL;
	if (lay(&o) && (o.failed || items_encode(&o.msg, body, len) < 0)) {
		error_set(error, WIRE_STEP_USAGE, o.failed ? ENOMEM : errno,
		    "the request with the settings of %s", sandbox->name);
		rc = -1;
	}
	free(o.paths[0]);
	free(o.paths[1]);
	items_free(&o.env);
	items_free(&o.unset);
	items_free(&o.limits);
	return rc;
}
