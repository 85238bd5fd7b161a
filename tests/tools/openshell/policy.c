/* SPDX-License-Identifier: MIT */
/* policy.c - two lists of paths out of a policy's YAML. */
#include "policy.h"

#include <string.h>

static size_t
indent_of(const char *line)
{
	return strspn(line, " ");
}

static const char *
next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end == NULL ? line + strlen(line) : end + 1;
}

/* The line of key inside filesystem_policy; NULL if there is none. */
static const char *
find(const char *text, const char *key)
{
	static const char top[] = "filesystem_policy:";
	const char *line;
	size_t len = strlen(key);

	for (line = text; *line != '\0'; line = next_line(line)) {
		if (strncmp(line, top, sizeof(top) - 1) == 0) {
			break;
		}
	}
	if (*line == '\0') {
		return NULL;
	}
	for (line = next_line(line); *line == ' ' || *line == '\n';
	    line = next_line(line)) {
		const char *at = line + indent_of(line);

		if (strncmp(at, key, len) == 0 && at[len] == ':') {
			return line;
		}
	}
	return NULL;
}

/* One plain or quoted scalar; returns what follows it. */
static const char *
take(const char *at, struct policy_list *list)
{
	char quote = *at == '"' || *at == '\'' ? *at++ : '\0';
	char stop[] = { quote, '\0' };
	size_t len = strcspn(at, quote != '\0' ? stop : ",] \n#");

	if (len > 0 && len < POLICY_PATH && list->count < POLICY_PATHS) {
		memcpy(list->paths[list->count], at, len);
		list->paths[list->count++][len] = '\0';
	}
	at += len;
	return quote != '\0' && *at == quote ? at + 1 : at;
}

int
policy_list(const char *text, const char *key, struct policy_list *list)
{
	const char *line = text == NULL ? NULL : find(text, key);
	const char *at;
	size_t indent;

	list->count = 0;
	if (line == NULL) {
		return 0;
	}
	indent = indent_of(line);
	at = strchr(line, ':') + 1;
	at += strspn(at, " ");
	if (*at == '[') {
		for (at++; *at != ']' && *at != '\0';) {
			at += strspn(at, " ,\n");
			if (*at != ']' && *at != '\0') {
				at = take(at, list);
			}
		}
		return 1;
	}
	for (line = next_line(line); indent_of(line) >= indent &&
	    line[indent_of(line)] == '-'; line = next_line(line)) {
		at = line + indent_of(line) + 1;
		(void)take(at + strspn(at, " "), list);
	}
	return 1;
}

int
policy_workdir(const char *text)
{
	const char *line = text == NULL ? NULL : find(text, "include_workdir");

	return line == NULL || strstr(line, "include_workdir: false") !=
	    line + indent_of(line);
}
