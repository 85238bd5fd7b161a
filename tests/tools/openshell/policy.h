/* SPDX-License-Identifier: MIT */
/*
 * policy.h - the file system's part of a sandbox policy.
 *
 * Reads the two lists of filesystem_policy, as YAML's plain scalars in flow
 * or block style, one key a line; everything else is passed over, as is a
 * part it does not understand.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stddef.h>

#define POLICY_MAX 65536	/* bytes of a policy's file */
#define POLICY_PATHS 64		/* of one list */
#define POLICY_PATH 256		/* bytes of a path, with its NUL */

struct policy_list {
	char paths[POLICY_PATHS][POLICY_PATH];
	size_t count;
};

/*
 * The paths below filesystem_policy's key ("read_only", "read_write").  1,
 * or 0 if text (NULL too) has no such list: the default counts then.
 */
int policy_list(const char *text, const char *key, struct policy_list *list);

/* Whether the workspace is writable too: unless include_workdir is false. */
int policy_workdir(const char *text);

#endif
