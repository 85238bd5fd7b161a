/* SPDX-License-Identifier: MIT */
/* clock.c - the one clock, and the scale that tests give it. */
#include "clock.h"

#include <limits.h>
#include <time.h>

#ifndef SANDMUX_CLOCK_SCALE
#define SANDMUX_CLOCK_SCALE 1u
#endif

uint64_t
clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ((uint64_t)ts.tv_sec * 1000000u +
	    (uint64_t)ts.tv_nsec / 1000u) * SANDMUX_CLOCK_SCALE + 1;
}

int
clock_poll_ms(uint64_t now, uint64_t deadline)
{
	uint64_t ms;

	if (deadline == CLOCK_NEVER) {
		return -1;
	}
	if (deadline <= now) {
		return 0;
	}
	ms = (deadline - now) / (CLOCK_MS * SANDMUX_CLOCK_SCALE) + 1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}
