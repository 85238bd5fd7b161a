/* SPDX-License-Identifier: MIT */
/*
 * clock.h - the one clock: monotonic microseconds, for deadlines and rates.
 *
 * A build with SANDMUX_CLOCK_SCALE=N defined runs N times faster than the
 * real one, so that tests of long waits stay short.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>

#define CLOCK_NEVER UINT64_MAX		/* a deadline that does not come */
#define CLOCK_MS 1000u			/* clock units per millisecond */

/* Microseconds since some start; never 0, never falls. */
uint64_t clock_now(void);

/* Milliseconds poll() may sleep until the deadline: rounded up, -1 = ever. */
int clock_poll_ms(uint64_t now, uint64_t deadline);

#endif
