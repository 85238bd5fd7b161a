/* SPDX-License-Identifier: MIT */
/* cmd_doctor.c - `sandmux doctor`: what a target is and whether it works. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "interrupt.h"
#include "items.h"
#include "json.h"
#include "measure.h"
#include "options.h"
#include "quote.h"
#include "run.h"
#include "target.h"
#include "text.h"
#include "version.h"
#include "words.h"

static const char usage[] =
"usage: sandmux doctor [--json] TARGET\n"
"      --json    for programs\n"
"Exit status: 0, 1 if a command could not run there, 2 usage.\n";

/* Both ends of the noise, though each byte be escaped. */
#define SHOWN_MAX 16384

enum { JSON = 256 };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ JSON, "json", OPTIONS_FLAG },
	OPTIONS_LAST
};

enum found {				/* what could be learned */
	FOUND_PROBE = 1,
	FOUND_SPEED = 2,
	FOUND_START = 4			/* a command would start */
};

struct doctor {
	const char *target;
	bool json, help;
	struct run run;
	struct text link;		/* LINKINFO */
	struct run_end probe_end;	/* owns what probe borrows */
	struct wire_probe_info probe;
	struct measure measure;
	unsigned found;			/* enum found */
	struct error error;		/* the first failure, NONE: none */
};

/* ---- asking ---------------------------------------------------------- */

static void
note_failure(struct doctor *d, const struct error *error)
{
	if (d->error.step == WIRE_STEP_NONE) {
		d->error = *error;
		if (error->step == WIRE_STEP_NONE) {
			d->error.step = WIRE_STEP_LINK;
		}
	}
}

/* One request whose OUT goes to text, or is not expected (NULL). */
static int
ask(struct doctor *d, const struct wire *msg, struct text *text,
    struct run_end *end)
{
	struct error error;

	d->run.has_in = false;
	d->run.in = (struct run_flow){ .fd = { .fd = -1 } };
	d->run.out = (struct run_flow){ .fd = { .fd = -1 },
	    .move = text_append, .ctx = text, .name = "an answer" };
	d->run.err = d->run.out;
	run_request(&d->run, msg, end);
	if (run_complaint(end, &error)) {
		note_failure(d, &error);
		return -1;
	}
	return end->complete && end->outcome == WIRE_EXITED ? 0 : -1;
}

static void
ask_link(struct doctor *d)
{
	struct wire msg = { .type = WIRE_LINKINFO };
	struct error error;
	struct run_end end;

	ask(d, &msg, &d->link, &end);
	run_end_free(&end);
	if (d->link.len > 0 && text_json(d->link.data, d->link.len, NULL,
	    NULL) < 0) {
		text_free(&d->link);
		error_set(&error, WIRE_STEP_PROTOCOL, 0, "LINKINFO is no "
		    "JSON");
		note_failure(d, &error);
	}
}

static void
ask_probe(struct doctor *d)
{
	struct wire msg = { .type = WIRE_PROBE }, info;
	struct text none = { 0 };
	struct error error;

	if (ask(d, &msg, &none, &d->probe_end) == 0) {
		if (d->probe_end.info != NULL &&
		    wire_decode(d->probe_end.info, d->probe_end.info_len,
		    &info) == WIRE_OK && info.type == WIRE_PROBE_INFO) {
			d->probe = info.u.probe_info;
			d->found |= FOUND_PROBE;
		} else {
			error_set(&error, WIRE_STEP_PROTOCOL, 0, "PROBE's "
			    "answer is not understood");
			note_failure(d, &error);
		}
	}
	text_free(&none);
}

/*
 * Run "/": everything up to execve() is as for a command, and that fails.
 * So no program of the target is needed, and none runs.
 */
static void
ask_start(struct doctor *d)
{
	struct wire msg = { .type = WIRE_EXEC };
	struct items argv = { 0 };
	struct text none = { 0 };
	struct run_end end = { 0 };
	struct error error;

	items_text(&argv, "/");
	msg.u.exec.argv = items_list(&argv);
	d->run.has_in = false;
	d->run.out.ctx = d->run.err.ctx = &none;
	run_request(&d->run, &msg, &end);
	if (end.complete && end.outcome == WIRE_FAILED &&
	    end.error.step == WIRE_STEP_EXEC) {
		d->found |= FOUND_START;
	} else if (run_complaint(&end, &error)) {
		note_failure(d, &error);
	}
	run_end_free(&end);
	text_free(&none);
	items_free(&argv);
}

static void
examine(struct doctor *d)
{
	struct client_config config = { .target = d->target,
	    .flags = CLIENT_START, .events = &run_events, .ctx = &d->run };
	struct error error;

	d->run.client = client_open(&config, &error);
	if (d->run.client == NULL) {
		note_failure(d, &error);
		return;
	}
	ask_link(d);
	if (d->error.step == WIRE_STEP_NONE) {
		ask_probe(d);
	}
	if ((d->found & FOUND_PROBE) != 0) {
		ask_start(d);
	}
	if ((d->found & FOUND_START) != 0) {
		if (measure_target(&d->run, &d->measure, &error) == 0) {
			d->found |= FOUND_SPEED;
		} else {
			note_failure(d, &error);
		}
	}
	client_close(d->run.client);
}

/* ---- telling --------------------------------------------------------- */

static void
line(const char *name, const uint8_t *data, size_t len)
{
	char shown[SHOWN_MAX];

	quote_bytes(shown, sizeof(shown), data, len);
	printf("%-24s%s\n", name, shown);
}

/* LINKINFO's keys in words; NULL: not for people.  Others are shown too. */
static const struct {
	const char *key, *name;
} labels[] = {
	{ "target", NULL }, { "requests", NULL }, { "requests_total", NULL },
	{ "sent", NULL }, { "received", NULL }, { "up_s", NULL },
	{ "idle_s", NULL }, { "rtt_us", NULL }, { "controller", NULL },
	{ "uid", NULL },
	{ "state", "link" },
	{ "id", "identity" },
	{ "program", "reached by" },
	{ "pid", "its process" },
	{ "version", "protocol" },
	{ "pty", "link is a terminal" },
	{ "start_ms", "start took (ms)" },
	{ "agent", "agent started as" },
	{ "agent_source", "agent came" },
	{ "unlinked", "its file is removed" },
	{ "image_agent", "agent in the image" },
	{ "image_user", "configured user" },
	{ "default_user", "default user" },
	{ "switches", "can switch users" },
	{ "terminals", "terminals" },
	{ "image_workdir", "configured directory" },
	{ "noise_bytes", "login noise (bytes)" },
	{ "noise", "login noise" },
	{ "stderr", "stderr of the link" },
	{ "warning", "WARNING" }
};

/* Nothing worth a line. */
static bool
is_void(const char *value, size_t len)
{
	return len == 0 || (len == 1 && value[0] == '0') ||
	    (len == 4 && memcmp(value, "null", 4) == 0);
}

static void
tell_link(void *ctx, const char *path, const char *value, size_t len)
{
	const char *name = path;
	size_t i;

	(void)ctx;
	for (i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		if (strcmp(path, labels[i].key) == 0) {
			name = labels[i].name;
		}
	}
	if (name != NULL && (!is_void(value, len) ||
	    strcmp(path, "default_user") == 0)) {
		line(name, (const uint8_t *)value, len);
	}
}

static void
tell_capabilities(const char *name, uint64_t caps)
{
	unsigned bit;

	printf("%-24s%s", name, caps == 0 ? "none" : "");
	for (bit = 0; bit < 64; bit++) {
		if ((caps >> bit & 1) == 0) {
			continue;
		}
		if (words_capability(bit) != NULL) {
			printf("%s ", words_capability(bit));
		} else {
			printf("%u ", bit);
		}
	}
	putchar('\n');
}

static void
tell_probe(const struct wire_probe_info *p)
{
	struct wire_list dirs = p->dirs;
	struct wire_bytes item;

	line("agent version", p->program.at, p->program.len);
	line("agent runs from", p->exe.at, p->exe.len);
	line("arch", p->arch.at, p->arch.len);
	printf("%-24s%u:%u\n", "agent's user", (unsigned)p->uid, (unsigned)p->gid);
	line("default directory", p->cwd.at, p->cwd.len);
	tell_capabilities("capabilities", p->caps);
	tell_capabilities("bounding", p->bounding);
	printf("%-24s%s\n", "no_new_privs",
	    (p->flags & WIRE_PROBE_NO_NEW_PRIVS) != 0 ? "yes" : "no");
	printf("%-24s%s\n", "seccomp", p->seccomp == 0 ? "none" :
	    p->seccomp == 2 ? "filter" : "strict");
	printf("%-24s%u\n", "landlock", (unsigned)p->landlock);
	printf("%-24s%s\n", "terminal",
	    (p->flags & WIRE_PROBE_TTY) != 0 ? "yes" : "no");
	while (wire_next(&dirs, &item)) {
		line("writable+executable", item.at, item.len);
	}
	if (p->dirs.count == 0) {
		printf("%-24s%s\n", "writable+executable", "none");
	}
	if (p->program.len != strlen(SANDMUX_VERSION) || memcmp(p->program.at,
	    SANDMUX_VERSION, p->program.len) != 0) {
		printf("%-24s%s\n", "WARNING", "agent and sandmux have "
		    "different versions");
	}
}

static int
tell(const struct doctor *d)
{
	char text[WORDS_LINE];

	printf("%-24s%s\n%-24s%s\n", "target", d->target, "sandmux",
	    SANDMUX_VERSION);
	if (d->link.len > 0) {
		text_json(d->link.data, d->link.len, tell_link, NULL);
	}
	if ((d->found & FOUND_PROBE) != 0) {
		tell_probe(&d->probe);
	}
	if ((d->found & FOUND_SPEED) != 0) {
		printf("%-24s%.3f ms median, %.3f ms least\n", "round trip",
		    (double)d->measure.median_us / 1000,
		    (double)d->measure.least_us / 1000);
		printf("%-24s%.0f MB/s each way, both at once\n",
		    "throughput", d->measure.mb_s);
	}
	if (d->error.step != WIRE_STEP_NONE) {
		printf("%-24s%s\n", "failed",
		    words_error(&d->error, text, sizeof(text)));
	}
	printf("%-24s%s\n", "commands",
	    (d->found & FOUND_START) != 0 ? "can run" : "cannot run");
	return fflush(stdout) == 0 ? 0 : -1;
}

static void
add_capabilities(struct json *json, const char *key, uint64_t caps)
{
	char number[16];
	unsigned bit;

	json_array(json, key);
	for (bit = 0; bit < 64; bit++) {
		if ((caps >> bit & 1) != 0) {
			snprintf(number, sizeof(number), "%u", bit);
			json_string(json, NULL, words_capability(bit) !=
			    NULL ? words_capability(bit) : number);
		}
	}
	json_end_array(json);
}

static void
add_bytes(struct json *json, const char *key, struct wire_bytes bytes)
{
	json_bytes(json, key, bytes.at, bytes.len);
}

static void
add_probe(struct json *json, const struct wire_probe_info *p)
{
	struct wire_list dirs = p->dirs;
	struct wire_bytes item;
	char hash[2 * 64 + 1] = "";
	uint32_t i;

	json_object(json, "probe");
	add_bytes(json, "version", p->program);
	add_bytes(json, "path", p->exe);
	add_bytes(json, "arch", p->arch);
	json_u64(json, "pid", p->pid);
	json_u64(json, "uid", p->uid);
	json_u64(json, "gid", p->gid);
	add_bytes(json, "directory", p->cwd);
	add_capabilities(json, "capabilities", p->caps);
	add_capabilities(json, "bounding", p->bounding);
	json_bool(json, "no_new_privs",
	    (p->flags & WIRE_PROBE_NO_NEW_PRIVS) != 0);
	json_u64(json, "seccomp", p->seccomp);
	json_u64(json, "landlock", p->landlock);
	json_bool(json, "terminal", (p->flags & WIRE_PROBE_TTY) != 0);
	for (i = 0; i < p->hash.len && i < 64; i++) {
		snprintf(hash + i * 2, 3, "%02x", p->hash.at[i]);
	}
	json_string(json, "hash", hash);
	json_array(json, "writable_executable");
	while (wire_next(&dirs, &item)) {
		add_bytes(json, NULL, item);
	}
	json_end_array(json);
	json_end_object(json);
}

static int
tell_json(const struct doctor *d)
{
	struct json json = { 0 };
	char text[WORDS_LINE];
	int rc = -1;

	json_object(&json, NULL);
	json_string(&json, "target", d->target);
	json_bool(&json, "ok", (d->found & FOUND_START) != 0);
	json_string(&json, "sandmux", SANDMUX_VERSION);
	if (d->error.step != WIRE_STEP_NONE) {
		json_string(&json, "error",
		    words_error(&d->error, text, sizeof(text)));
	}
	if (d->link.len > 0) {
		json_raw(&json, "link", d->link.data, d->link.len);
	}
	if ((d->found & FOUND_PROBE) != 0) {
		add_probe(&json, &d->probe);
	}
	if ((d->found & FOUND_SPEED) != 0) {
		json_u64(&json, "round_trip_us", d->measure.median_us);
		json_u64(&json, "round_trip_least_us", d->measure.least_us);
		json_double(&json, "mb_s", d->measure.mb_s);
	}
	json_end_object(&json);
	if (json_text(&json) != NULL && puts(json_text(&json)) >= 0) {
		rc = fflush(stdout);
	}
	json_free(&json);
	return rc;
}

static int
parse(struct doctor *d, int argc, char **argv, struct error *error)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	struct target target;
	int id;

	while ((id = options_next(&options, error)) > 0) {
		d->help |= id == 'h';
		d->json |= id == JSON;
	}
	if (id < 0 || d->help) {
		return id < 0 ? -1 : 0;
	}
	if (argc - options.at != 1) {
		error_set(error, WIRE_STEP_USAGE, 0, "it takes one TARGET; "
		    "see sandmux doctor --help");
		return -1;
	}
	d->target = argv[options.at];
	return target_parse(d->target, &target, error);
}

int
cmd_doctor(int argc, char **argv)
{
	struct doctor d = { 0 };
	struct error error;
	int rc;

	if (parse(&d, argc, argv, &error) < 0) {
		return cmd_fail("doctor", &error, CMD_USAGE);
	}
	if (d.help) {
		return cmd_help(usage);
	}
	examine(&d);
	rc = d.json ? tell_json(&d) : tell(&d);
	if (d.error.step != WIRE_STEP_NONE) {
		cmd_fail("doctor", &d.error, CMD_FAILED);
	}
	text_free(&d.link);
	run_end_free(&d.probe_end);
	return rc == 0 && (d.found & FOUND_START) != 0 ? CMD_OK : CMD_FAILED;
}
