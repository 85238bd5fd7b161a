/* SPDX-License-Identifier: MIT */
/* cp_say.c - what a copy tells programs (events) and people (hashes). */
#include "cp.h"

#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "cmd.h"
#include "quote.h"
#include "report.h"
#include "seal.h"

int
cp_say_start(const struct cp *cp, struct events *events,
    struct progress *progress, struct error *error)
{
	struct json json;

	if (cp->json == NULL) {
		return 0;
	}
	if (events_open(events, cp->json, error) < 0) {
		return -1;
	}
	progress->events = events;
	events_begin(&json, "start");
	json_string(&json, "direction", cp->from.local ? "up" : "down");
	json_string(&json, "target", cp->target);
	json_string(&json, "source", cp->from.path);
	json_string(&json, "destination", cp->to.path);
	json_bool(&json, "tree", (cp->flags & CP_TREE) != 0);
	events_send(events, &json, false);
	return 0;
}

void
cp_end_begin(struct json *json, int status, const struct progress *progress)
{
	events_begin(json, "end");
	json_bool(json, "ok", status == CMD_OK);
	json_i64(json, "status", status);
	json_double(json, "seconds", progress->start == 0 ? 0 :
	    (double)(clock_now() - progress->start) / 1e6);
}

void
cp_end_send(struct events *events, struct json *json, int status,
    const struct error *error)
{
	static const struct error none;

	report_error(json, status == CMD_OK ? &none : error);
	if (status != CMD_OK && error->step == WIRE_STEP_NONE) {
		json_string(json, "message", error->text);
	}
	events_send(events, json, true);
}

void
cp_say_hashes(const struct cp *cp, const uint8_t *here, const uint8_t *there)
{
	int to = cp_is_stdio(&cp->to) ? STDERR_FILENO : STDOUT_FILENO;
	char hex[2 * SEAL_KEY + 1], path[WIRE_PATH_MAX * 4 + 1];
	const struct target_operand *ends[2] = { &cp->from, &cp->to };
	unsigned i;

	for (i = 0; i < 2; i++) {
		seal_hex(ends[i]->local ? here : there, SEAL_KEY, hex);
		quote_text(path, sizeof(path), ends[i]->path);
		dprintf(to, "%s  %s%s%s\n", hex, ends[i]->local ? "" :
		    cp->target, ends[i]->local ? "" : ":", path);
	}
}
