/* SPDX-License-Identifier: MIT */
/*
 * spawnloop.c - spawnloop N PROGRAM [ARG]...: the median microseconds of
 * starting a program and waiting for its end, N times, by nothing but
 * posix_spawn.  Runs inside a target: the floor of a command there.
 * spawnloop -AT N PROGRAM [ARG]...: starts a second, with AT at once.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double
spawnloop_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int
spawnloop_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Starts a second of count in all, at of them at once. */
static int
spawnloop_many(int at, int count, char *argv[])
{
	double start = spawnloop_now();
	int begun = 0, ended = 0, status;
	pid_t pid;

	while (ended < count) {
		while (begun < count && begun - ended < at) {
			if (posix_spawnp(&pid, argv[0], NULL, NULL, argv,
			    environ) != 0) {
				return 1;
			}
			begun++;
		}
		if (wait(&status) == -1 || status != 0) {
			return 1;
		}
		ended++;
	}
	printf("%.1f\n", count * 1e6 / (spawnloop_now() - start));
	return 0;
}

int
main(int argc, char *argv[])
{
	int count = argc > 2 ? atoi(argv[1]) : 0, i, status;
	double *times, start;
	pid_t pid;

	if (argc > 3 && count < 0) {
		return spawnloop_many(-count, atoi(argv[2]), argv + 3);
	}
	if (count < 1) {
		fprintf(stderr, "usage: spawnloop N PROGRAM [ARG]...\n");
		return 2;
	}
	times = calloc((size_t)count, sizeof(*times));
	if (times == NULL) {
		return 1;
	}
	for (i = 0; i < count; i++) {
		start = spawnloop_now();
		if (posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2,
		    environ) != 0 || waitpid(pid, &status, 0) != pid ||
		    status != 0) {
			fprintf(stderr, "spawnloop: %s failed\n", argv[2]);
			return 1;
		}
		times[i] = spawnloop_now() - start;
	}
	qsort(times, (size_t)count, sizeof(*times), spawnloop_compare);
	printf("%.1f\n", times[count / 2]);
	return 0;
}
