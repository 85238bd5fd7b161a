/* SPDX-License-Identifier: MIT */
/* joblog.c - a detached job's kept output, and the requests that read it. */
#include "joblog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"

#define READ_MAX 65536u			/* of one stream in one turn */

/* The last bytes of a stream; offsets count from its start. */
struct ring {
	uint8_t *bytes;			/* owned, of log->keep; NULL: empty */
	uint64_t end;
	size_t slot;
};

struct joblog {
	struct ring ring[2];
	uint32_t keep;
	struct list readers;
};

/* One ATTACH. */
struct reader {
	struct serve serve;
	struct list link;
	struct job *job;
	struct session_request *req;
	struct pipes feed;		/* its IN to the job's stdin */
	uint32_t flags;
	uint64_t at[2];			/* the next byte to send */
	uint64_t stop[2];		/* without FOLLOW: where to end */
	uint64_t sent[2];
	bool closed[2];			/* nothing more is wanted of it */
};

static size_t total;			/* of all rings */

/* ---- rings ------------------------------------------------------------ */

struct joblog *
joblog_new(uint32_t keep)
{
	struct joblog *log;

	keep = keep == 0 ? JOBLOG_KEEP : keep;
	keep = keep > WIRE_KEEP_MAX ? WIRE_KEEP_MAX : keep;
	if (total + 2 * (size_t)keep > JOBLOG_TOTAL) {
		errno = EBUSY;
		return NULL;
	}
	log = calloc(1, sizeof(*log));
	if (log != NULL) {
		total += 2 * (size_t)keep;
		log->keep = keep;
		log->ring[0].slot = log->ring[1].slot = POLLSET_NONE;
		list_init(&log->readers);
	}
	return log;
}

static uint64_t
oldest(const struct joblog *log, const struct ring *ring)
{
	return ring->end > log->keep ? ring->end - log->keep : 0;
}

/* Bytes that a ring holds from *at on, in one piece. */
static size_t
peek(const struct joblog *log, const struct ring *ring, uint64_t *at,
    const uint8_t **data)
{
	uint64_t first = oldest(log, ring);
	size_t start, len;

	if (*at < first) {
		*at = first;
	}
	if (*at >= ring->end) {
		return 0;
	}
	start = (size_t)(*at % log->keep);
	len = (size_t)(ring->end - *at);
	*data = ring->bytes + start;
	return len < log->keep - start ? len : log->keep - start;
}

/* Take what the stream has; nobody waits for it, so it never fills up. */
static void
fill(struct joblog *log, struct ring *ring, struct pipes *pipes,
    unsigned index)
{
	size_t start = (size_t)(ring->end % log->keep), len, n;
	void *bytes;

	if (ring->bytes == NULL) {
		/* Its pages come only as they are used. */
		bytes = mmap(NULL, log->keep, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (bytes == MAP_FAILED) {
			return;
		}
		madvise(bytes, log->keep, MADV_DONTFORK);
		ring->bytes = bytes;
	}
	len = log->keep - start;
	n = pipes_read(pipes, index, ring->bytes + start,
	    len < READ_MAX ? len : READ_MAX);
	ring->end += n;
}

/* ---- readers ---------------------------------------------------------- */

static void
free_reader(struct reader *r)
{
	list_remove(&r->link);
	close_fd(&r->feed.in);
	r->req->app = NULL;
	free(r);
}

static void
finish(struct reader *r, bool cancelled)
{
	static uint8_t buf[WIRE_INFO_MAX];
	const struct joblog *log = r->job->log;
	struct wire_result result = { .outcome = WIRE_EXITED };
	struct session_request *req = r->req;
	struct wire_exec_info info;
	struct job *job = r->job;
	bool forget = !cancelled && job->finished &&
	    (r->flags & WIRE_ATTACH_FORGET) != 0;

	job_result(job, &result, &info);
	if (cancelled) {
		result.outcome = WIRE_CANCELLED;
	} else if (!(r->flags & WIRE_ATTACH_FOLLOW)) {
		result = (struct wire_result){ .outcome = WIRE_EXITED };
	}
	result.in = r->feed.in_bytes;
	if (!(r->flags & WIRE_ATTACH_QUIET)) {
		/* What is missing is missing before the first one. */
		info.out_from = r->stop[0] < log->ring[0].end ?
		    r->stop[0] - r->sent[0] : r->at[0] - r->sent[0];
		info.err_from = r->stop[1] < log->ring[1].end ?
		    r->stop[1] - r->sent[1] : r->at[1] - r->sent[1];
	}
	job_info(&result, &info, buf);
	free_reader(r);
	session_result(req, &result);
	if (forget) {
		job_forget(job);
	}
}

static size_t
on_data(struct session_request *req, const uint8_t *data, size_t len)
{
	struct reader *r = req->app;

	return pipes_data(&r->feed, data, len);
}

/* The end of its IN is the job's: nobody else has that end but we. */
static void
on_ended(struct session_request *req)
{
	struct reader *r = req->app;

	if (pipes_ended(&r->feed)) {
		close_fd(&r->job->pipes.in);
	}
}

static size_t
on_pull(struct session_request *req, unsigned index, uint8_t *buf, size_t max)
{
	struct reader *r = req->app;
	const uint8_t *data;
	size_t n;

	if (r->closed[index]) {
		return 0;
	}
	n = peek(r->job->log, &r->job->log->ring[index], &r->at[index],
	    &data);
	if (r->at[index] + n > r->stop[index]) {
		n = r->at[index] < r->stop[index] ?
		    (size_t)(r->stop[index] - r->at[index]) : 0;
	}
	n = n < max ? n : max;
	if (n > 0) {
		memcpy(buf, data, n);
		r->at[index] += n;
		r->sent[index] += n;
	}
	return n;
}

static void
on_unwanted(struct session_request *req, unsigned index)
{
	struct reader *r = req->app;

	r->closed[index] = true;
}

static void
on_cancel(struct session_request *req)
{
	finish(req->app, true);
}

static void
on_signal(struct session_request *req, int number)
{
	struct reader *r = req->app;

	job_signal(r->job, number);
}

static void
on_resize(struct session_request *req, unsigned rows, unsigned columns)
{
	struct reader *r = req->app;

	job_resize(r->job, rows, columns);
}

static const struct serve_ops reader_ops = {
	.data = on_data, .ended = on_ended, .pull = on_pull,
	.unwanted = on_unwanted, .cancel = on_cancel, .signal = on_signal,
	.resize = on_resize
};

void
joblog_free(struct joblog *log)
{
	unsigned i;

	if (log == NULL) {
		return;
	}
	while (!list_empty(&log->readers)) {
		finish(LIST_OF(log->readers.next, struct reader, link), true);
	}
	for (i = 0; i < 2; i++) {
		if (log->ring[i].bytes != NULL) {
			munmap(log->ring[i].bytes, log->keep);
		}
	}
	total -= 2 * (size_t)log->keep;
	free(log);
}

/* ---- ATTACH ----------------------------------------------------------- */

static void
refuse(struct session_request *req, int number, const char *format,
    uint32_t id)
{
	struct error error;

	error_set(&error, WIRE_STEP_JOB, number, format, (unsigned)id);
	session_fail(req, &error);
}

/* It may have what the rings hold for it. */
static void
offer(struct reader *r)
{
	const struct joblog *log = r->job->log;
	const uint8_t *data;
	unsigned i;

	for (i = 0; i < 2; i++) {
		if (!r->closed[i] && peek(log, &log->ring[i], &r->at[i],
		    &data) > 0) {
			session_ready(r->req, i);
		}
	}
}

/* Its IN, if the job's stdin is there to be had. */
static void
connect_in(struct reader *r)
{
	int in = r->job->pipes.in;

	if (r->flags & WIRE_ATTACH_STDIN && in != -1) {
		r->feed.terminal = r->job->pipes.terminal;
		r->feed.in = fcntl(in, F_DUPFD_CLOEXEC, 3);
	}
	if (r->feed.in == -1) {
		session_ignore(r->req, 1);
	}
}

void
joblog_attach(struct session_request *req, const struct wire_attach *msg)
{
	struct job *job = job_find(msg->job);
	struct reader *r;
	unsigned i;

	if (job == NULL) {
		refuse(req, ESRCH, "%u", msg->job);
		return;
	}
	if (job->log == NULL) {
		refuse(req, EINVAL, "%u is not a detached one: whoever started "
		    "it has its output and result", msg->job);
		return;
	}
	r = calloc(1, sizeof(*r));
	if (r == NULL) {
		refuse(req, ENOMEM, "%u", msg->job);
		return;
	}
	r->serve.ops = &reader_ops;
	r->job = job;
	r->req = req;
	r->flags = msg->flags;
	r->at[0] = msg->out;
	r->at[1] = msg->err;
	pipes_init(&r->feed, req);
	for (i = 0; i < 2; i++) {
		r->closed[i] = (msg->flags & WIRE_ATTACH_QUIET) != 0;
		r->stop[i] = msg->flags & WIRE_ATTACH_FOLLOW ? UINT64_MAX :
		    job->log->ring[i].end;
		if (r->at[i] > job->log->ring[i].end) {
			r->at[i] = job->log->ring[i].end;
		}
	}
	list_append(&job->log->readers, &r->link);
	req->app = r;
	connect_in(r);
	offer(r);
}

/* ---- the loop's turn -------------------------------------------------- */

/* Everything it asked for has been sent. */
static bool
through(const struct reader *r)
{
	struct job *job = r->job;
	uint64_t wake;
	unsigned i;

	for (i = 0; i < 2; i++) {
		uint64_t end = job->log->ring[i].end;

		if (!r->closed[i] && r->at[i] < (end < r->stop[i] ? end :
		    r->stop[i])) {
			return false;
		}
	}
	return !(r->flags & WIRE_ATTACH_FOLLOW) || (job->finished &&
	    pipes_dry(&job->pipes, clock_now(), &wake));
}

void
joblog_interest(struct job *job, struct pollset *set)
{
	struct joblog *log = job->log;
	uint64_t dry = 0;
	struct reader *r;
	struct list *l;
	unsigned i;

	for (i = 0; i < 2; i++) {
		log->ring[i].slot = pollset_add(set, job->pipes.out[i],
		    POLLIN);
	}
	if (!list_empty(&log->readers) && job->finished &&
	    !pipes_dry(&job->pipes, clock_now(), &dry)) {
		pollset_wake(set, dry);
	}
	for (l = log->readers.next; l != &log->readers; l = l->next) {
		r = LIST_OF(l, struct reader, link);
		pipes_interest(&r->feed, set);
		if (through(r)) {
			pollset_wake(set, 0);	/* to be answered */
		}
	}
}

void
joblog_run(struct job *job, const struct pollset *set)
{
	struct joblog *log = job->log;
	struct list *l, *next;
	struct reader *r;
	unsigned i;

	for (i = 0; i < 2; i++) {
		if (pollset_ready(set, log->ring[i].slot) != 0) {
			fill(log, &log->ring[i], &job->pipes, i);
		}
	}
	for (l = log->readers.next; l != &log->readers; l = next) {
		next = l->next;
		r = LIST_OF(l, struct reader, link);
		if (pipes_run(&r->feed, set)) {
			close_fd(&job->pipes.in);
		}
		offer(r);
		if (through(r)) {
			finish(r, false);
			if (job->log == NULL) {
				return;		/* it was the last word */
			}
		}
	}
}
