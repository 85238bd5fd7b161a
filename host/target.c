/* SPDX-License-Identifier: MIT */
/* target.c - names of targets, and cp's operands, taken apart. */
#include "target.h"

#include <stdio.h>
#include <string.h>

#include "quote.h"

enum kind {
	BARE,				/* a scheme without a name */
	NAMED,
	LATER				/* reserved, not reached yet */
};

static const struct {
	const char *scheme;
	enum kind kind;
	const char *form;
} schemes[] = {
	{ "local", BARE, "local" },
	{ "docker", NAMED, "docker:CONTAINER" },
	{ "podman", NAMED, "podman:CONTAINER" },
	{ "openshell", NAMED, "openshell:SANDBOX" },
	{ "kubectl", LATER, "kubectl:NAMESPACE/POD" },
	{ "ssh", LATER, "ssh:[USER@]HOST" }
};

#define COUNT (sizeof(schemes) / sizeof(schemes[0]))
#define KNOWN "a target is local, docker:CONTAINER, podman:CONTAINER, " \
    "openshell:SANDBOX or the name of a sandbox that `sandmux up` made"

static int
find(const char *text, size_t len)
{
	size_t i;

	for (i = 0; i < COUNT; i++) {
		if (strlen(schemes[i].scheme) == len &&
		    memcmp(schemes[i].scheme, text, len) == 0) {
			return (int)i;
		}
	}
	return -1;
}

static int
refuse(struct error *error, const char *text, size_t len, const char *why)
{
	char shown[128];

	quote_bytes(shown, sizeof(shown), (const uint8_t *)text, len);
	error_set(error, WIRE_STEP_TARGET, 0, "%s: %s", shown, why);
	return -1;
}

static bool
good_name(const char *name, size_t len)
{
	size_t i;

	if (len == 0 || name[0] == '-' || name[0] == '.') {
		return false;
	}
	for (i = 0; i < len; i++) {
		if (!((name[i] >= 'a' && name[i] <= 'z') ||
		    (name[i] >= 'A' && name[i] <= 'Z') ||
		    (name[i] >= '0' && name[i] <= '9') ||
		    (name[i] != '\0' && strchr("._-/@+", name[i]) != NULL))) {
			return false;
		}
	}
	return true;
}

bool
target_sandbox_name(const char *name, size_t len)
{
	size_t i;

	if (len == 0 || len > TARGET_SANDBOX_MAX || name[0] == '-' ||
	    name[len - 1] == '-' || find(name, len) >= 0) {
		return false;
	}
	for (i = 0; i < len; i++) {
		if (!((name[i] >= 'a' && name[i] <= 'z') ||
		    (name[i] >= '0' && name[i] <= '9') ||
		    (name[i] == '-' && name[i - 1] != '-'))) {
			return false;
		}
	}
	return true;
}

/*
 * Parse a target at the front of text; *end is set behind it, to a ':' or
 * the end of the text.
 */
static int
front(const char *text, struct target *target, const char **end,
    struct error *error)
{
	size_t len = strcspn(text, ":");
	int at = find(text, len);
	const char *name;
	char why[256];

	*target = (struct target){ 0 };
	if (at < 0 && target_sandbox_name(text, len)) {
		memcpy(target->name, text, len);
		*end = text + len;
		return 0;
	}
	if (at < 0) {
		return refuse(error, text, len, "no such target; " KNOWN);
	}
	memcpy(target->scheme, schemes[at].scheme, len);
	*end = text + len;
	if (schemes[at].kind == LATER) {
		snprintf(why, sizeof(why), "%s is not reached by this version "
		    "yet; " KNOWN, schemes[at].form);
		return refuse(error, text, strlen(text), why);
	}
	if (schemes[at].kind == BARE) {
		return 0;
	}
	name = text[len] == ':' ? text + len + 1 : text + len;
	len = strcspn(name, ":");
	if (len == 0) {
		snprintf(why, sizeof(why), "the name is missing; write %s",
		    schemes[at].form);
		return refuse(error, text, strlen(text), why);
	}
	if (len >= sizeof(target->name) || !good_name(name, len)) {
		return refuse(error, text, strlen(text), "the name is too "
		    "long, begins with - or . or has characters that no "
		    "such name has");
	}
	memcpy(target->name, name, len);
	*end = name + len;
	return 0;
}

int
target_parse(const char *text, struct target *target, struct error *error)
{
	const char *end;

	if (text[0] == '\0') {
		return refuse(error, "", 0, "the target is empty; " KNOWN);
	}
	if (front(text, target, &end, error) < 0) {
		return -1;
	}
	if (*end != '\0') {
		return refuse(error, text, strlen(text),
		    target->scheme[0] == '\0' ? "no such target; " KNOWN :
		    "there is more behind the target's name");
	}
	return 0;
}

void
target_format(const struct target *target, char *out)
{
	snprintf(out, TARGET_TEXT_MAX, target->name[0] == '\0' ||
	    target->scheme[0] == '\0' ? "%s%s" : "%s:%s", target->scheme,
	    target->name);
}

int
target_operand(const char *text, struct target_operand *operand,
    struct error *error)
{
	const char *end;

	*operand = (struct target_operand){ .local = true, .path = text };
	if (text[0] == '\0') {
		error_set(error, WIRE_STEP_USAGE, 0, "an operand is empty");
		return -1;
	}
	if (text[0] == '/' || strncmp(text, "./", 2) == 0 ||
	    strncmp(text, "../", 3) == 0 || strchr(text, ':') == NULL) {
		return 0;
	}
	operand->local = false;
	if (front(text, &operand->target, &end, error) < 0) {
		char shown[256];

		snprintf(shown, sizeof(shown), "%.200s", error->text);
		error_set(error, error->step, error->number, "%s (a local "
		    "file with a colon in its name: write ./NAME)", shown);
		return -1;
	}
	if (*end == '\0') {
		return refuse(error, text, strlen(text), "a target without "
		    "a path; write TARGET:PATH");
	}
	if (end[1] == '\0') {
		return refuse(error, text, strlen(text),
		    "the path is empty");
	}
	operand->path = end + 1;
	return 0;
}
