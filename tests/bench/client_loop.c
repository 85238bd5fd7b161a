/* SPDX-License-Identifier: MIT */
/*
 * client_loop.c - commands through one held client connection.
 *
 *   client_loop TARGET COMMAND [ARG]...
 *
 * Takes lines on its stdin and answers each with one number: "run N": median
 * microseconds of N commands one after the other on one connection, "once N":
 * milliseconds of N commands all at once, each on a held connection of its
 * own, "many N": commands a second when N in all are run, 64 at once.  A
 * controller must be running: it starts none.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "clock.h"
#include "items.h"
#include "words.h"

#define CLIENT_LOOP_MAX 256
#define CLIENT_LOOP_MANY 64

struct client_loop {
	struct client *clients[CLIENT_LOOP_MAX];
	unsigned connected;
	const char *target;
	struct wire exec;
	struct items argv;
	struct pollset set;
	unsigned left;			/* results still to come */
	unsigned more;			/* commands not started yet */
	bool idle[CLIENT_LOOP_MAX];	/* these may start one */
};

static void
client_loop_die(const struct error *error)
{
	char line[WORDS_LINE];

	words_error(error, line, sizeof(line));
	fprintf(stderr, "client_loop: %s\n", line);
	exit(1);
}

static size_t
client_loop_data(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	(void)ctx;
	(void)req;
	(void)index;
	(void)data;
	return len;
}

static void
client_loop_ended(void *ctx, struct session_request *req, unsigned index)
{
	(void)ctx;
	(void)req;
	(void)index;
}

static size_t
client_loop_pull(void *ctx, struct session_request *req, unsigned index,
    uint8_t *buf, size_t max)
{
	(void)ctx;
	(void)buf;
	(void)max;
	session_end(req, index);
	return 0;
}

static void
client_loop_result(void *ctx, struct session_request *req,
    const struct wire_result *result)
{
	struct client_loop *loop = ctx;

	if (result->outcome != WIRE_EXITED || result->code != 0) {
		fprintf(stderr, "client_loop: outcome %d, code %d, step %d, "
		    "errno %d: %.*s\n", result->outcome, result->code,
		    result->step, (int)result->error, (int)result->text.len,
		    (const char *)result->text.at);
		exit(1);
	}
	loop->left--;
	loop->idle[(bool *)req->app - loop->idle] = true;
	session_forget(req);
}

static void
client_loop_log(void *ctx, const struct wire_log *log)
{
	(void)ctx;
	(void)log;
}

static const struct session_events client_loop_events = {
	.data = client_loop_data,
	.ended = client_loop_ended,
	.unwanted = client_loop_ended,
	.pull = client_loop_pull,
	.result = client_loop_result,
	.log = client_loop_log
};

static const struct session_events client_loop_events;

/* Have count connections. */
static void
client_loop_connect(struct client_loop *loop, unsigned count)
{
	struct client_config config = { .target = loop->target,
	    .events = &client_loop_events, .ctx = loop };
	struct error error;

	for (; loop->connected < count; loop->connected++) {
		loop->clients[loop->connected] = client_open(&config, &error);
		if (loop->clients[loop->connected] == NULL) {
			client_loop_die(&error);
		}
	}
}

/* A command on connection i, if there is one and it is idle. */
static void
client_loop_begin(struct client_loop *loop, unsigned i)
{
	struct session_request *req;
	struct error error;

	if (loop->more == 0 || !loop->idle[i]) {
		return;
	}
	req = client_request(loop->clients[i], &loop->exec, &error);
	if (req == NULL) {
		client_loop_die(&error);
	}
	loop->more--;
	loop->idle[i] = false;
	req->app = &loop->idle[i];
}

/* That many commands, one at a time on each of count connections. */
static void
client_loop_batch(struct client_loop *loop, unsigned count, unsigned commands)
{
	unsigned i;

	loop->left = loop->more = commands;
	for (i = 0; i < count; i++) {
		loop->idle[i] = true;
		client_loop_begin(loop, i);
	}
	while (loop->left > 0) {
		pollset_clear(&loop->set);
		for (i = 0; i < count; i++) {
			client_interest(loop->clients[i], &loop->set);
		}
		if (pollset_wait(&loop->set) == -1) {
			exit(1);
		}
		for (i = 0; i < count; i++) {
			client_run(loop->clients[i], &loop->set);
			if (client_error(loop->clients[i]) != NULL) {
				client_loop_die(client_error(
				    loop->clients[i]));
			}
			client_loop_begin(loop, i);
		}
	}
}

static int
client_loop_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double
client_loop_run(struct client_loop *loop, unsigned count)
{
	uint64_t *times = calloc(count, sizeof(*times)), start, median;
	unsigned i;

	if (times == NULL) {
		exit(1);
	}
	for (i = 0; i < count; i++) {
		start = clock_now();
		client_loop_batch(loop, 1, 1);
		times[i] = clock_now() - start;
	}
	qsort(times, count, sizeof(*times), client_loop_compare);
	median = times[count / 2];
	free(times);
	return (double)median;
}

int
main(int argc, char *argv[])
{
	struct client_loop loop = { .exec = { .type = WIRE_EXEC } };
	char line[64], word[16];
	uint64_t start;
	unsigned count;
	int i;

	if (argc < 3) {
		fprintf(stderr, "usage: client_loop TARGET COMMAND...\n");
		return 2;
	}
	for (i = 2; i < argc; i++) {
		items_text(&loop.argv, argv[i]);
	}
	loop.exec.u.exec.argv = items_list(&loop.argv);
	loop.target = argv[1];
	client_loop_connect(&loop, 1);
	client_loop_batch(&loop, 1, 1);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "%15s %u", word, &count) != 2 || count == 0 ||
		    (word[0] == 'o' && count > CLIENT_LOOP_MAX)) {
			return 2;
		}
		if (strcmp(word, "run") == 0) {
			printf("%.1f\n", client_loop_run(&loop, count));
		} else if (strcmp(word, "many") == 0) {
			client_loop_connect(&loop, CLIENT_LOOP_MANY);
			start = clock_now();
			client_loop_batch(&loop, CLIENT_LOOP_MANY, count);
			printf("%.1f\n", count * 1e6 /
			    (double)(clock_now() - start));
		} else {
			client_loop_connect(&loop, count);
			start = clock_now();
			client_loop_batch(&loop, count, count);
			printf("%.3f\n", (double)(clock_now() - start) / 1e3);
		}
		fflush(stdout);
	}
	while (loop.connected > 0) {
		client_close(loop.clients[--loop.connected]);
	}
	items_free(&loop.argv);
	pollset_free(&loop.set);
	return 0;
}
