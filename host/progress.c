/* SPDX-License-Identifier: MIT */
/* progress.c - the line on a terminal, and events as often. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "quote.h"

#define PROGRESS_EVERY (200u * (uint64_t)CLOCK_MS)

void
progress_bytes(uint64_t bytes, char out[16])
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB",
	    "PiB", "EiB" };
	double value = (double)bytes;
	unsigned i;

	if (bytes < 1024) {
		snprintf(out, 16, "%u B", (unsigned)bytes);
		return;
	}
	value /= 1024;
	for (i = 0; value >= 1024 && i < 5; i++) {
		value /= 1024;
	}
	snprintf(out, 16, "%.1f %s", value, units[i]);
}

void
progress_start(struct progress *progress, bool enabled)
{
	progress->start = clock_now();
	progress->active = enabled && isatty(STDERR_FILENO);
	progress->next = progress->start + PROGRESS_EVERY;
}

void
progress_resume(struct progress *progress, uint64_t done, uint64_t total)
{
	progress->base = progress->done = done;
	progress->total = total;
	progress->start = clock_now();
}

/* Bytes in a second so far, and seconds to the end; -1: not known. */
static double
rate(const struct progress *p, uint64_t now, double *left)
{
	uint64_t us = now > p->start ? now - p->start : 1;
	double per_second = (double)(p->done - p->base) / (double)us * 1e6;

	*left = p->total < p->done || per_second <= 0 ? -1 :
	    (double)(p->total - p->done) / per_second;
	return per_second;
}

static void
draw(struct progress *p, uint64_t now, const char *end)
{
	char name[48], done[16], total[16], part[64] = "", rest[40] = "";
	double left, per_second = rate(p, now, &left);

	quote_text(name, sizeof(name), p->name);
	progress_bytes(p->done, done);
	if (p->total > 0) {
		progress_bytes(p->total, total);
		snprintf(part, sizeof(part), " of %s, %u%%", total,
		    (unsigned)((double)p->done * 100 / (double)p->total));
	}
	if (left > 0 && left < 1e6) {
		snprintf(rest, sizeof(rest), ", %.0f s left", left);
	}
	dprintf(STDERR_FILENO, "\r%s  %s%s, %.1f s, %.1f MB/s%s\033[K%s",
	    name, done, part, (double)(now - p->start) / 1e6,
	    per_second / 1e6, rest, end);
	p->shown = true;
}

static void
tell(const struct progress *p, uint64_t now)
{
	struct json json;
	double left, per_second = rate(p, now, &left);

	events_begin(&json, "progress");
	json_u64(&json, "bytes", p->done);
	if (p->total > 0) {
		json_u64(&json, "total", p->total);
	} else {
		json_null(&json, "total");
	}
	json_double(&json, "bytes_per_second", per_second);
	if (left >= 0 && left < 1e9) {
		json_double(&json, "seconds_left", left);
	} else {
		json_null(&json, "seconds_left");
	}
	events_send(p->events, &json, false);
}

void
progress_turn(struct progress *progress, struct pollset *set)
{
	uint64_t now;

	if (!progress->active && progress->events == NULL) {
		return;
	}
	now = clock_now();
	if (now >= progress->next) {
		if (progress->active) {
			draw(progress, now, "");
		}
		if (progress->events != NULL) {
			tell(progress, now);
		}
		progress->next = now + PROGRESS_EVERY;
	}
	pollset_wake(set, progress->next);
}

void
progress_end(struct progress *progress)
{
	if (progress->active) {
		draw(progress, clock_now(), "\n");
		progress->active = false;
	}
	progress->events = NULL;
}
