/* SPDX-License-Identifier: MIT */
/* jobs.c - what ps and others ask: operands, the request, its list. */
#include "jobs.h"

#include "run.h"
#include "target.h"

int
jobs_operands(struct jobs_operands *operands, const struct options *options,
    struct error *error)
{
	struct target target;
	uint64_t job;

	if (options->argc - options->at != 2) {
		error_set(error, WIRE_STEP_USAGE, 0, "it takes TARGET and "
		    "JOB; see sandmux %s --help", options->argv[0]);
		return -1;
	}
	operands->target = options->argv[options->at];
	if (target_parse(operands->target, &target, error) < 0 ||
	    options_number(options->argv[options->at + 1], "JOB", UINT32_MAX,
	    &job, error) < 0) {
		return -1;
	}
	operands->job = (uint32_t)job;
	return 0;
}

int
jobs_ask(const char *target, const struct wire *msg, struct text *text,
    struct error *error)
{
	struct run run = {
		.out = { .fd = { .fd = -1 }, .move = text_append,
		    .ctx = text, .name = "the agent's answer" },
		.err = { .fd = { .fd = -1 }, .move = text_append,
		    .ctx = text, .name = "the agent's answer" }
	};
	struct client_config config = { .target = target,
	    .flags = CLIENT_START, .events = &run_events, .ctx = &run };
	struct run_end end;
	int rc;

	run.client = client_open(&config, error);
	if (run.client == NULL) {
		return -1;
	}
	run_request(&run, msg, &end);
	rc = run_complaint(&end, error) ? -1 : 0;
	if (rc == 0 && end.signal == 0 && (end.outcome != WIRE_EXITED ||
	    end.code != 0)) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "the agent's answer "
		    "is not understood");
		rc = -1;
	}
	run_end_free(&end);
	client_close(run.client);
	return rc;
}

int
jobs_next(const char **at, size_t *len, struct wire_job *job,
    struct error *error)
{
	const uint8_t *p = (const uint8_t *)*at;
	struct wire msg;
	size_t n;

	if (*len == 0) {
		return 0;
	}
	n = *len < 4 ? SIZE_MAX : wire_number_get(p, 4);
	if (*len < 4 || n > *len - 4 ||
	    wire_decode(p + 4, n, &msg) != WIRE_OK || msg.type != WIRE_JOB) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "the list of jobs is "
		    "not understood");
		return -1;
	}
	*job = msg.u.job;
	*at += 4 + n;
	*len -= 4 + n;
	return 1;
}
