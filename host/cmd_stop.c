/* SPDX-License-Identifier: MIT */
/* cmd_stop.c - `sandmux stop`: end the controller and all its links. */
#include "cmd.h"

#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "clock.h"
#include "launch.h"
#include "run.h"

#define STOP_PAUSE_NS 20000000

static const char usage[] = "usage: sandmux stop\n";

/* One that speaks no version of ours still knows SIGTERM. */
static int
terminate(const struct client *client, struct error *error)
{
	pid_t pid = (pid_t)client_peer(client)->pid;

	if (pid <= 1 || kill(pid, SIGTERM) < 0) {
		error_set(error, WIRE_STEP_NONE, 0, "the controller (pid "
		    "%ld) is version %s and cannot be stopped", (long)pid,
		    client_peer(client)->program);
		return -1;
	}
	return 0;
}

/* Until nobody listens any more. */
static int
wait_gone(struct error *error)
{
	uint64_t deadline = clock_now() + LAUNCH_MS * (uint64_t)CLOCK_MS;
	struct timespec pause = { .tv_nsec = STOP_PAUSE_NS };
	struct client_config config = { .target = "",
	    .flags = CLIENT_ANY_PROGRAM, .events = &run_events };
	struct client *client;

	while (clock_now() < deadline) {
		client = client_open(&config, error);
		if (client == NULL && error->step == WIRE_STEP_NONE) {
			return 0;
		}
		client_close(client);
		nanosleep(&pause, NULL);
	}
	error_set(error, WIRE_STEP_NONE, 0, "the controller does not end");
	return -1;
}

int
cmd_stop(int argc, char **argv)
{
	struct run run = { .out = { .fd = { .fd = -1 } },
	    .err = { .fd = { .fd = -1 } } };
	struct client_config config = { .target = "",
	    .flags = CLIENT_ANY_PROGRAM, .events = &run_events, .ctx = &run };
	struct wire msg = { .type = WIRE_STOP };
	struct run_end end;
	struct error error;
	int rc = cmd_plain(argc, argv, usage);

	if (rc != 0) {
		return rc - 1;
	}
	run.client = client_open(&config, &error);
	if (run.client == NULL) {
		if (error.step == WIRE_STEP_NONE) {
			return CMD_OK;	/* there is none */
		}
		return cmd_fail("stop", &error, CMD_FAILED);
	}
	if (client_peer(run.client)->version == 0) {
		rc = terminate(run.client, &error);
	} else if (run_request(&run, &msg, &end) < 0 &&
	    end.error.step != WIRE_STEP_LINK) {
		error = end.error;
		rc = -1;
	} else if (end.complete && end.outcome == WIRE_FAILED) {
		error = end.error;
		rc = -1;
	}
	client_close(run.client);
	if (rc == 0) {
		rc = wait_gone(&error);
	}
	return rc < 0 ? cmd_fail("stop", &error, CMD_FAILED) : CMD_OK;
}
