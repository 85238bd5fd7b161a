/* SPDX-License-Identifier: MIT */
/* measure.c - ECHO requests, timed. */
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define WARM_UP 10

struct echo {
	struct run *run;
	uint64_t started;		/* of the trip, or of all */
	size_t out;			/* bytes of this trip to send */
	size_t back;			/* bytes of this trip yet to come */
	unsigned trips;
	uint64_t times[MEASURE_TRIPS];
	uint64_t sent, received;	/* of bulk */
};

static ssize_t
trip_out(void *ctx, void *buf, size_t len)
{
	struct echo *e = ctx;

	if (e->trips == MEASURE_TRIPS + WARM_UP) {
		return 0;
	}
	if (e->out == 0) {
		errno = EAGAIN;
		return -1;
	}
	if (e->out == MEASURE_BYTES) {
		e->started = clock_now();
	}
	len = len < e->out ? len : e->out;
	memset(buf, 's', len);
	e->out -= len;
	return (ssize_t)len;
}

static ssize_t
trip_back(void *ctx, void *buf, size_t len)
{
	struct echo *e = ctx;

	(void)buf;
	if (len > e->back) {
		errno = EPROTO;
		return -1;
	}
	e->back -= len;
	if (e->back == 0) {
		if (e->trips >= WARM_UP) {
			e->times[e->trips - WARM_UP] =
			    clock_now() - e->started;
		}
		e->trips++;
		e->out = MEASURE_BYTES;
		e->back = e->trips == MEASURE_TRIPS + WARM_UP ? 0 :
		    MEASURE_BYTES;
		run_ready(e->run);
	}
	return (ssize_t)len;
}

static ssize_t
bulk_out(void *ctx, void *buf, size_t len)
{
	struct echo *e = ctx;

	if (e->sent == 0) {
		e->started = clock_now();
	}
	if (e->sent >= MEASURE_BULK ||
	    clock_now() - e->started > MEASURE_SPAN_US) {
		return 0;
	}
	memset(buf, 'm', len);
	e->sent += len;
	return (ssize_t)len;
}

static ssize_t
bulk_back(void *ctx, void *buf, size_t len)
{
	struct echo *e = ctx;

	(void)buf;
	e->received += len;
	return (ssize_t)len;
}

static int
compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int
echo(struct run *run, struct echo *e, bool bulk, struct error *error)
{
	struct wire msg = { .type = WIRE_ECHO };
	struct run_end end;

	run->has_in = true;
	run->in = (struct run_flow){ .fd = { .fd = -1 }, .ctx = e,
	    .move = bulk ? bulk_out : trip_out, .name = "ECHO" };
	run->out = (struct run_flow){ .fd = { .fd = -1 }, .ctx = e,
	    .move = bulk ? bulk_back : trip_back, .name = "ECHO" };
	run_request(run, &msg, &end);
	run_end_free(&end);
	if (run_complaint(&end, error)) {
		return -1;
	}
	if (!end.complete || end.outcome != WIRE_EXITED) {
		error_set(error, WIRE_STEP_LINK, 0, "interrupted");
		return -1;
	}
	return 0;
}

int
measure_target(struct run *run, struct measure *measure, struct error *error)
{
	struct echo trips = { .run = run, .out = MEASURE_BYTES,
	    .back = MEASURE_BYTES };
	struct echo bulk = { .run = run };
	uint64_t us;

	if (echo(run, &trips, false, error) < 0) {
		return -1;
	}
	if (trips.trips != MEASURE_TRIPS + WARM_UP) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "ECHO fell short");
		return -1;
	}
	qsort(trips.times, MEASURE_TRIPS, sizeof(trips.times[0]), compare);
	measure->median_us = trips.times[MEASURE_TRIPS / 2];
	measure->least_us = trips.times[0];
	if (echo(run, &bulk, true, error) < 0) {
		return -1;
	}
	us = clock_now() - bulk.started;
	if (bulk.received != bulk.sent) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "ECHO returned %llu "
		    "of %llu bytes", (unsigned long long)bulk.received,
		    (unsigned long long)bulk.sent);
		return -1;
	}
	measure->mb_s = (double)bulk.sent / (double)(us > 0 ? us : 1);
	return 0;
}
