/* SPDX-License-Identifier: MIT */
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
progress_start(struct progress *progress, const char *name, uint64_t total,
    bool enabled)
{
	*progress = (struct progress){
		.name = name, .total = total, .start = clock_now(),
		.active = enabled && isatty(STDERR_FILENO)
	};
	progress->next = progress->start + PROGRESS_EVERY;
}

static void
draw(struct progress *progress, uint64_t now, const char *end)
{
	char name[48], done[16], total[16], part[32] = "";
	uint64_t us = now > progress->start ? now - progress->start : 1;

	quote_text(name, sizeof(name), progress->name);
	progress_bytes(progress->done, done);
	if (progress->total > 0) {
		progress_bytes(progress->total, total);
		snprintf(part, sizeof(part), " of %s, %u%%", total,
		    (unsigned)((double)progress->done * 100 /
		    (double)progress->total));
	}
	dprintf(STDERR_FILENO, "\r%s  %s%s, %.1f s, %.1f MB/s\033[K%s", name,
	    done, part, (double)us / 1e6,
	    (double)progress->done / (double)us, end);
	progress->shown = true;
}

void
progress_turn(struct progress *progress, struct pollset *set)
{
	uint64_t now;

	if (!progress->active) {
		return;
	}
	now = clock_now();
	if (now >= progress->next) {
		draw(progress, now, "");
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
}
