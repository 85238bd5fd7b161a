/* SPDX-License-Identifier: MIT */
/*
 * user.h - who a job runs as: looking up a user and becoming it for good.
 *
 * Both run in a child, between fork and exec: they may block on a hung file
 * system and they change the whole process.  Nothing of the C library's name
 * service is used, only the two files, and those are not trusted.
 */
#ifndef USER_H
#define USER_H

#include <stdbool.h>
#include <sys/types.h>

#include "error.h"

#define USER_ID_MAX 2147483647		/* -1 would mean "leave as it is" */
#define USER_GROUPS_MAX 1024		/* supplementary, the first included */
#define USER_FILE_MAX 4194304		/* bytes of /etc/passwd, /etc/group */

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[USER_GROUPS_MAX];	/* supplementary; gid is the first */
	unsigned count;			/* of groups */
	bool known;			/* it has an entry in /etc/passwd */
	bool grouped;			/* the group was asked for by name */
	char name[WIRE_USER_MAX + 1];	/* "" if not known */
	char home[WIRE_PATH_MAX];	/* "/" if not known or empty there */
	char shell[WIRE_PATH_MAX];	/* "" if not known or empty there */
};

/*
 * Fill *user from spec, NAME|UID[:GROUP|GID], as docker exec reads it: a
 * number is an id and never a name, an id needs no entry, without entry the
 * gid is 0; the supplementary groups are those that list the user's name,
 * and none if a group is given; an empty user is uid 0.  Malformed lines do
 * not count, and of several fitting ones the first does.  A file that is
 * missing is empty; one that is no regular file, too large or unreadable is
 * an error.  added, NULL or NAME|GID:..., are supplementary groups for any
 * user, as docker run --group-add means them: of the file's lines the first
 * with that name or number, else the number.  0, or -1 with *error (step
 * USER).
 */
int user_find(struct user *user, const char *spec, const char *added,
    struct error *error);

/* The same with other files. */
int user_find_in(struct user *user, const char *spec, const char *added,
    const char *passwd, const char *group, struct error *error);

/*
 * Become user, for good and provably: ids, groups, and no capabilities but
 * root's.  Who is that user already needs no privilege; where groups cannot
 * be set the current ones stay, for the own uid only.  The process is not
 * dumpable afterwards, and the kernel has forgotten its PDEATHSIG.  0, or -1
 * with *error (step SWITCH): the process is then good for _exit() only.
 */
int user_become(const struct user *user, struct error *error);

/* Whether this process may become any user.  Does not block. */
bool user_can_switch(void);

#endif
