/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what the bench programs share: whole reads and writes, times,
 * and a transport child over pipes or a pty.
 *
 * Both ends of a bench link are the same program: the peer says BENCH_MAGIC
 * once its terminal is raw, then takes commands.  Any error ends it.
 */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define BENCH_MAGIC "SANDMUX-BENCH-GO\n"
#define BENCH_MAGIC_LEN (sizeof(BENCH_MAGIC) - 1)

struct bench_link {
	int in, out;
	pid_t pid;
};

static inline void
bench_die(const char *what)
{
	fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static inline double
bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Read until len bytes or the end of input; returns how many. */
static inline size_t
bench_read(int fd, void *buf, size_t len)
{
	size_t have = 0;
	ssize_t got;

	while (have < len) {
		got = read(fd, (char *)buf + have, len - have);
		if (got == 0 || (got == -1 && errno == EIO)) {
			break;
		}
		if (got == -1 && errno != EINTR) {
			bench_die("read");
		}
		have += got > 0 ? (size_t)got : 0;
	}
	return have;
}

static inline void
bench_need(int fd, void *buf, size_t len)
{
	if (bench_read(fd, buf, len) != len) {
		errno = EPIPE;
		bench_die("the link ended");
	}
}

static inline void
bench_write(int fd, const void *buf, size_t len)
{
	size_t done = 0;
	ssize_t put;

	while (done < len) {
		put = write(fd, (const char *)buf + done, len - done);
		if (put == -1 && errno != EINTR) {
			bench_die("write");
		}
		done += put > 0 ? (size_t)put : 0;
	}
}

static inline void
bench_raw(int fd)
{
	struct termios tio;

	if (tcgetattr(fd, &tio) == 0) {
		cfmakeraw(&tio);
		tcsetattr(fd, TCSANOW, &tio);
	}
}

/* The peer's start. */
static inline void
bench_peer_start(void)
{
	bench_raw(0);
	bench_raw(1);
	bench_write(1, BENCH_MAGIC, BENCH_MAGIC_LEN);
}

/* Start argv; with pty its stdin is a raw terminal.  Waits for the magic. */
static inline struct bench_link
bench_start(char *argv[], int pty)
{
	int up[2], down[2];
	char seen[BENCH_MAGIC_LEN];
	struct bench_link link;
	size_t have = 0;

	if (pty ? openpty(&up[1], &up[0], NULL, NULL, NULL) : pipe(up)) {
		bench_die("openpty or pipe");
	}
	if (pty) {
		bench_raw(up[0]);
	}
	if (pipe(down) == -1) {
		bench_die("pipe");
	}
	link.pid = fork();
	if (link.pid == -1) {
		bench_die("fork");
	}
	if (link.pid == 0) {
		setsid();
		dup2(up[0], 0);
		dup2(down[1], 1);
		close(up[0]);
		close(up[1]);
		close(down[0]);
		close(down[1]);
		execvp(argv[0], argv);
		bench_die(argv[0]);
	}
	close(up[0]);
	close(down[1]);
	link.in = down[0];
	link.out = up[1];
	fcntl(link.in, F_SETFD, FD_CLOEXEC);
	fcntl(link.out, F_SETFD, FD_CLOEXEC);
	/* Noise before the magic is skipped. */
	while (have < sizeof(seen)) {
		bench_need(link.in, seen + have, 1);
		have = seen[have] == BENCH_MAGIC[have] ? have + 1 :
		    seen[have] == BENCH_MAGIC[0];
		seen[0] = BENCH_MAGIC[0];
	}
	return link;
}

static inline int
bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double
bench_median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), bench_compare);
	return values[count / 2];
}

#endif
