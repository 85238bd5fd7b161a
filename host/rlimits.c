/* SPDX-License-Identifier: MIT */
/* rlimits.c - --limit's names and values. */
#include "rlimits.h"

#include <stdio.h>
#include <string.h>

#include "options.h"
#include "quote.h"

/* At its Linux number; docker's --ulimit has the same names. */
static const char *const names[WIRE_LIMITS_MAX] = {
	"cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile",
	"memlock", "as", "locks", "sigpending", "msgqueue", "nice", "rtprio",
	"rttime"
};

static int
value(const char *text, const char *what, uint64_t *out, struct error *error)
{
	if (strcmp(text, "unlimited") == 0 || strcmp(text, "-1") == 0) {
		*out = UINT64_MAX;
		return 0;
	}
	if (options_size(text, what, UINT64_MAX - 1, out, error) < 0) {
		error_set(error, WIRE_STEP_USAGE, 0, "%s takes SOFT[:HARD], "
		    "each a number like 1024, 64K or 2G, or unlimited", what);
		return -1;
	}
	return 0;
}

/* The number of text's name, up to "=". */
static int
resource(const char *text, size_t len, struct error *error)
{
	char shown[64];
	int i;

	for (i = 0; i < (int)WIRE_LIMITS_MAX; i++) {
		if (strlen(names[i]) == len &&
		    memcmp(names[i], text, len) == 0) {
			return i;
		}
	}
	quote_bytes(shown, sizeof(shown), (const uint8_t *)text, len);
	error_set(error, WIRE_STEP_USAGE, 0, "--limit: \"%s\" is no limit; "
	    "write one of nofile, nproc, core, cpu, data, fsize, memlock, "
	    "stack, as, rss, locks, sigpending, msgqueue, nice, rtprio, "
	    "rttime", shown);
	return -1;
}

int
limits_add(struct limits *limits, const char *text, struct error *error)
{
	const char *equals = strchr(text, '='), *colon;
	uint64_t soft, hard;
	char what[32], first[32];
	size_t len;
	int number;

	if (equals == NULL) {
		error_set(error, WIRE_STEP_USAGE, 0, "--limit takes "
		    "NAME=SOFT[:HARD], like nofile=1024:4096");
		return -1;
	}
	number = resource(text, (size_t)(equals - text), error);
	if (number < 0) {
		return -1;
	}
	snprintf(what, sizeof(what), "--limit %s", names[number]);
	colon = strchr(equals, ':');
	len = colon == NULL ? strlen(equals + 1) :
	    (size_t)(colon - equals - 1);
	/* One that is too long for a number becomes one that is none. */
	len = len < sizeof(first) ? len : 0;
	memcpy(first, equals + 1, len);
	first[len] = '\0';
	if (value(first, what, &soft, error) < 0) {
		return -1;
	}
	hard = soft;
	if (colon != NULL && value(colon + 1, what, &hard, error) < 0) {
		return -1;
	}
	if (soft > hard) {
		error_set(error, WIRE_STEP_USAGE, 0, "%s: the soft limit is "
		    "above the hard one", what);
		return -1;
	}
	limits->of[number].given = true;
	limits->of[number].soft = soft;
	limits->of[number].hard = hard;
	return 0;
}

void
limits_items(const struct limits *limits, struct items *items)
{
	uint8_t item[WIRE_LIMIT_BYTES];
	uint8_t i;

	for (i = 0; i < WIRE_LIMITS_MAX; i++) {
		if (limits->of[i].given) {
			item[0] = i;
			wire_number_put(item + 1, limits->of[i].soft, 8);
			wire_number_put(item + 9, limits->of[i].hard, 8);
			items_add(items, item, sizeof(item));
		}
	}
}

static void
format(char *out, size_t cap, uint64_t v)
{
	if (v == UINT64_MAX) {
		snprintf(out, cap, "unlimited");
	} else {
		snprintf(out, cap, "%llu", (unsigned long long)v);
	}
}

void
limits_write(const struct limits *limits, struct json *json)
{
	char soft[24], hard[24], text[64];
	unsigned i;

	for (i = 0; i < WIRE_LIMITS_MAX; i++) {
		if (limits->of[i].given) {
			format(soft, sizeof(soft), limits->of[i].soft);
			format(hard, sizeof(hard), limits->of[i].hard);
			snprintf(text, sizeof(text), "%s:%s", soft, hard);
			json_string(json, names[i], text);
		}
	}
}

void
limits_bound(const struct limits *limits, struct wire_list asked,
    struct items *items)
{
	struct limits rest = *limits;
	uint8_t item[WIRE_LIMIT_BYTES];
	struct wire_bytes one;
	uint64_t soft, hard;

	while (wire_next(&asked, &one)) {
		if (one.len != sizeof(item) || one.at[0] >= WIRE_LIMITS_MAX ||
		    !limits->of[one.at[0]].given) {
			items_add(items, one.at, one.len);
			continue;
		}
		rest.of[one.at[0]].given = false;
		item[0] = one.at[0];
		soft = wire_number_get(one.at + 1, 8);
		hard = wire_number_get(one.at + 9, 8);
		wire_number_put(item + 1, soft < limits->of[item[0]].soft ?
		    soft : limits->of[item[0]].soft, 8);
		wire_number_put(item + 9, hard < limits->of[item[0]].hard ?
		    hard : limits->of[item[0]].hard, 8);
		items_add(items, item, sizeof(item));
	}
	limits_items(&rest, items);
}
