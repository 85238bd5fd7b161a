/* SPDX-License-Identifier: MIT */
/*
 * rawlink.c - what a transport's bytes can do with nothing on top of them.
 *
 *   rawlink peer                      in the target, on its stdio
 *   rawlink host [-t] COMMAND [ARG]   on the host: starts COMMAND, which must
 *                                     end in a peer; -t: on a terminal
 *
 * The host end takes lines on its stdin and answers each with one number:
 * "rtt N": median microseconds of N echoes of 64 bytes, "up BYTES" and
 * "down BYTES": megabytes (10^6) a second.
 */
#include "bench.h"

#define RAWLINK_MESSAGE 64
#define RAWLINK_CHUNK 65536

/* A command: its letter, then a number of bytes or messages. */
struct rawlink_command {
	uint64_t number;
	char letter;
	char pad[7];
};

static uint8_t rawlink_buf[RAWLINK_CHUNK];

static void
rawlink_send(int fd, uint64_t bytes)
{
	size_t part;

	for (; bytes > 0; bytes -= part) {
		part = bytes < RAWLINK_CHUNK ? (size_t)bytes : RAWLINK_CHUNK;
		bench_write(fd, rawlink_buf, part);
	}
}

static void
rawlink_take(int fd, uint64_t bytes)
{
	ssize_t got;

	while (bytes > 0) {
		got = read(fd, rawlink_buf, bytes < RAWLINK_CHUNK ?
		    (size_t)bytes : RAWLINK_CHUNK);
		if (got <= 0) {
			bench_die("the link ended");
		}
		bytes -= (uint64_t)got;
	}
}

static int
rawlink_peer(void)
{
	struct rawlink_command command;

	bench_peer_start();
	while (bench_read(0, &command, sizeof(command)) == sizeof(command)) {
		if (command.letter == 'e') {
			for (; command.number > 0; command.number--) {
				rawlink_take(0, RAWLINK_MESSAGE);
				rawlink_send(1, RAWLINK_MESSAGE);
			}
		} else if (command.letter == 'u') {
			rawlink_take(0, command.number);
			rawlink_send(1, 1);
		} else {
			rawlink_send(1, command.number);
		}
	}
	return 0;
}

static double
rawlink_rtt(const struct bench_link *link, uint64_t count)
{
	double *times = calloc(count, sizeof(*times)), start, median;
	uint64_t i;

	if (times == NULL || count == 0) {
		bench_die("rtt");
	}
	for (i = 0; i < count; i++) {
		start = bench_now();
		rawlink_send(link->out, RAWLINK_MESSAGE);
		rawlink_take(link->in, RAWLINK_MESSAGE);
		times[i] = (bench_now() - start) * 1e6;
	}
	median = bench_median(times, count);
	free(times);
	return median;
}

static double
rawlink_measure(const struct bench_link *link,
    const struct rawlink_command *command)
{
	double start = bench_now();

	bench_write(link->out, command, sizeof(*command));
	if (command->letter == 'e') {
		return rawlink_rtt(link, command->number);
	}
	if (command->letter == 'u') {
		rawlink_send(link->out, command->number);
		rawlink_take(link->in, 1);
	} else {
		rawlink_take(link->in, command->number);
	}
	return (double)command->number / (bench_now() - start) / 1e6;
}

int
main(int argc, char *argv[])
{
	struct rawlink_command command;
	struct bench_link link;
	unsigned long long number;
	char line[128], word[16];
	int pty;

	if (argc == 2 && strcmp(argv[1], "peer") == 0) {
		return rawlink_peer();
	}
	pty = argc > 2 && strcmp(argv[2], "-t") == 0;
	if (argc < 3 + pty || strcmp(argv[1], "host") != 0) {
		fprintf(stderr, "usage: rawlink peer | host [-t] COMMAND\n");
		return 2;
	}
	link = bench_start(argv + 2 + pty, pty);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "%15s %llu", word, &number) != 2) {
			return 2;
		}
		memset(&command, 0, sizeof(command));
		command.letter = word[0] == 'r' ? 'e' : word[0];
		command.number = number;
		printf("%.3f\n", rawlink_measure(&link, &command));
		fflush(stdout);
	}
	kill(link.pid, SIGKILL);
	return 0;
}
