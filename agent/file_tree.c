/* SPDX-License-Identifier: MIT */
/* file_tree.c - worker processes: whole trees in and out, as one stream. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "bundle.h"
#include "file.h"
#include "worker.h"

/* A request in the making: what its worker gets. */
struct order {
	uint32_t flags;
	struct file_who who;
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
	const struct bundle_sink sink = { .in = c->in, .path = o->who.path,
	    .name = o->name, .flags = o->flags, .settle = settle,
	    .ctx = (void *)(uintptr_t)c };
	const struct sigaction term = { .sa_handler = on_term };
	struct wire_tree_info info;
	struct error error;

	file_become(&o->who, c->note);
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
	    .path = o->who.path, .flags = o->flags };
	struct wire_tree_info info;
	struct error error;

	file_become(&o->who, c->note);
	if (bundle_send(&source, &info, &error) == -1) {
		worker_fail(c->note, error.step, error.number, error.text);
	}
	done(c->note, &info);
}

/* ---- requests --------------------------------------------------------- */

/* msg is a tree_put; of a get without a name. */
static void
start(struct session_request *req, const struct wire_tree_put *msg,
    const struct agent_start *own, bool put)
{
	struct order *o = calloc(1, sizeof(*o));

	if (o == NULL) {
		file_refuse(req, "no memory");
	} else if (wire_copy(o->name, sizeof(o->name), msg->name) == -1) {
		file_refuse(req, "the name is too long or has a NUL byte");
	} else if (file_take_who(&o->who, req, msg->user, msg->path,
	    own) == 0) {
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
