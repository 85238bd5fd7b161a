/* SPDX-License-Identifier: MIT */
/* run.c - one request of a client's, carried to its end. */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "tty.h"
#include "words.h"

/* Something here failed: the job is cancelled by our going away. */
static void
give_up(struct run *run, enum wire_step step, const char *name)
{
	if (!run->over) {
		error_set(&run->end->error, step, errno, "%s", name);
		run->over = true;
	}
}

/* The user wants out, whatever becomes of the request. */
static void
leave(struct run *run, int number)
{
	run->end->signal = number;
	error_set(&run->end->error, WIRE_STEP_LINK, 0, "left by a signal");
	run->over = true;
}

static ssize_t
move(const struct run_flow *flow, void *buf, size_t len, bool writing)
{
	if (flow->move != NULL) {
		return flow->move(flow->ctx, buf, len);
	}
	return writing ? stdfd_write(&flow->fd, buf, len) :
	    stdfd_read(&flow->fd, buf, len);
}

static struct run_flow *
flow_of(struct run *run, unsigned index)
{
	return index == 0 ? &run->out : &run->err;
}

/* Write what can be written now. */
static size_t
deliver(struct run *run, unsigned index, const uint8_t *data, size_t len)
{
	struct run_flow *flow = flow_of(run, index);
	bool pieces = flow->fd.way == STDFD_ASK;
	size_t done = 0, want;
	ssize_t n;

	while (done < len && !run->over) {
		/* move() is for both directions, hence not const. */
		want = len - done;
		n = move(flow, (void *)(uintptr_t)(data + done), want, true);
		if (n < 0 && errno == EAGAIN) {
			break;
		}
		if (n < 0) {
			if (errno == EPIPE) {
				tty_restore();
				interrupt_broken_pipe();
			}
			give_up(run, WIRE_STEP_WRITE, flow->name);
			return len;
		}
		done += (size_t)n;
		if ((size_t)n < want && !pieces) {
			break;		/* it is full now */
		}
	}
	return done;
}

static size_t
on_data(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	(void)req;
	return deliver(ctx, index, data, len);
}

static void
on_ended(void *ctx, struct session_request *req, unsigned index)
{
	(void)ctx;
	(void)req;
	(void)index;
}

static size_t
on_pull(void *ctx, struct session_request *req, unsigned index, uint8_t *buf,
    size_t max)
{
	struct run *run = ctx;
	ssize_t n;

	if (run->in_done || run->over) {
		return 0;
	}
	n = move(&run->in, buf, max, false);
	if (n > 0 && run->raw && tty_leaves(buf, (size_t)n)) {
		leave(run, SIGINT);
	}
	if (n > 0) {
		return (size_t)n;
	}
	if (n == 0) {
		run->in_done = true;
		session_end(req, index);
	} else if (errno != EAGAIN) {
		give_up(run, WIRE_STEP_READ, run->in.name);
	}
	return 0;
}

static void
on_unwanted(void *ctx, struct session_request *req, unsigned index)
{
	struct run *run = ctx;

	(void)req;
	(void)index;
	run->in_done = true;
}

static void
on_result(void *ctx, struct session_request *req,
    const struct wire_result *result)
{
	struct run *run = ctx;
	struct run_end *end = run->end;

	(void)req;
	if (run->over) {
		return;
	}
	run->over = true;
	end->complete = true;
	end->outcome = (enum wire_outcome)result->outcome;
	end->code = result->code;
	end->in = result->in;
	end->out = result->out;
	end->err = result->err;
	end->wall_us = result->wall_us;
	end->new_agent = result->new_agent != 0;
	end->detached = result->detached != 0;
	if (result->outcome == WIRE_FAILED) {
		words_result(result, &end->error);
	}
	if (result->info.len > 0) {
		end->info = malloc(result->info.len);
		if (end->info != NULL) {
			memcpy(end->info, result->info.at, result->info.len);
			end->info_len = result->info.len;
		}
	}
}

static void
on_log(void *ctx, const struct wire_log *log)
{
	(void)ctx;
	(void)log;	/* the controller's log has it */
}

const struct session_events run_events = {
	.data = on_data, .ended = on_ended, .pull = on_pull,
	.unwanted = on_unwanted, .result = on_result, .log = on_log
};

/* ---- the loop -------------------------------------------------------- */

static void
interest(struct run *run, struct pollset *set)
{
	const uint8_t *data;
	unsigned i;

	run->slot_in = POLLSET_NONE;
	if (run->has_in && !run->in_done && session_hungry(run->req, 1)) {
		run->slot_in = pollset_add(set, run->in.fd.fd, POLLIN);
	}
	for (i = 0; i < 2; i++) {
		run->slot_out[i] = session_peek(run->req, i, &data) == 0 ?
		    POLLSET_NONE :
		    pollset_add(set, flow_of(run, i)->fd.fd, POLLOUT);
	}
	run->slot_signal = run->catch ?
	    pollset_add(set, interrupt_fd(), POLLIN) : POLLSET_NONE;
	client_interest(run->client, set);
	if (run->turn != NULL) {
		run->turn(run->ctx, set);
	}
}

/* What could not be written at once. */
static void
drain(struct run *run, unsigned index)
{
	const uint8_t *data;
	size_t len, n;

	while (!run->over &&
	    (len = session_peek(run->req, index, &data)) > 0) {
		n = deliver(run, index, data, len);
		if (n == 0 || run->over) {
			return;
		}
		session_consume(run->req, index, n);
		if (n < len) {
			return;
		}
	}
}

/* Whether bytes are here that stdout or stderr could not take yet. */
static bool
undelivered(const struct run *run)
{
	const uint8_t *data;

	return session_peek(run->req, 0, &data) > 0 ||
	    session_peek(run->req, 1, &data) > 0;
}

static void
resize(struct run *run)
{
	unsigned rows, columns;

	if (run->terminal && tty_size(&rows, &columns)) {
		session_resize(run->req, rows, columns);
	}
}

static void
on_signal(struct run *run, int number)
{
	switch (number) {
	case SIGTSTP:
		tty_stop();
		break;
	case SIGCONT:
		tty_continue();
		break;
	case SIGWINCH:
		break;
	default:
		if (run->leave || run->signals++ > 0) {
			leave(run, number);
		} else {
			run->end->signal = number;
			session_cancel(run->req);
		}
		return;
	}
	resize(run);
}

static void
act(struct run *run, const struct pollset *set)
{
	unsigned i;
	int number;

	while (!run->over && pollset_ready(set, run->slot_signal) != 0 &&
	    (number = interrupt_take()) != 0) {
		on_signal(run, number);
	}
	for (i = 0; i < 2; i++) {
		if (pollset_ready(set, run->slot_out[i]) != 0) {
			drain(run, i);
		}
	}
	if (!run->over && pollset_ready(set, run->slot_in) != 0) {
		session_ready(run->req, 1);
	}
	if (!run->over) {
		client_run(run->client, set);
	}
	/* What arrived before the connection was lost is still delivered. */
	if (!run->over && client_error(run->client) != NULL &&
	    !undelivered(run)) {
		run->end->error = *client_error(run->client);
		run->over = true;
	}
}

void
run_cancel(struct run *run)
{
	session_cancel(run->req);
}

void
run_ready(struct run *run)
{
	session_ready(run->req, 1);
}

int
run_request(struct run *run, const struct wire *msg, struct run_end *end)
{
	struct pollset set = { 0 };

	*end = (struct run_end){ 0 };
	run->end = end;
	run->req = client_request(run->client, msg, &end->error);
	run->over = run->req == NULL;
	run->in_done = false;
	run->signals = 0;
	if (!run->over && run->has_in) {
		run_ready(run);
	}
	/* EXEC has the first size in it. */
	if (!run->over && msg->type == WIRE_ATTACH) {
		resize(run);
	}
	while (!run->over) {
		pollset_clear(&set);
		interest(run, &set);
		if (pollset_wait(&set) < 0) {
			give_up(run, WIRE_STEP_LINK, "poll");
			break;
		}
		act(run, &set);
	}
	if (end->complete) {
		session_forget(run->req);
	}
	pollset_free(&set);
	return end->complete ? 0 : -1;
}

void
run_end_free(struct run_end *end)
{
	free(end->info);
	end->info = NULL;
	end->info_len = 0;
}

/* ---- how it ended ---------------------------------------------------- */

bool
run_exec_info(const struct run_end *end, struct wire_exec_info *info)
{
	struct wire msg;

	if (end->info == NULL || wire_decode(end->info, end->info_len,
	    &msg) != WIRE_OK || msg.type != WIRE_EXEC_INFO) {
		return false;
	}
	*info = msg.u.exec_info;
	return true;
}

static int
failed_status(const struct error *error)
{
	switch (error->step) {
	case WIRE_STEP_EXEC:
		return error->number == ENOENT ? RUN_NOT_FOUND :
		    RUN_NOT_STARTED;
	case WIRE_STEP_FORK:
	case WIRE_STEP_PIPE:
	case WIRE_STEP_STDIO:
	case WIRE_STEP_CHDIR:
	case WIRE_STEP_OPEN:
	case WIRE_STEP_USER:
	case WIRE_STEP_LIMIT:
	case WIRE_STEP_PTY:
		return RUN_NOT_STARTED;
	case WIRE_STEP_JOB:
		return RUN_NO_JOB;
	default:
		return RUN_UNREACHED;
	}
}

int
run_exit_status(const struct run_end *end)
{
	if (!end->complete) {
		return end->signal != 0 ? RUN_SIGNAL + end->signal :
		    RUN_UNREACHED;
	}
	switch (end->outcome) {
	case WIRE_EXITED:
		return end->code & 0xff;
	case WIRE_SIGNALED:
		return RUN_SIGNAL + (end->code & 0x7f);
	case WIRE_TIMED_OUT:
		return RUN_TIMED_OUT;
	case WIRE_CANCELLED:
		return end->signal != 0 ? RUN_SIGNAL + end->signal :
		    RUN_UNREACHED;
	default:
		return failed_status(&end->error);
	}
}

bool
run_complaint(const struct run_end *end, struct error *error)
{
	if (end->signal != 0 && (!end->complete ||
	    end->outcome == WIRE_CANCELLED)) {
		return false;
	}
	if (!end->complete || end->outcome == WIRE_FAILED) {
		*error = end->error;
		return true;
	}
	if (end->outcome == WIRE_TIMED_OUT) {
		error_set(error, WIRE_STEP_NONE, 0, "timed out after %.1f s",
		    (double)end->wall_us / 1e6);
		return true;
	}
	if (end->outcome == WIRE_CANCELLED) {
		error_set(error, WIRE_STEP_NONE, 0, "cancelled");
		return true;
	}
	return false;
}
