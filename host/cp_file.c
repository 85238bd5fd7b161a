/* SPDX-License-Identifier: MIT */
/* cp_file.c - `sandmux cp` of one file: its request, from start to end. */
#include "cp_copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "cp_partial.h"
#include "interrupt.h"
#include "quote.h"
#include "system.h"

static struct cp_copy copy;		/* the process copies one file */

/* ---- for both directions ----------------------------------------------- */

ssize_t
cp_broken(struct cp_copy *c, const char *what)
{
	error_set(&c->run.end->error, WIRE_STEP_PROTOCOL, 0, "%s", what);
	c->run.over = true;
	errno = EPROTO;
	return -1;
}

bool
cp_verifies(const struct cp_copy *c)
{
	return (c->cp->flags & CP_VERIFY) != 0;
}

void
cp_hash(struct cp_copy *c, uint64_t at, const void *buf, size_t len)
{
	if (cp_verifies(c)) {
		filecopy_hash_hole(&c->digest, at - c->hashed);
		seal_digest_add(&c->digest, buf, len);
		c->hashed = at + len;
	}
}

size_t
cp_take_head(struct cp_copy *c, const uint8_t *data, size_t len)
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

/* ---- the request ------------------------------------------------------- */

int
cp_connect(struct cp_copy *c, struct error *error)
{
	struct client_config config = { .target = c->cp->target,
	    .flags = CLIENT_START, .events = &run_events, .ctx = &c->run };

	c->run.client = client_open(&config, error);
	if (c->run.client == NULL) {
		return -1;
	}
	system_batch();			/* a controller it started is not */
	return 0;
}

int
cp_catch(struct error *error)
{
	if (interrupt_init() < 0) {
		error_set(error, WIRE_STEP_START, errno, "signals");
		return -1;
	}
	return 0;
}

static void
turn(void *ctx, struct pollset *set)
{
	struct cp_copy *c = ctx;

	progress_turn(&c->progress, set);
}

static void
keep_info(struct cp_copy *c, const struct run_end *end)
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

void
cp_run(struct cp_copy *c, const struct wire *msg, struct run_end *end)
{
	c->run.catch = true;
	c->run.turn = turn;
	c->run.ctx = c;
	progress_start(&c->progress, !cp_is_stdio(&c->cp->to) ||
	    !isatty(STDOUT_FILENO));
	run_request(&c->run, msg, end);
	progress_end(&c->progress);
	keep_info(c, end);
}

int
cp_check(const struct cp_copy *c, const struct run_end *end, uint64_t bytes,
    struct error *error)
{
	if (run_complaint(end, error)) {
		return -1;
	}
	if (!end->complete || end->outcome != WIRE_EXITED || end->code != 0) {
		error_set(error, WIRE_STEP_NONE, 0, "interrupted");
		return -1;
	}
	if (bytes != c->moved || !c->informed || c->phase !=
	    (c->cp->from.local ? CP_TAIL : CP_BODY)) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "%" PRIu64 " bytes "
		    "passed here, %" PRIu64 " there", c->moved, bytes);
		return -1;
	}
	return 0;
}

/* ---- the command ------------------------------------------------------- */

static void
say_end(struct cp_copy *c, int status, const struct error *error)
{
	char hex[2 * SEAL_KEY + 1];
	struct json json;
	bool ok = status == CMD_OK;

	cp_end_begin(&json, status, &c->progress);
	json_u64(&json, "bytes", c->progress.done);
	json_u64(&json, "resumed_from", c->progress.base);
	json_bool(&json, "atomic", ok && (c->cp->from.local ?
	    (c->info.flags & WIRE_FILE_ATOMIC) != 0 : c->sink.atomic));
	if (ok && cp_verifies(c)) {
		seal_hex(c->hash, SEAL_KEY, hex);
		json_string(&json, "blake2b_256", hex);
	} else {
		json_null(&json, "blake2b_256");
	}
	cp_end_send(&c->events, &json, status, error);
}

int
cp_file(const struct cp *cp, struct error *error)
{
	struct cp_copy *c = &copy;
	int status, record = -1;

	*c = (struct cp_copy){ .cp = cp, .fd = -1, .file = { .fd = -1 },
	    .left = cp->length, .events = { .fd = -1 },
	    .sink = { .dir = -1, .fd = -1, .file = { .fd = -1 } } };
	c->progress.name = cp->from.local ? cp->from.path : cp->to.path;
	if (cp_say_start(cp, &c->events, &c->progress, error) < 0) {
		return CMD_FAILED;
	}
	if ((cp->flags & CP_RESUME) != 0) {
		record = cp_partial_begin(cp, error);
		status = record < 0 ? CMD_FAILED : CMD_OK;
	} else {
		status = CMD_OK;
	}
	if (status == CMD_OK) {
		status = cp->from.local ? cp_up(c, error) : cp_down(c, error);
	}
	client_close(c->run.client);
	say_end(c, status, error);
	if (status == CMD_OK && cp_verifies(c)) {
		cp_say_hashes(cp, c->hash, c->far);
	}
	if (c->file.fd != c->sink.file.fd) {
		stdfd_close(&c->file);
	}
	sink_close(&c->sink);
	cp_partial_end(cp, record, status == CMD_OK);
	if (c->fd > STDERR_FILENO) {
		close(c->fd);
	}
	events_close(&c->events);
	return status;
}
