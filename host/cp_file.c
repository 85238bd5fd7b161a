/* SPDX-License-Identifier: MIT */
/* cp_file.c - `sandmux cp` of one file, up or down. */
#include "cp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "cmd.h"
#include "events.h"
#include "filecopy.h"
#include "interrupt.h"
#include "progress.h"
#include "quote.h"
#include "report.h"
#include "run.h"
#include "sink.h"
#include "system.h"

#define HASH_PIECE 4194304u		/* hashed between two turns */

/* What the flows of one copy are at. */
enum phase {
	PARTIAL,			/* up: the agent says what it has */
	COMPARE,			/* up: hashing as much of the source */
	HEAD,				/* START goes or comes */
	BODY
};

struct copy {
	const struct cp *cp;
	struct run run;
	enum phase phase;
	struct filecopy at;
	struct filecopy_head head;	/* START, or PARTIAL */
	size_t said;			/* of head, up */
	uint64_t moved;			/* bytes of IN or OUT, head and all */
	uint64_t left;			/* up: of --length */
	uint64_t have;			/* of a partial file */
	uint8_t have_hash[SEAL_KEY];
	struct seal_digest digest;	/* of what has gone by */
	uint64_t hashed;
	uint8_t hash[SEAL_KEY];		/* this end's */
	struct sink sink;		/* down, to a file */
	struct stdfd file;		/* where bytes come from or go to */
	int fd;				/* owned source, -1: none */
	bool seeks;			/* pread() works on it */
	struct stat source;
	struct wire_file_info info;	/* the agent's, hash kept below */
	uint8_t far[SEAL_KEY];
	bool informed;
	struct progress progress;
	struct events events;
};

static struct copy copy;		/* the process copies one file */

static ssize_t
broken(struct copy *c, const char *what)
{
	error_set(&c->run.end->error, WIRE_STEP_PROTOCOL, 0, "%s", what);
	c->run.over = true;
	errno = EPROTO;
	return -1;
}

static bool
verifies(const struct copy *c)
{
	return (c->cp->flags & CP_VERIFY) != 0;
}

/* What comes by at copy->at is hashed, holes before it too. */
static void
hash_piece(struct copy *c, uint64_t at, const void *buf, size_t len)
{
	if (verifies(c)) {
		filecopy_hash_hole(&c->digest, at - c->hashed);
		seal_digest_add(&c->digest, buf, len);
		c->hashed = at + len;
	}
}

/* ---- up: IN ------------------------------------------------------------ */

/* The source from `from` on; START is ready to go. */
static void
begin_upload(struct copy *c, uint64_t from)
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
	c->phase = HEAD;
}

/* Whether the source begins with what the agent has; a piece at a time. */
static ssize_t
compare(struct copy *c)
{
	uint64_t want = c->have - c->hashed;
	uint8_t hash[SEAL_KEY];
	int rc = filecopy_hash(&c->digest, c->fd, &c->hashed,
	    want < HASH_PIECE ? want : HASH_PIECE);

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
read_source(struct copy *c, void *buf, size_t len)
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

static ssize_t
move_in(void *ctx, void *buf, size_t len)
{
	struct copy *c = ctx;
	ssize_t n;

	if (c->phase == PARTIAL) {
		errno = EAGAIN;
		return -1;
	}
	if (c->phase == COMPARE && compare(c) < 0) {
		return -1;
	}
	if (c->phase == HEAD) {
		n = (ssize_t)(c->head.have - c->said);
		n = (size_t)n < len ? n : (ssize_t)len;
		memcpy(buf, c->head.buf + c->said, (size_t)n);
		c->said += (size_t)n;
		c->moved += (size_t)n;
		c->phase = c->said == c->head.have ? BODY : HEAD;
		return n;
	}
	n = read_source(c, buf, len);
	if (n > 0) {
		hash_piece(c, c->at.at, buf, (size_t)n);
		filecopy_moved(&c->at, (uint64_t)n);
		c->left -= c->left == WIRE_TO_END ? 0 : (uint64_t)n;
		c->progress.done = c->seeks ? c->at.at - c->cp->offset :
		    c->progress.done + (uint64_t)n;
		c->moved += (size_t)n;
	}
	return n;
}

/* ---- up: OUT, and down ------------------------------------------------- */

/* As much of the head as there is; the rest of the bytes is behind it. */
static size_t
take_head(struct copy *c, const uint8_t *data, size_t len)
{
	size_t done = 0, n;
	ssize_t want;

	while (done < len && (want = filecopy_head_wants(&c->head)) > 0) {
		n = (size_t)want < len - done ? (size_t)want : len - done;
		memcpy(c->head.buf + c->head.have, data + done, n);
		c->head.have += n;
		done += n;
	}
	return done;
}

/* What the agent has of the file already. */
static ssize_t
move_partial(void *ctx, void *data, size_t len)
{
	struct copy *c = ctx;
	struct wire msg;

	if (c->phase != PARTIAL || take_head(c, data, len) < len) {
		return broken(c, "the agent's word on a partial file");
	}
	if (filecopy_head_wants(&c->head) > 0) {
		return (ssize_t)len;
	}
	if (filecopy_head_get(&c->head, WIRE_PARTIAL, &msg) < 0 ||
	    msg.u.partial.hash.len != SEAL_KEY) {
		return broken(c, "the agent's word on a partial file");
	}
	c->have = msg.u.partial.size;
	memcpy(c->have_hash, msg.u.partial.hash.at, SEAL_KEY);
	c->phase = COMPARE;
	c->run.in.fd = c->file;
	run_ready(&c->run);
	return (ssize_t)len;
}

static ssize_t
begin_download(struct copy *c)
{
	const struct cp *cp = c->cp;
	bool stdio = cp_is_stdio(&cp->to);
	struct wire msg;
	uint64_t from;

	if (filecopy_head_get(&c->head, WIRE_START, &msg) < 0) {
		return broken(c, "the agent's START is none");
	}
	from = msg.u.start.from;
	/* What is behind an offset begins the file here. */
	msg.u.start.from -= cp->offset;
	if (from < cp->offset || filecopy_accept(&c->at, &msg.u.start) < 0 ||
	    (from != cp->offset && from != c->have) ||
	    (c->at.count > 0 && (stdio || c->sink.stream || cp->offset > 0))) {
		return broken(c, "the agent's START makes no sense");
	}
	c->phase = BODY;
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

static ssize_t
write_sink(struct copy *c, const void *buf, size_t len)
{
	uint64_t at = c->at.at;
	ssize_t n;

	if (c->at.at - c->at.from >= c->cp->length) {
		return broken(c, "more bytes than were asked for");
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
		hash_piece(c, at, buf, (size_t)n);
		c->progress.done = at + (uint64_t)n;
		c->moved += (size_t)n;
	}
	return n;
}

static ssize_t
move_out(void *ctx, void *buf, size_t len)
{
	struct copy *c = ctx;
	size_t head = 0, done;
	ssize_t n = 0;

	if (c->phase == HEAD) {
		head = take_head(c, buf, len);
		c->moved += head;
		if (filecopy_head_wants(&c->head) < 0) {
			return broken(c, "the agent's START is too long");
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

/* ---- one transfer ------------------------------------------------------ */

static void
turn(void *ctx, struct pollset *set)
{
	struct copy *c = ctx;

	progress_turn(&c->progress, set);
}

static void
set_flows(struct copy *c, bool up)
{
	struct run *run = &c->run;

	run->out = (struct run_flow){ .fd = { .fd = -1 }, .ctx = c,
	    .name = up ? "the agent's answer" : c->cp->to.path,
	    .move = up ? move_partial : move_out };
	run->err = (struct run_flow){ .fd = { .fd = -1 } };
	run->in = (struct run_flow){ .fd = { .fd = -1 }, .ctx = c,
	    .name = c->cp->from.path, .move = move_in };
	if (up && (c->cp->flags & CP_RESUME) == 0) {
		run->in.fd = c->file;
	} else if (!up) {
		run->out.fd = c->file;
	}
	run->has_in = up;
	run->catch = true;
	run->turn = turn;
	run->ctx = c;
}

/* Where a download goes; after the handlers, since it may be named. */
static int
open_sink(struct copy *c, struct wire_get *get, struct error *error)
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

static void
keep_info(struct copy *c, const struct run_end *end)
{
	struct wire msg;

	if (end->info == NULL || wire_decode(end->info, end->info_len,
	    &msg) != WIRE_OK || msg.type != WIRE_FILE_INFO) {
		return;
	}
	c->info = msg.u.file_info;
	c->informed = true;
	if (c->info.hash.len == SEAL_KEY) {
		memcpy(c->far, c->info.hash.at, SEAL_KEY);
		c->info.hash.at = c->far;
	} else {
		c->info.hash.len = 0;
	}
}

static void
carry(struct copy *c, struct wire *msg, struct run_end *end)
{
	bool up = msg->type == WIRE_PUT;
	struct client_config config = { .target = c->cp->target,
	    .flags = CLIENT_START, .events = &run_events, .ctx = &c->run };

	*end = (struct run_end){ 0 };
	c->run.client = client_open(&config, &end->error);
	if (c->run.client == NULL) {
		return;
	}
	system_batch();			/* a controller it started is not */
	/* A partial file stays anyway, and hashing it can take long. */
	if (!up && (c->cp->flags & CP_RESUME) != 0 &&
	    open_sink(c, &msg->u.get, &end->error) < 0) {
		client_close(c->run.client);
		return;
	}
	if (interrupt_init() < 0) {
		error_set(&end->error, WIRE_STEP_START, errno, "signals");
	} else if (up || c->sink.fd >= 0 ||
	    open_sink(c, &msg->u.get, &end->error) == 0) {
		set_flows(c, up);
		progress_start(&c->progress, !cp_is_stdio(&c->cp->to) ||
		    !isatty(STDOUT_FILENO));
		run_request(&c->run, msg, end);
		progress_end(&c->progress);
		keep_info(c, end);
	}
	client_close(c->run.client);
}

/* Whether the far end has done all of it, byte for byte. */
static int
check(const struct copy *c, const struct run_end *end, uint64_t bytes,
    struct error *error)
{
	if (run_complaint(end, error)) {
		return -1;
	}
	if (!end->complete || end->outcome != WIRE_EXITED || end->code != 0) {
		error_set(error, WIRE_STEP_NONE, 0, "interrupted");
		return -1;
	}
	if (bytes != c->moved || c->phase != BODY || !c->informed) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "%" PRIu64 " bytes "
		    "passed here, %" PRIu64 " there", c->moved, bytes);
		return -1;
	}
	return 0;
}

/* Both ends' hashes are the same, if they were asked for. */
static int
verify(struct copy *c, struct error *error)
{
	if (!verifies(c) || (c->info.hash.len == SEAL_KEY &&
	    memcmp(c->hash, c->far, SEAL_KEY) == 0)) {
		return 0;
	}
	error_set(error, WIRE_STEP_PROTOCOL, 0, c->info.hash.len == 0 ?
	    "%s: it cannot be read back, nothing is verified" :
	    "%s: the two ends' bytes differ", c->cp->to.path);
	return -1;
}

/* ---- up ---------------------------------------------------------------- */

static int
open_source(struct copy *c, struct error *error)
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
fill_put(const struct copy *c, struct wire_put *put)
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

static int
upload(struct copy *c, struct error *error)
{
	struct wire msg = { .type = WIRE_PUT };
	struct run_end end;
	int status = CMD_OK;

	if (open_source(c, error) < 0) {
		return CMD_FAILED;
	}
	fill_put(c, &msg.u.put);
	c->phase = PARTIAL;
	if ((c->cp->flags & CP_RESUME) == 0) {
		begin_upload(c, 0);
	} else {
		seal_digest_init(&c->digest);
	}
	carry(c, &msg, &end);
	if (verifies(c) && c->phase == BODY) {
		filecopy_hash_hole(&c->digest, c->at.at - c->hashed);
		seal_digest_get(&c->digest, c->hash);
	}
	if (check(c, &end, end.in, error) < 0) {
		status = cp_failed(&end);
	} else if (verify(c, error) < 0) {
		status = CMD_FAILED;
	}
	run_end_free(&end);
	return status;
}

/* ---- down -------------------------------------------------------------- */

/* This end's hash: of the file as it can be read, else of what went by. */
static int
hash_sink(struct copy *c)
{
	struct seal_digest digest;
	uint64_t at = 0;

	if (c->sink.fd >= 0 && !c->sink.stream) {
		seal_digest_init(&digest);
		if (filecopy_hash(&digest, c->sink.fd, &at,
		    WIRE_TO_END) < 0) {
			return -1;
		}
	} else {
		digest = c->digest;
	}
	seal_digest_get(&digest, c->hash);
	return 0;
}

static int
settle(struct copy *c, struct error *error)
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

	if (!cp_is_stdio(&cp->to) && sink_end(&c->sink, &c->at) < 0) {
		error_set(error, WIRE_STEP_WRITE, errno, "%s", cp->to.path);
		return -1;
	}
	if (verifies(c) && hash_sink(c) < 0) {
		error_set(error, WIRE_STEP_READ, errno, "%s", cp->to.path);
		return -1;
	}
	if (verify(c, error) < 0) {
		return -1;
	}
	return cp_is_stdio(&cp->to) ? 0 : sink_commit(&c->sink, &dress,
	    error);
}

static int
download(struct copy *c, struct error *error)
{
	struct wire msg = { .type = WIRE_GET };
	struct run_end end;
	int status = CMD_OK;

	msg.u.get.user = c->cp->user;
	msg.u.get.path = wire_string(c->cp->from.path);
	msg.u.get.offset = c->cp->offset;
	msg.u.get.length = c->cp->length;
	msg.u.get.flags = verifies(c) ? WIRE_GET_HASH : 0;
	c->phase = HEAD;
	carry(c, &msg, &end);
	if (check(c, &end, end.out, error) < 0) {
		status = cp_failed(&end);
	} else if (settle(c, error) < 0) {
		status = CMD_FAILED;
	}
	run_end_free(&end);
	return status;
}

/* ---- what is said ------------------------------------------------------ */

static void
say_end(struct copy *c, int status, const struct error *error)
{
	static const struct error none;
	char hex[2 * SEAL_KEY + 1];
	struct json json;
	bool ok = status == CMD_OK;

	events_begin(&json, "end");
	json_bool(&json, "ok", ok);
	json_i64(&json, "status", status);
	json_u64(&json, "bytes", c->progress.done);
	json_u64(&json, "resumed_from", c->progress.base);
	json_double(&json, "seconds", c->progress.start == 0 ? 0 :
	    (double)(clock_now() - c->progress.start) / 1e6);
	json_bool(&json, "atomic", ok && (c->cp->from.local ?
	    (c->info.flags & WIRE_FILE_ATOMIC) != 0 : c->sink.atomic));
	if (ok && verifies(c)) {
		seal_hex(c->hash, SEAL_KEY, hex);
		json_string(&json, "blake2b_256", hex);
	} else {
		json_null(&json, "blake2b_256");
	}
	report_error(&json, ok ? &none : error);
	if (!ok && error->step == WIRE_STEP_NONE) {
		json_string(&json, "message", error->text);
	}
	events_send(&c->events, &json, true);
}

/* In the form of `b2sum -l 256`; on stderr where stdout is the file. */
static void
say_hashes(const struct copy *c)
{
	int to = cp_is_stdio(&c->cp->to) ? STDERR_FILENO : STDOUT_FILENO;
	char hex[2 * SEAL_KEY + 1], path[WIRE_PATH_MAX * 4 + 1];
	const struct target_operand *ends[2] = { &c->cp->from, &c->cp->to };
	unsigned i;

	for (i = 0; i < 2; i++) {
		seal_hex(ends[i]->local ? c->hash : c->far, SEAL_KEY, hex);
		quote_text(path, sizeof(path), ends[i]->path);
		dprintf(to, "%s  %s%s%s\n", hex, ends[i]->local ? "" :
		    c->cp->target, ends[i]->local ? "" : ":", path);
	}
}

int
cp_file(const struct cp *cp, struct error *error)
{
	struct copy *c = &copy;
	int status;

	*c = (struct copy){ .cp = cp, .fd = -1, .file = { .fd = -1 },
	    .left = cp->length, .events = { .fd = -1 },
	    .sink = { .dir = -1, .fd = -1, .file = { .fd = -1 } } };
	c->progress.name = cp->from.local ? cp->from.path : cp->to.path;
	if (cp->json != NULL) {
		if (events_open(&c->events, cp->json, error) < 0) {
			return CMD_FAILED;
		}
		c->progress.events = &c->events;
		cp_say_start(cp, &c->events);
	}
	status = cp->from.local ? upload(c, error) : download(c, error);
	say_end(c, status, error);
	if (status == CMD_OK && verifies(c)) {
		say_hashes(c);
	}
	if (c->file.fd != c->sink.file.fd) {
		stdfd_close(&c->file);
	}
	sink_close(&c->sink);
	if (c->fd > STDERR_FILENO) {
		close(c->fd);
	}
	events_close(&c->events);
	return status;
}
