/* SPDX-License-Identifier: MIT */
/* file_tree.c - worker processes: whole trees in and out, as one stream. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"
#include "file.h"
#include "user.h"
#include "worker.h"

/* A request in the making: what its worker gets. */
struct order {
	uint32_t flags;
	char user[WIRE_USER_MAX + 1];	/* "": stay who we are */
	char path[WIRE_PATH_MAX + 1];
	char name[WIRE_NAME_MAX + 1];
};

static volatile sig_atomic_t stream;	/* what SIGTERM ends */

/* The stream ends early, whatever we are doing: that removes it all. */
static void
on_term(int number)
{
	int saved = errno;

	(void)number;
	dup2(STDIN_FILENO, (int)stream);	/* nothing: AGENT_NULL_FDS */
	errno = saved;
}

/* Whose rights count, from here to the end. */
static void
become(const struct order *o, int note)
{
	static struct user user;
	struct error error;

	if (o->user[0] != '\0' && (user_find(&user, o->user, &error) == -1 ||
	    user_become(&user, &error) == -1)) {
		worker_fail(note, error.step, error.number, error.text);
	}
}

static void
done(int note, const struct wire_tree_info *info)
{
	struct wire msg = { .type = WIRE_TREE_INFO, .u.tree_info = *info };
	uint8_t out[64];
	size_t len;

	if (wire_encode(&msg, out, sizeof(out), &len) != WIRE_OK) {
		_exit(1);
	}
	worker_done(note, out, len);
}

/* The end of the pipe may be the core's death: only a total counts. */
static int
settle(void *ctx, const struct wire_tree_info *info, uint64_t bytes,
    struct error *error)
{
	const struct worker_child *c = ctx;
	struct worker_commit commit;

	(void)info;
	if (read(c->note, &commit, sizeof(commit)) !=
	    (ssize_t)sizeof(commit) || commit.total != bytes) {
		error_set(error, WIRE_STEP_WRITE, ECANCELED, "the tree");
		return -1;
	}
	return 0;
}

static void
put_child(const struct worker_child *c, void *arg)
{
	const struct order *o = arg;
	const struct bundle_sink sink = { .in = c->in, .path = o->path,
	    .name = o->name, .flags = o->flags, .settle = settle,
	    .ctx = (void *)(uintptr_t)c };
	const struct sigaction term = { .sa_handler = on_term };
	struct wire_tree_info info;
	struct error error;

	become(o, c->note);
	stream = c->in;
	sigaction(SIGTERM, &term, NULL);
	if (bundle_receive(&sink, &info, &error) == -1) {
		worker_fail(c->note, error.step, error.number, error.text);
	}
	done(c->note, &info);
}

static void
get_child(const struct worker_child *c, void *arg)
{
	const struct order *o = arg;
	const struct bundle_source source = { .out = c->out,
	    .path = o->path, .flags = o->flags };
	struct wire_tree_info info;
	struct error error;

	become(o, c->note);
	if (bundle_send(&source, &info, &error) == -1) {
		worker_fail(c->note, error.step, error.number, error.text);
	}
	done(c->note, &info);
}

/* ---- requests --------------------------------------------------------- */

static bool
take(char *out, size_t cap, struct wire_bytes from)
{
	if (from.len >= cap || (from.len > 0 &&
	    memchr(from.at, '\0', from.len) != NULL)) {
		return false;
	}
	if (from.len > 0) {
		memcpy(out, from.at, from.len);
	}
	out[from.len] = '\0';
	return true;
}

/* msg is a tree_put; of a get without a name. */
static void
start(struct session_request *req, const struct wire_tree_put *msg,
    const struct agent_start *own, bool put)
{
	struct order *o = calloc(1, sizeof(*o));
	const char *what = NULL;
	struct error error;

	if (o == NULL) {
		what = "no memory";
	} else if (!take(o->path, sizeof(o->path), msg->path) ||
	    !take(o->name, sizeof(o->name), msg->name) ||
	    !take(o->user, sizeof(o->user), msg->user) ||
	    o->path[0] == '\0') {
		what = "a path, name or user is empty, too long or has a "
		    "NUL byte";
	}
	if (what != NULL) {
		error_set(&error, WIRE_STEP_USAGE, EINVAL, "%s", what);
		session_fail(req, &error);
	} else {
		if (o->user[0] == '\0' && own->user != NULL) {
			snprintf(o->user, sizeof(o->user), "%s", own->user);
		}
		o->flags = msg->flags;
		worker_start(req, put ? WORKER_IN | WORKER_TIDIES :
		    WORKER_OUT, put ? put_child : get_child, o);
	}
	free(o);
}

void
file_tree_put(struct session_request *req, const struct wire_tree_put *msg,
    const struct agent_start *own)
{
	start(req, msg, own, true);
}

void
file_tree_get(struct session_request *req, const struct wire_tree_get *msg,
    const struct agent_start *own)
{
	const struct wire_tree_put order = { .flags = msg->flags,
	    .user = msg->user, .path = msg->path };

	start(req, &order, own, false);
}
