/* SPDX-License-Identifier: MIT */
/* cp_down.c - one file out of a target to here. */
#include "cp_copy.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "interrupt.h"

/* ---- OUT --------------------------------------------------------------- */

static ssize_t
begin_download(struct cp_copy *c)
{
	const struct cp *cp = c->cp;
	bool stdio = cp_is_stdio(&cp->to);
	struct wire msg;
	uint64_t from;

	if (filecopy_head_get(&c->head, WIRE_START, &msg) < 0) {
		return cp_broken(c, "the agent's START is none");
	}
	from = msg.u.start.from;
	/* What is behind an offset begins the file here. */
	msg.u.start.from -= cp->offset;
	if (from < cp->offset || filecopy_accept(&c->at, &msg.u.start) < 0 ||
	    (from != cp->offset && from != c->have) ||
	    (c->at.count > 0 && (stdio || c->sink.stream || cp->offset > 0))) {
		return cp_broken(c, "the agent's START makes no sense");
	}
	c->phase = CP_BODY;
	c->progress.total = c->at.size > cp->offset ? c->at.size - cp->offset :
	    0;
	c->progress.total = c->progress.total < cp->length ?
	    c->progress.total : cp->length;
	if (c->at.from == 0) {
		seal_digest_init(&c->digest);
		if (c->have > 0 && ftruncate(c->sink.fd, 0) < 0) {
			return -1;
		}
	} else {
		progress_resume(&c->progress, c->at.from, c->progress.total);
	}
	c->hashed = c->at.from;
	return 0;
}

/* A pipe or a device cannot be read back. */
static bool
reads_back(const struct cp_copy *c)
{
	return c->sink.fd >= 0 && !c->sink.stream;
}

static ssize_t
write_sink(struct cp_copy *c, const void *buf, size_t len)
{
	uint64_t at = c->at.at;
	ssize_t n;

	if (len > c->cp->length - (c->at.at - c->at.from)) {
		return cp_broken(c, "more bytes than were asked for");
	}
	if (!cp_is_stdio(&c->cp->to)) {
		n = sink_put(&c->sink, &c->at, buf, len);
	} else {
		n = stdfd_write(&c->file, buf, len);
		if (n > 0) {
			filecopy_moved(&c->at, (uint64_t)n);
		}
	}
	if (n > 0) {
		if (!reads_back(c)) {
			cp_hash(c, at, buf, (size_t)n);
		}
		c->progress.done = at + (uint64_t)n;
		c->moved += (size_t)n;
	}
	return n;
}

static ssize_t
move_out(void *ctx, void *buf, size_t len)
{
	struct cp_copy *c = ctx;
	size_t head = 0, done;
	ssize_t n = 0;

	if (c->phase == CP_HEAD) {
		head = cp_take_head(c, buf, len);
		c->moved += head;
		if (filecopy_head_wants(&c->head) < 0) {
			return cp_broken(c, "the agent's START is too long");
		}
		if (filecopy_head_wants(&c->head) == 0 &&
		    begin_download(c) < 0) {
			return -1;
		}
	}
	/* A piece ends at a hole: less than all means "full" to run.c. */
	for (done = head; done < len; done += (size_t)n) {
		n = write_sink(c, (uint8_t *)buf + done, len - done);
		if (n < 0 && errno == EAGAIN && done > 0) {
			break;
		}
		if (n < 0) {
			return -1;
		}
	}
	return (ssize_t)done;
}

/* ---- the file here ----------------------------------------------------- */

/* Where a download goes; after the handlers, since it may be named. */
static int
open_sink(struct cp_copy *c, struct wire_get *get, struct error *error)
{
	const struct cp *cp = c->cp;
	unsigned flags =
	    ((cp->flags & CP_PARENTS) != 0 ? SINK_PARENTS : 0) |
	    ((cp->flags & CP_APPEND) != 0 ? SINK_APPEND : 0) |
	    ((cp->flags & CP_RESUME) != 0 ? SINK_RESUME : 0);

	if (cp_is_stdio(&cp->to)) {
		stdfd_open(&c->file, STDOUT_FILENO, true);
		get->flags |= WIRE_GET_DENSE;
		return 0;
	}
	if (sink_open(&c->sink, cp->to.path, cp->base, flags, error) < 0) {
		return -1;
	}
	c->file = c->sink.file;
	get->flags |= c->sink.stream ? WIRE_GET_DENSE : 0;
	if (!c->sink.keep) {
		return 0;
	}
	seal_digest_init(&c->digest);
	if (filecopy_hash(&c->digest, c->sink.fd, &c->have,
	    WIRE_TO_END) < 0) {
		error_set(error, WIRE_STEP_READ, errno, "%s", c->sink.tmp);
		return -1;
	}
	seal_digest_get(&c->digest, c->have_hash);
	get->flags |= WIRE_GET_RESUME;
	get->have = c->have;
	get->hash = (struct wire_bytes){ c->have_hash, SEAL_KEY };
	return 0;
}

/*
 * This end's hash: of the file as it can be read, else of what went by.  The
 * far end says how long it is, and so how long this takes.
 */
static int
hash_sink(struct cp_copy *c)
{
	uint64_t at = 0;
	int rc = 1;

	if (!reads_back(c)) {
		seal_digest_get(&c->digest, c->hash);
		return 0;
	}
	seal_digest_init(&c->digest);
	while (rc > 0) {
		rc = filecopy_hash(&c->digest, c->sink.fd, &at, CP_HASH_PIECE);
		c->signal = interrupt_take();
		if (c->signal != 0) {
			errno = EINTR;
			return -1;
		}
	}
	seal_digest_get(&c->digest, c->hash);
	return rc;
}

static int
verify(struct cp_copy *c, struct error *error)
{
	const char *path = c->cp->to.path;

	if (c->info.hash.len != SEAL_KEY) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "the agent has sent "
		    "no hash");
		return -1;
	}
	if (hash_sink(c) < 0) {
		error_set(error, WIRE_STEP_READ, errno, "%s", path);
		return -1;
	}
	if (memcmp(c->hash, c->far, SEAL_KEY) != 0) {
		error_set(error, WIRE_STEP_VERIFY, EBADMSG, "%s", path);
		return -1;
	}
	return 0;
}

/* All has arrived: into its place with it. */
static int
settle(struct cp_copy *c, struct error *error)
{
	const struct cp *cp = c->cp;
	struct sink_dress dress = {
		.mode = (cp->flags & CP_MODE) != 0 ? cp->mode :
		    c->info.mode & 07777,
		.exact = (cp->flags & (CP_MODE | CP_ARCHIVE)) != 0,
		.archive = (cp->flags & CP_ARCHIVE) != 0,
		.mtime = c->info.mtime, .uid = c->info.uid,
		.gid = c->info.gid
	};

	if (c->info.size != cp->offset + c->at.at ||
	    c->at.left != WIRE_TO_END) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "the agent says that "
		    "%s ends where it does not", cp->from.path);
		return -1;
	}
	if (!cp_is_stdio(&cp->to) && sink_end(&c->sink, &c->at) < 0) {
		error_set(error, WIRE_STEP_WRITE, errno, "%s", cp->to.path);
		return -1;
	}
	if (cp_verifies(c) && verify(c, error) < 0) {
		return -1;
	}
	if (cp_is_stdio(&cp->to)) {
		return 0;
	}
	/* The last moment to leave: from here on it goes to its end. */
	c->signal = interrupt_take();
	if (c->signal != 0) {
		error_set(error, WIRE_STEP_NONE, 0, "interrupted");
		return -1;
	}
	return sink_commit(&c->sink, &dress, error);
}

/* ---- the request ------------------------------------------------------- */

static void
set_flows(struct cp_copy *c)
{
	struct run *run = &c->run;

	run->in = (struct run_flow){ .fd = { .fd = -1 } };
	run->out = (struct run_flow){ .fd = c->file, .ctx = c,
	    .name = c->cp->to.path, .move = move_out };
	run->err = (struct run_flow){ .fd = { .fd = -1 } };
	c->phase = CP_HEAD;
}

/* A partial file stays anyway, and hashing it can take long. */
static int
prepare(struct cp_copy *c, struct wire_get *get, struct error *error)
{
	bool first = (c->cp->flags & CP_RESUME) != 0;

	return cp_connect(c, error) < 0 ||
	    (first && open_sink(c, get, error) < 0) ||
	    cp_catch(error) < 0 ||
	    (!first && open_sink(c, get, error) < 0) ? -1 : 0;
}

int
cp_down(struct cp_copy *c, struct error *error)
{
	struct wire msg = { .type = WIRE_GET };
	struct run_end end = { 0 };
	int status = CMD_OK;

	msg.u.get.user = c->cp->user;
	msg.u.get.path = wire_string(c->cp->from.path);
	msg.u.get.offset = c->cp->offset;
	msg.u.get.length = c->cp->length;
	msg.u.get.flags = cp_verifies(c) ? WIRE_GET_HASH : 0;
	if (prepare(c, &msg.u.get, &end.error) == 0) {
		set_flows(c);
		cp_run(c, &msg, &end);
	} else {
		/* It may have waited for a pipe's reader. */
		end.signal = interrupt_take();
	}
	if (cp_check(c, &end, end.out, error) < 0) {
		status = cp_failed(&end);
	} else if (settle(c, error) < 0) {
		status = c->signal != 0 ? RUN_SIGNAL + c->signal : CMD_FAILED;
	}
	run_end_free(&end);
	return status;
}
