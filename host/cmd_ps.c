/* SPDX-License-Identifier: MIT */
/* cmd_ps.c - `sandmux ps`: the jobs of a target. */
#include "cmd.h"

#include <inttypes.h>
#include <stdio.h>

#include "jobs.h"
#include "json.h"
#include "options.h"
#include "quote.h"
#include "target.h"
#include "words.h"

static const char usage[] =
"usage: sandmux ps [--json] TARGET\n"
"      --json    for programs\n"
"Exit status: 0, 1 failed, 2 usage.\n";

enum { JSON = 256 };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_FLAG },
	OPTIONS_LAST
};

static bool
has_ended(const struct wire_job *job)
{
	return job->state == WIRE_JOB_BACKGROUND ||
	    job->state == WIRE_JOB_ENDED;
}

static const char *
state_word(const struct wire_job *job)
{
	static const char *const words[] = {
		[WIRE_JOB_RUNNING] = "running", [WIRE_JOB_STOPPED] = "stopped",
		[WIRE_JOB_BACKGROUND] = "background",
		[WIRE_JOB_ENDED] = "ended"
	};

	return job->state <= WIRE_JOB_ENDED ? words[job->state] : "unknown";
}

/* For people: an ended job's state is how it ended. */
static void
state(const struct wire_job *job, char *out, size_t cap)
{
	if (job->state != WIRE_JOB_ENDED) {
		snprintf(out, cap, "%s", state_word(job));
	} else if (job->outcome == WIRE_EXITED) {
		snprintf(out, cap, "exited %d", (int)job->code);
	} else if (job->outcome != WIRE_SIGNALED) {
		snprintf(out, cap, "%s", words_outcome(job->outcome));
	} else if (words_signal((unsigned)job->code) != NULL) {
		snprintf(out, cap, "%s", words_signal((unsigned)job->code));
	} else {
		snprintf(out, cap, "signal %d", (int)job->code);
	}
}

/* "59s", "3m20s", "5h02m", "12d03h". */
static void
age(uint64_t us, char *out, size_t cap)
{
	uint64_t s = us / 1000000;

	if (s < 60) {
		snprintf(out, cap, "%" PRIu64 "s", s);
	} else if (s < 3600) {
		snprintf(out, cap, "%" PRIu64 "m%02us", s / 60,
		    (unsigned)(s % 60));
	} else if (s < 86400) {
		snprintf(out, cap, "%" PRIu64 "h%02um", s / 3600,
		    (unsigned)(s / 60 % 60));
	} else {
		snprintf(out, cap, "%" PRIu64 "d%02uh", s / 86400,
		    (unsigned)(s / 3600 % 24));
	}
}

static void
show_line(const struct wire_job *job)
{
	char user[WIRE_USER_MAX * 4 + 1], command[WIRE_COMMAND_MAX * 4 + 1];
	char how[32], old[32];

	if (job->user.len > 0) {
		quote_bytes(user, sizeof(user), job->user.at, job->user.len);
	} else {
		snprintf(user, sizeof(user), "%u", (unsigned)job->uid);
	}
	quote_bytes(command, sizeof(command), job->command.at,
	    job->command.len);
	state(job, how, sizeof(how));
	age(job->age_us, old, sizeof(old));
	printf("%-5u %-10s %-11s %7s %9.2fs %5u %s\n", (unsigned)job->job,
	    user, how, old, (double)job->cpu_us / 1e6,
	    (unsigned)job->processes, command);
}

static void
add_end(struct json *json, const struct wire_job *job)
{
	bool ended = has_ended(job);

	if (ended) {
		json_string(json, "outcome", words_outcome(job->outcome));
	} else {
		json_null(json, "outcome");
	}
	if (ended && job->outcome == WIRE_EXITED) {
		json_i64(json, "code", job->code);
	} else {
		json_null(json, "code");
	}
	if (ended && job->outcome == WIRE_SIGNALED) {
		json_i64(json, "signal", job->code);
	} else {
		json_null(json, "signal");
	}
}

/* Each is a text of its own: all of them have no bound that is ours. */
static int
show_json(const struct wire_job *job, bool first)
{
	struct json json = { 0 };
	int rc;

	json_object(&json, NULL);
	json_u64(&json, "job", job->job);
	json_bytes(&json, "user", job->user.at, job->user.len);
	json_u64(&json, "uid", job->uid);
	json_u64(&json, "pid", job->pid);
	json_string(&json, "state", state_word(job));
	add_end(&json, job);
	json_u64(&json, "processes", job->processes);
	json_double(&json, "age_seconds", (double)job->age_us / 1e6);
	json_double(&json, "cpu_seconds", (double)job->cpu_us / 1e6);
	json_bool(&json, "detached", job->detached != 0);
	json_bool(&json, "terminal", job->terminal != 0);
	json_bytes(&json, "command", job->command.at, job->command.len);
	json_end_object(&json);
	rc = json_text(&json) == NULL ? -1 :
	    printf("%s%s", first ? "" : ", ", json_text(&json));
	json_free(&json);
	return rc < 0 ? -1 : 0;
}

static int
show(const struct text *text, bool json, struct error *error)
{
	const char *at = text->data;
	size_t len = text->len;
	struct wire_job job;
	bool first = true;
	int rc;

	/* All is checked before anything is shown. */
	while ((rc = jobs_next(&at, &len, &job, error)) > 0) {
	}
	if (rc < 0) {
		return -1;
	}
	if (json) {
		fputs("{\"jobs\": [", stdout);
	} else {
		puts("JOB   USER       STATE           AGE        CPU PROCS "
		    "COMMAND");
	}
	at = text->data;
	len = text->len;
	while (jobs_next(&at, &len, &job, error) > 0) {
		if (!json) {
			show_line(&job);
		} else if (show_json(&job, first) < 0) {
			break;
		}
		first = false;
	}
	if (json) {
		puts("]}");
	}
	if (len > 0 || fflush(stdout) != 0) {
		error_set(error, WIRE_STEP_WRITE, 0, "stdout");
		return -1;
	}
	return 0;
}

int
cmd_ps(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct wire msg = { .type = WIRE_JOBS };
	struct text text = { 0 };
	struct target target;
	struct error error;
	bool json = false;
	int id, rc;

	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		json = true;
	}
	if (id == 0 && argc - options.at != 1) {
		error_set(&error, WIRE_STEP_USAGE, 0, "it takes one TARGET");
		id = -1;
	}
	if (id < 0 || target_parse(argv[options.at], &target, &error) < 0) {
		return cmd_fail("ps", &error, CMD_USAGE);
	}
	rc = jobs_ask(argv[options.at], &msg, &text, &error);
	if (rc == 0) {
		rc = show(&text, json, &error);
	}
	text_free(&text);
	return rc < 0 ? cmd_fail("ps", &error, CMD_FAILED) : CMD_OK;
}
