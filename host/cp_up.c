/* SPDX-License-Identifier: MIT */
/* cp_up.c - one file from here into a target. */
#include "cp_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"

/* ---- IN ---------------------------------------------------------------- */

/* The source from `from` on; START is ready to go. */
static void
begin_upload(struct cp_copy *c, uint64_t from)
{
	struct wire msg = { .type = WIRE_START };
	bool dense = !c->seeks || c->left != WIRE_TO_END || c->cp->offset > 0
	    || (c->cp->flags & CP_APPEND) != 0;

	filecopy_scan(&c->at, c->fd, c->cp->offset + from, dense);
	msg.u.start = filecopy_start(&c->at);
	/* What is behind an offset begins the file there. */
	msg.u.start.from = from;
	c->head.have = filecopy_head_put(&msg, c->head.buf,
	    sizeof(c->head.buf));
	c->said = 0;
	if (from == 0) {
		seal_digest_init(&c->digest);
	}
	c->hashed = c->at.from;
	if (from > 0) {
		progress_resume(&c->progress, from, c->progress.total);
	}
	c->phase = CP_HEAD;
}

/* Whether the source begins with what the agent has; a piece at a time. */
static ssize_t
compare(struct cp_copy *c)
{
	uint64_t want = c->have - c->hashed;
	uint8_t hash[SEAL_KEY];
	int rc = filecopy_hash(&c->digest, c->fd, &c->hashed,
	    want < CP_HASH_PIECE ? want : CP_HASH_PIECE);

	if (rc < 0) {
		return -1;
	}
	if (rc == 1 && c->hashed < c->have) {
		errno = EAGAIN;
		return -1;
	}
	seal_digest_get(&c->digest, hash);
	begin_upload(c, rc == 1 && memcmp(hash, c->have_hash,
	    sizeof(hash)) == 0 ? c->have : 0);
	return 0;
}

static ssize_t
read_source(struct cp_copy *c, void *buf, size_t len)
{
	uint64_t max = len;
	ssize_t n;

	max = max < c->left ? max : c->left;
	max = max < c->at.left ? max : c->at.left;
	if (max == 0) {
		return 0;
	}
	if (!c->seeks) {
		n = stdfd_read(&c->file, buf, (size_t)max);
	} else {
		do {
			n = pread(c->fd, buf, (size_t)max, (off_t)c->at.at);
		} while (n < 0 && errno == EINTR);
	}
	if (n == 0 && c->at.left != WIRE_TO_END) {
		errno = ENODATA;	/* it has become shorter */
		return -1;
	}
	return n;
}

/* The next of the bytes that are not the file's. */
static ssize_t
say(struct cp_copy *c, const uint8_t *from, size_t all, void *buf, size_t len)
{
	size_t n = all - c->said < len ? all - c->said : len;

	memcpy(buf, from + c->said, n);
	c->said += n;
	c->moved += n;
	return (ssize_t)n;
}

/* All of the file has gone by. */
static ssize_t
begin_tail(struct cp_copy *c, void *buf, size_t len)
{
	c->phase = CP_TAIL;
	if (!cp_verifies(c)) {
		c->said = sizeof(c->hash);
		return 0;
	}
	filecopy_hash_hole(&c->digest, c->at.at - c->hashed);
	seal_digest_get(&c->digest, c->hash);
	c->said = 0;
	return say(c, c->hash, sizeof(c->hash), buf, len);
}

/* A hole can be longer than anybody wants to wait: a piece at a time. */
static bool
hash_hole(struct cp_copy *c)
{
	if (!cp_verifies(c) || c->at.at - c->hashed <= CP_HASH_PIECE) {
		return false;
	}
	filecopy_hash_hole(&c->digest, CP_HASH_PIECE);
	c->hashed += CP_HASH_PIECE;
	return true;
}

static ssize_t
move_in(void *ctx, void *buf, size_t len)
{
	struct cp_copy *c = ctx;
	ssize_t n;

	if (c->phase == CP_PARTIAL) {
		errno = EAGAIN;
		return -1;
	}
	if (c->phase == CP_COMPARE && compare(c) < 0) {
		return -1;
	}
	if (c->phase == CP_HEAD) {
		n = say(c, c->head.buf, c->head.have, buf, len);
		c->phase = c->said == c->head.have ? CP_BODY : CP_HEAD;
		return n;
	}
	if (c->phase == CP_TAIL) {
		return say(c, c->hash, sizeof(c->hash), buf, len);
	}
	if (hash_hole(c)) {
		errno = EAGAIN;
		return -1;
	}
	n = read_source(c, buf, len);
	if (n == 0) {
		return begin_tail(c, buf, len);
	}
	if (n > 0) {
		cp_hash(c, c->at.at, buf, (size_t)n);
		filecopy_moved(&c->at, (uint64_t)n);
		c->left -= c->left == WIRE_TO_END ? 0 : (uint64_t)n;
		c->progress.done = c->seeks ? c->at.at - c->cp->offset :
		    c->progress.done + (uint64_t)n;
		c->moved += (size_t)n;
	}
	return n;
}

/* ---- OUT --------------------------------------------------------------- */

/* What the agent has of the file already. */
static ssize_t
move_partial(void *ctx, void *data, size_t len)
{
	struct cp_copy *c = ctx;
	struct wire msg;

	if (c->phase != CP_PARTIAL || cp_take_head(c, data, len) < len) {
		return cp_broken(c, "the agent's word on a partial file");
	}
	if (filecopy_head_wants(&c->head) > 0) {
		return (ssize_t)len;
	}
	if (filecopy_head_get(&c->head, WIRE_PARTIAL, &msg) < 0 ||
	    msg.u.partial.hash.len != SEAL_KEY) {
		return cp_broken(c, "the agent's word on a partial file");
	}
	c->have = msg.u.partial.size;
	memcpy(c->have_hash, msg.u.partial.hash.at, SEAL_KEY);
	c->phase = CP_COMPARE;
	c->run.in.fd = c->file;
	run_ready(&c->run);
	return (ssize_t)len;
}

/* ---- the request ------------------------------------------------------- */

static int
open_source(struct cp_copy *c, struct error *error)
{
	const struct cp *cp = c->cp;

	c->fd = cp_is_stdio(&cp->from) ? STDIN_FILENO :
	    open(cp->from.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (c->fd < 0 || fstat(c->fd, &c->source) < 0) {
		error_set(error, WIRE_STEP_OPEN, errno, "%.900s",
		    cp->from.path);
		return -1;
	}
	if (S_ISDIR(c->source.st_mode)) {
		error_set(error, WIRE_STEP_OPEN, EISDIR, "%.900s (a tree "
		    "takes -r)", cp->from.path);
		return -1;
	}
	/* Someone else's offset counts: stdin is read from where it is. */
	c->seeks = S_ISREG(c->source.st_mode) && !cp_is_stdio(&cp->from);
	if (!c->seeks && cp->offset > 0 &&
	    lseek(c->fd, (off_t)cp->offset, SEEK_SET) < 0) {
		error_set(error, WIRE_STEP_READ, errno, "%.900s",
		    cp->from.path);
		return -1;
	}
	if (c->seeks && (uint64_t)c->source.st_size > cp->offset) {
		c->progress.total = (uint64_t)c->source.st_size - cp->offset;
		c->progress.total = c->progress.total < cp->length ?
		    c->progress.total : cp->length;
	}
	stdfd_open(&c->file, c->fd, false);
	return 0;
}

static void
fill_put(const struct cp_copy *c, struct wire_put *put)
{
	const struct cp *cp = c->cp;
	const struct stat *st = &c->source;
	bool plain = S_ISREG(st->st_mode) && !cp_is_stdio(&cp->from);

	put->mode = plain ? st->st_mode & 07777 : 0666 & ~sink_umask();
	put->user = cp->user;
	put->path = wire_string(cp->to.path);
	put->name = wire_string(cp->base);
	put->flags = ((cp->flags & CP_PARENTS) != 0 ? WIRE_PUT_PARENTS : 0) |
	    ((cp->flags & CP_APPEND) != 0 ? WIRE_PUT_APPEND : 0) |
	    ((cp->flags & CP_RESUME) != 0 ? WIRE_PUT_RESUME : 0) |
	    ((cp->flags & CP_VERIFY) != 0 ? WIRE_PUT_HASH : 0);
	if ((cp->flags & CP_ARCHIVE) != 0 && plain) {
		put->flags |= WIRE_PUT_MODE | WIRE_PUT_MTIME | WIRE_PUT_OWNER;
		put->uid = (uint32_t)st->st_uid;
		put->gid = (uint32_t)st->st_gid;
		put->mtime = (uint64_t)st->st_mtim.tv_sec * 1000000000u +
		    (uint64_t)st->st_mtim.tv_nsec;
	}
	if ((cp->flags & CP_MODE) != 0) {
		put->mode = cp->mode;
		put->flags |= WIRE_PUT_MODE;
	}
}

static void
set_flows(struct cp_copy *c)
{
	struct run *run = &c->run;

	run->in = (struct run_flow){ .fd = { .fd = -1 }, .ctx = c,
	    .name = c->cp->from.path, .move = move_in };
	run->out = (struct run_flow){ .fd = { .fd = -1 }, .ctx = c,
	    .name = "the agent's answer", .move = move_partial };
	run->err = (struct run_flow){ .fd = { .fd = -1 } };
	run->has_in = true;
	if ((c->cp->flags & CP_RESUME) == 0) {
		run->in.fd = c->file;
		begin_upload(c, 0);
	} else {
		seal_digest_init(&c->digest);
		c->phase = CP_PARTIAL;
	}
}

/* The agent has compared; its word is compared too. */
static int
verify(const struct cp_copy *c, struct error *error)
{
	if (!cp_verifies(c) || (c->info.hash.len == SEAL_KEY &&
	    memcmp(c->hash, c->far, SEAL_KEY) == 0)) {
		return 0;
	}
	error_set(error, WIRE_STEP_PROTOCOL, 0, "%s: the agent says that it "
	    "has verified what it has not", c->cp->to.path);
	return -1;
}

int
cp_up(struct cp_copy *c, struct error *error)
{
	struct wire msg = { .type = WIRE_PUT };
	struct run_end end = { 0 };
	int status = CMD_OK;

	if (open_source(c, error) < 0) {
		return CMD_FAILED;
	}
	fill_put(c, &msg.u.put);
	set_flows(c);
	if (cp_connect(c, &end.error) == 0 && cp_catch(&end.error) == 0) {
		cp_run(c, &msg, &end);
	}
	if (cp_check(c, &end, end.in, error) < 0) {
		status = cp_failed(&end);
	} else if (verify(c, error) < 0) {
		status = CMD_FAILED;
	}
	run_end_free(&end);
	return status;
}
