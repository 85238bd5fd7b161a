/* SPDX-License-Identifier: MIT */
/*
 * measure.h - round trip and throughput of a target, by ECHO requests.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include "run.h"

#define MEASURE_TRIPS 101		/* round trips, after a few to warm up */
#define MEASURE_BYTES 64u		/* in each */
#define MEASURE_SPAN_US 1000000u	/* how long bulk is sent */
#define MEASURE_BULK 268435456u		/* bytes of it at most */

struct measure {
	uint64_t median_us, least_us;	/* of a round trip */
	double mb_s;			/* each way, both at once */
};

/* Over run->client; fills *measure.  0, or -1 with *error. */
int measure_target(struct run *run, struct measure *measure,
    struct error *error);

#endif
