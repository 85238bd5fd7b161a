/* SPDX-License-Identifier: MIT */
/* attend.c - a job's streams or terminal, its signals, its end in words. */
#include "attend.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd.h"
#include "interrupt.h"
#include "quote.h"
#include "report.h"
#include "tty.h"

#define ATTEND_NAMED 16u		/* survivors that a line names */

static const char *const streams[2] = { "stdout", "stderr" };

/* ---- the streams ------------------------------------------------------ */

static ssize_t
pass(struct attend *a, unsigned i, void *data, size_t len)
{
	ssize_t n = clip_move(&a->clip[i], data, len);

	if (a->kill && !a->over_limit && a->clip[i].seen > a->limit) {
		a->over_limit = true;
		run_cancel(&a->run);
	}
	return n;
}

static ssize_t
pass_out(void *ctx, void *data, size_t len)
{
	return pass(ctx, 0, data, len);
}

static ssize_t
pass_err(void *ctx, void *data, size_t len)
{
	return pass(ctx, 1, data, len);
}

/* Wait for room in a stream; a signal's number, or 0. */
static int
wait_room(const struct stdfd *fd)
{
	struct pollset set = { 0 };
	int number = 0;

	pollset_clear(&set);
	pollset_add(&set, fd->fd, POLLOUT);
	pollset_add(&set, interrupt_fd(), POLLIN);
	if (pollset_wait(&set) == 0) {
		number = interrupt_take();
	}
	pollset_free(&set);
	return number;
}

/* Write the tails that were kept, unless we were told to leave. */
static void
finish(struct attend *a)
{
	struct run_end *end = &a->end;
	unsigned i;
	int rc;

	for (i = 0; i < 2 && (end->complete || end->signal == 0); i++) {
		while ((rc = clip_finish(&a->clip[i])) == 0) {
			end->signal = wait_room(a->clip[i].fd);
			if (end->signal != 0) {
				end->complete = false;
				return;
			}
		}
		if (rc < 0) {
			if (errno == EPIPE) {
				interrupt_broken_pipe();
			}
			end->complete = false;
			error_set(&end->error, WIRE_STEP_WRITE, errno, "%s",
			    streams[i]);
			return;
		}
	}
}

static int
open_streams(struct attend *a)
{
	struct run *run = &a->run;
	bool raw = run->terminal && run->has_in && isatty(STDIN_FILENO);

	if (interrupt_init() < 0 ||
	    (run->terminal && interrupt_terminal() < 0)) {
		error_set(&a->end.error, WIRE_STEP_START, errno, "signals");
		return -1;
	}
	stdfd_open(&run->in.fd, STDIN_FILENO, false);
	stdfd_open(&run->out.fd, STDOUT_FILENO, true);
	stdfd_open(&run->err.fd, STDERR_FILENO, true);
	clip_init(&a->clip[0], &run->out.fd, a->keep, a->limit);
	clip_init(&a->clip[1], &run->err.fd, a->keep, a->limit);
	if (raw && tty_raw(STDIN_FILENO) < 0) {
		error_set(&a->end.error, WIRE_STEP_START, errno, "the "
		    "terminal's raw mode");
		return -1;
	}
	run->raw = raw;
	return 0;
}

static void
carry(struct attend *a, const struct wire *msg)
{
	struct client_config config = {
		.target = a->target, .flags = a->flags | CLIENT_START,
		.events = &run_events, .ctx = &a->run
	};
	struct run *run = &a->run;

	*run = (struct run){
		.in = { .fd = { .fd = -1 }, .name = "stdin" },
		.out = { .fd = { .fd = -1 }, .name = streams[0],
		    .move = pass_out, .ctx = a },
		.err = { .fd = { .fd = -1 }, .name = streams[1],
		    .move = pass_err, .ctx = a },
		.has_in = (a->how & ATTEND_STDIN) != 0,
		.terminal = (a->how & ATTEND_TERMINAL) != 0,
		.leave = (a->how & ATTEND_LEAVE) != 0, .catch = true
	};
	a->end = (struct run_end){ 0 };
	run->client = client_open(&config, &a->end.error);
	if (run->client == NULL) {
		return;
	}
	if (open_streams(a) == 0) {
		run_request(run, msg, &a->end);
	}
	/* Before the tails: these may be stopped as output is. */
	tty_restore();
	finish(a);
	stdfd_close(&run->in.fd);
	stdfd_close(&run->out.fd);
	stdfd_close(&run->err.fd);
	client_close(run->client);
}

/* ---- what is said ------------------------------------------------------ */

static void
note(const struct attend *a, const char *line)
{
	dprintf(STDERR_FILENO, "sandmux: %s: %s\n", a->what, line);
}

/* "the first 10 and the last 10 of 50 bytes are shown". */
static void
note_cut(const struct attend *a, unsigned i)
{
	const struct clip *clip = &a->clip[i];
	uint64_t head = clip->shown < clip->head ? clip->shown : clip->head;
	char line[160];
	size_t used;

	if (!clip_cut(clip)) {
		return;
	}
	used = quote_add(line, sizeof(line), 0, "%s: ", streams[i]);
	if (clip->shown == 0) {
		used = quote_add(line, sizeof(line), used, "none");
	} else if (head > 0) {
		used = quote_add(line, sizeof(line), used,
		    "the first %" PRIu64, head);
	}
	if (clip->shown > head) {
		used = quote_add(line, sizeof(line), used,
		    "%sthe last %" PRIu64, head > 0 ? " and " : "",
		    clip->shown - head);
	}
	quote_add(line, sizeof(line), used, " of %" PRIu64 " bytes are shown",
	    clip->seen);
	note(a, line);
}

static void
note_gone(const struct attend *a, unsigned i, uint64_t from)
{
	char line[160];

	if (from > 0) {
		snprintf(line, sizeof(line), "%s: the first %" PRIu64
		    " bytes are gone (--log-size)", streams[i], from);
		note(a, line);
	}
}

static void
note_survivors(const struct attend *a, struct wire_list list)
{
	char line[4096], one[128];
	struct wire_bytes item;
	uint32_t i;
	size_t used;

	used = quote_add(line, sizeof(line), 0, "%u process%s could not be "
	    "ended:", (unsigned)list.count, list.count == 1 ? "" : "es");
	for (i = 0; i < ATTEND_NAMED && wire_next(&list, &item); i++) {
		quote_bytes(one, sizeof(one), item.at, item.len);
		used = quote_add(line, sizeof(line), used, "%s %s",
		    i == 0 ? "" : ",", one);
	}
	if (wire_next(&list, &item)) {
		quote_add(line, sizeof(line), used, ", ...");
	}
	note(a, line);
}

static void
notes(const struct attend *a)
{
	struct wire_exec_info info;
	char line[WIRE_PATH_MAX], dir[WIRE_PATH_MAX - 128];

	note_cut(a, 0);
	note_cut(a, 1);
	if (!run_exec_info(&a->end, &info)) {
		return;
	}
	note_gone(a, 0, info.out_from);
	note_gone(a, 1, info.err_from);
	if ((info.flags & WIRE_EXEC_CWD_FELL_BACK) != 0) {
		quote_bytes(dir, sizeof(dir), info.cwd.at, info.cwd.len);
		snprintf(line, sizeof(line), "the target's working directory "
		    "cannot be entered, it ran in %s", dir);
		note(a, line);
	}
	if (info.survivors.count > 0) {
		note_survivors(a, info.survivors);
	}
}

static int
status_of(const struct attend *a)
{
	const struct run_end *end = &a->end;

	if (a->over_limit && end->complete && end->signal == 0 &&
	    end->outcome == WIRE_CANCELLED) {
		return ATTEND_OVER_LIMIT;
	}
	if ((a->how & ATTEND_LOOK) != 0 && end->complete &&
	    end->outcome != WIRE_FAILED) {
		return CMD_OK;
	}
	return run_exit_status(end);
}

static bool
complains(const struct attend *a, int status, struct error *error)
{
	if (status == ATTEND_OVER_LIMIT && a->over_limit) {
		error_set(error, WIRE_STEP_NONE, 0, "ended at the limit of "
		    "its output (--max-output)");
		return true;
	}
	if ((a->how & ATTEND_LOOK) != 0 && status == CMD_OK) {
		return false;
	}
	return run_complaint(&a->end, error);
}

int
attend(struct attend *a, const struct wire *msg)
{
	struct error error;
	int status;

	carry(a, msg);
	status = status_of(a);
	if (complains(a, status, &error)) {
		cmd_fail(a->what, &error, status);
	}
	notes(a);
	if (a->json != NULL && report_write(a, status, &error) < 0) {
		status = cmd_fail(a->what, &error, RUN_UNREACHED);
	}
	return status;
}

void
attend_free(struct attend *a)
{
	clip_free(&a->clip[0]);
	clip_free(&a->clip[1]);
	run_end_free(&a->end);
}
