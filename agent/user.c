/* SPDX-License-Identifier: MIT */
/* user.c - the look-up of a user, and the way to it. */
#include "user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PASSWD "/etc/passwd"
#define GROUP "/etc/group"
#define NUMBER_MAX 12			/* characters of an id in a file */
#define END (-1)			/* the file's, or it cannot be read */

/* musl has no <linux/capability.h>. */
#define CAP_SETGID_BIT 0x40u
#define CAP_SETUID_BIT 0x80u
#define CAPS_VERSION 0x20080522u

/* ---- files, field by field -------------------------------------------- */

/* Lines may be of any length; what is kept of them is bounded. */
struct reader {
	const char *path;
	int fd;				/* owned, -1: there is no file */
	int failed;			/* errno of a read */
	int last;			/* what ended the last field, or END */
	bool bad;			/* this line is malformed */
	size_t at, len, total;
	char buf[4096];
};

static int
refuse(struct error *error, const char *path, int number, const char *why)
{
	error_set(error, WIRE_STEP_USER, number, "%s%s", path, why);
	return -1;
}

static int
reader_open(struct reader *r, const char *path, struct error *error)
{
	struct stat st;

	*r = (struct reader){ .path = path, .last = '\n' };
	/* A fifo or a device must not hold us. */
	r->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (r->fd == -1) {
		return errno == ENOENT || errno == ENOTDIR ? 0 :
		    refuse(error, path, errno, "");
	}
	if (fstat(r->fd, &st) == -1) {
		return refuse(error, path, errno, "");
	}
	if (!S_ISREG(st.st_mode)) {
		return refuse(error, path, S_ISDIR(st.st_mode) ? EISDIR :
		    EINVAL, " is not a regular file");
	}
	if (st.st_size > USER_FILE_MAX) {
		return refuse(error, path, EFBIG, "");
	}
	return 0;
}

/* 0, or -1 if what was read is not all that there is. */
static int
reader_close(struct reader *r, struct error *error)
{
	if (r->fd != -1) {
		close(r->fd);
	}
	return r->failed == 0 ? 0 : refuse(error, r->path, r->failed, "");
}

static int
next_byte(struct reader *r)
{
	ssize_t n;

	if (r->at == r->len) {
		if (r->fd == -1 || r->failed != 0) {
			return END;
		}
		do {
			n = read(r->fd, r->buf, sizeof(r->buf));
		} while (n == -1 && errno == EINTR);
		r->at = 0;
		r->len = n > 0 ? (size_t)n : 0;
		r->total += r->len;
		if (n == -1) {
			r->failed = errno;
		} else if (r->total > USER_FILE_MAX) {
			r->failed = EFBIG;
		}
		if (n <= 0 || r->failed != 0) {
			r->len = 0;
			return END;
		}
	}
	return (unsigned char)r->buf[r->at++];
}

static bool
is_space(int c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool
line_over(const struct reader *r)
{
	return r->last == '\n' || r->last == END;
}

/*
 * The next field, up to ':', the line's end or also stop, into out[cap], or
 * nowhere.  Without space at the line's end, as Docker reads it: that is
 * where a CR is.  One that does not fit spoils its line.
 */
static void
field(struct reader *r, char *out, size_t cap, int stop)
{
	size_t n = 0;
	int c = r->last;

	while (!line_over(r)) {
		c = next_byte(r);
		if (c == ':' || c == '\n' || c == END || c == stop) {
			break;
		}
		if (cap > 0 && (c == '\0' || n + 1 >= cap)) {
			r->bad = true;
		} else if (cap > 0) {
			out[n++] = (char)c;
		}
	}
	r->last = c;
	while (line_over(r) && n > 0 && is_space(out[n - 1])) {
		n--;
	}
	if (cap > 0) {
		out[n] = '\0';
	}
}

static void
skip_field(struct reader *r)
{
	field(r, NULL, 0, ':');
}

/* Go to the next line that is not empty; false if there is none. */
static bool
next_line(struct reader *r)
{
	int c;

	while (!line_over(r)) {
		skip_field(r);
	}
	do {
		c = next_byte(r);
	} while (is_space(c));
	if (c == END) {
		r->last = END;
		return false;
	}
	r->at--;
	r->last = ':';
	r->bad = false;
	return true;
}

/* A field that is an id; anything else spoils its line. */
static int64_t
id_field(struct reader *r)
{
	char text[NUMBER_MAX];
	int64_t id = 0;
	size_t i;

	field(r, text, sizeof(text), ':');
	for (i = 0; text[i] >= '0' && text[i] <= '9'; i++) {
		id = id * 10 + (text[i] - '0');
	}
	if (i == 0 || text[i] != '\0') {
		r->bad = true;
	}
	return id;
}

/* ---- looking up ------------------------------------------------------- */

/* One side of the colon in NAME|UID[:GROUP|GID]. */
struct half {
	char text[WIRE_USER_MAX + 1];
	int64_t id;
	bool numeric;
};

static int
bad_range(struct error *error)
{
	error_set(error, WIRE_STEP_USER, 0,
	    "uids and gids must be in range 0-%d", USER_ID_MAX);
	return -1;
}

static int
half_set(struct half *half, const char *text, size_t len, struct error *error)
{
	const char *digits = half->text;

	if (len > WIRE_USER_MAX) {
		error_set(error, WIRE_STEP_USER, ENAMETOOLONG, "the user");
		return -1;
	}
	memcpy(half->text, text, len);
	half->text[len] = '\0';
	digits += *digits == '-' || *digits == '+';
	half->id = 0;
	half->numeric = *digits != '\0' &&
	    digits[strspn(digits, "0123456789")] == '\0';
	if (!half->numeric) {
		return 0;
	}
	for (; *digits != '\0' && half->id <= USER_ID_MAX; digits++) {
		half->id = half->id * 10 + (*digits - '0');
	}
	if (half->id > USER_ID_MAX || (half->text[0] == '-' && half->id > 0)) {
		return bad_range(error);
	}
	return 0;
}

static bool
matches(const struct half *half, const char *name, int64_t id)
{
	return half->numeric ? id == half->id : strcmp(name, half->text) == 0;
}

/* The first fitting line of passwd into *user; without one it is unknown. */
static int
find_entry(struct user *user, const struct half *who, const char *path,
    struct error *error)
{
	struct reader r;
	int64_t uid = who->id, gid = 0;

	if (reader_open(&r, path, error) == -1) {
		reader_close(&r, error);
		return -1;
	}
	while (!user->known && next_line(&r)) {
		field(&r, user->name, sizeof(user->name), ':');
		skip_field(&r);
		uid = id_field(&r);
		gid = id_field(&r);
		skip_field(&r);
		field(&r, user->home, sizeof(user->home), ':');
		field(&r, user->shell, sizeof(user->shell), ':');
		user->known = !r.bad && user->name[0] != '\0' &&
		    matches(who, user->name, uid);
	}
	if (reader_close(&r, error) == -1) {
		return -1;
	}
	if (!user->known) {
		user->name[0] = user->home[0] = user->shell[0] = '\0';
		uid = who->id;
		gid = 0;
	}
	if (!user->known && !who->numeric) {
		error_set(error, WIRE_STEP_USER, 0, "unable to find user %s: "
		    "no matching entries in passwd file", who->text);
		return -1;
	}
	if (uid > USER_ID_MAX || gid > USER_ID_MAX) {
		return bad_range(error);
	}
	if (user->home[0] == '\0') {
		strcpy(user->home, "/");
	}
	user->uid = (uid_t)uid;
	user->gid = (gid_t)gid;
	return 0;
}

static int
add_group(struct user *user, int64_t gid, struct error *error)
{
	unsigned i;

	if (gid > USER_ID_MAX) {
		return bad_range(error);
	}
	for (i = 0; i < user->count; i++) {
		if (user->groups[i] == (gid_t)gid) {
			return 0;
		}
	}
	if (user->count == USER_GROUPS_MAX) {
		error_set(error, WIRE_STEP_USER, E2BIG, "groups of user %s",
		    user->name);
		return -1;
	}
	user->groups[user->count++] = (gid_t)gid;
	return 0;
}

/* Whether the rest of this line of group, its members, has the name. */
static bool
lists(struct reader *r, const char *name)
{
	char member[WIRE_USER_MAX + 1];

	/* Behind the list a further field would be none of its members. */
	do {
		r->bad = false;
		field(r, member, sizeof(member), ',');
		if (!r->bad && strcmp(member, name) == 0) {
			return true;
		}
	} while (r->last == ',');
	return false;
}

static int
no_group(struct error *error, const struct half *which)
{
	error_set(error, WIRE_STEP_USER, 0, "unable to find group %s: "
	    "no matching entries in group file", which->text);
	return -1;
}

/* The group that was asked for, or all that list the user. */
static int
find_groups(struct user *user, const struct half *which, const char *path,
    struct error *error)
{
	char name[WIRE_USER_MAX + 1];
	struct reader r;
	int64_t gid;
	bool found = false;
	int rc = reader_open(&r, path, error);

	while (rc == 0 && !found && next_line(&r)) {
		field(&r, name, sizeof(name), ':');
		skip_field(&r);
		gid = id_field(&r);
		if (r.bad || name[0] == '\0' || name[0] == '#') {
			continue;
		}
		if (!user->grouped) {
			rc = lists(&r, user->name) ?
			    add_group(user, gid, error) : 0;
		} else if (matches(which, name, gid)) {
			found = true;
			user->gid = (gid_t)gid;
			rc = gid > USER_ID_MAX ? bad_range(error) : 0;
		}
	}
	if (reader_close(&r, error) == -1 || rc == -1) {
		return -1;
	}
	return user->grouped && !found ? no_group(error, which) : 0;
}

/* One of the groups that whoever it is gets. */
static int
find_added(struct user *user, const struct half *which, const char *path,
    struct error *error)
{
	char name[WIRE_USER_MAX + 1];
	struct reader r;
	int64_t gid, found = which->numeric ? which->id : -1;
	int rc = reader_open(&r, path, error);

	while (rc == 0 && next_line(&r)) {
		field(&r, name, sizeof(name), ':');
		skip_field(&r);
		gid = id_field(&r);
		if (!r.bad && (strcmp(name, which->text) == 0 ||
		    (which->numeric && gid == which->id))) {
			found = gid;
			break;
		}
	}
	if (reader_close(&r, error) == -1 || rc == -1) {
		return -1;
	}
	return found == -1 ? no_group(error, which) :
	    add_group(user, found, error);
}

static int
find_all_added(struct user *user, const char *added, const char *path,
    struct error *error)
{
	struct half which;
	size_t len;

	for (; *added != '\0'; added += len + (added[len] == ':')) {
		len = strcspn(added, ":");
		if (len > 0 && (half_set(&which, added, len, error) == -1 ||
		    find_added(user, &which, path, error) == -1)) {
			return -1;
		}
	}
	return 0;
}

static int
find_who(struct user *user, const char *spec, const char *passwd,
    const char *group, struct error *error)
{
	size_t len = strcspn(spec, ":");
	const char *rest = spec[len] == ':' ? spec + len + 1 : "";
	struct half who, which;

	memset(user, 0, sizeof(*user));
	/* Nobody named means root, to Docker too. */
	if (half_set(&who, len > 0 ? spec : "0", len > 0 ? len : 1,
	    error) == -1 || half_set(&which, rest, strlen(rest), error) == -1 ||
	    find_entry(user, &who, passwd, error) == -1) {
		return -1;
	}
	user->grouped = rest[0] != '\0';
	if (user->grouped && which.numeric) {
		user->gid = (gid_t)which.id;
		return add_group(user, which.id, error);
	}
	if (user->grouped) {
		return find_groups(user, &which, group, error) == -1 ? -1 :
		    add_group(user, user->gid, error);
	}
	if (add_group(user, user->gid, error) == -1) {
		return -1;
	}
	return user->known ? find_groups(user, &which, group, error) : 0;
}

int
user_find_in(struct user *user, const char *spec, const char *added,
    const char *passwd, const char *group, struct error *error)
{
	int rc = find_who(user, spec, passwd, group, error);

	return rc == 0 && added != NULL ?
	    find_all_added(user, added, group, error) : rc;
}

int
user_find(struct user *user, const char *spec, const char *added,
    struct error *error)
{
	return user_find_in(user, spec, added, PASSWD, GROUP, error);
}

/* ---- becoming --------------------------------------------------------- */

/* capget(2)'s own form: low and high halves. */
struct caps {
	struct {
		uint32_t effective, permitted, inheritable;
	} half[2];
};

static int
caps_call(long number, struct caps *caps)
{
	uint32_t head[2] = { CAPS_VERSION, 0 };

	return (int)syscall(number, head, caps);
}

/* Of CAP_SETUID and CAP_SETGID, those that count now. */
static uint32_t
switch_caps(void)
{
	struct caps caps;

	return caps_call(SYS_capget, &caps) == -1 ? 0 :
	    caps.half[0].effective & (CAP_SETUID_BIT | CAP_SETGID_BIT);
}

/* A user namespace made without privilege has no setgroups(). */
static bool
groups_denied(void)
{
	int fd = open("/proc/self/setgroups",
	    O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char text[4];
	bool denied;

	if (fd == -1) {
		return false;
	}
	denied = read(fd, text, sizeof(text)) == sizeof(text) &&
	    memcmp(text, "deny", sizeof(text)) == 0;
	close(fd);
	return denied;
}

bool
user_can_switch(void)
{
	return switch_caps() == (CAP_SETUID_BIT | CAP_SETGID_BIT) &&
	    !groups_denied();
}

/* What a step refused for want of privilege lacks. */
static const char *
missing(void)
{
	switch (switch_caps()) {
	case 0:
		return "CAP_SETUID and CAP_SETGID";
	case CAP_SETUID_BIT:
		return "CAP_SETGID";
	case CAP_SETGID_BIT:
		return "CAP_SETUID";
	default:
		return "setgroups(2)";
	}
}

static int
fail(const struct user *user, int number, const char *what,
    struct error *error)
{
	char who[WIRE_USER_MAX + 48];

	if (user->known) {
		snprintf(who, sizeof(who), "user \"%s\" (uid %u, gid %u)",
		    user->name, (unsigned)user->uid, (unsigned)user->gid);
	} else {
		snprintf(who, sizeof(who), "uid %u, gid %u",
		    (unsigned)user->uid, (unsigned)user->gid);
	}
	if (number == EPERM) {
		error_set(error, WIRE_STEP_SWITCH, number, "cannot switch to "
		    "%s: the agent runs as uid %u and has no %s", who,
		    (unsigned)geteuid(), missing());
	} else {
		error_set(error, WIRE_STEP_SWITCH, number, "cannot switch to "
		    "%s: %s", who, what);
	}
	return -1;
}

static bool
ids_are(const struct user *user)
{
	uid_t r, e, s;
	gid_t gr, ge, gs;

	return getresuid(&r, &e, &s) == 0 && getresgid(&gr, &ge, &gs) == 0 &&
	    r == user->uid && e == r && s == r &&
	    gr == user->gid && ge == gr && gs == gr;
}

static bool
has_group(const gid_t *groups, int count, gid_t gid)
{
	int i;

	for (i = 0; i < count; i++) {
		if (groups[i] == gid) {
			return true;
		}
	}
	return false;
}

/* The kernel sorts them, and may hold one twice. */
static bool
groups_are(const struct user *user)
{
	gid_t have[USER_GROUPS_MAX];
	int count = getgroups(USER_GROUPS_MAX, have), i;
	unsigned j;

	for (i = 0; i < count; i++) {
		if (!has_group(user->groups, (int)user->count, have[i])) {
			return false;
		}
	}
	for (j = 0; j < user->count; j++) {
		if (!has_group(have, count, user->groups[j])) {
			return false;
		}
	}
	return count != -1;
}

/*
 * Whether the process is that user, as far as it could be: who cannot set
 * groups keeps them, and its own group too unless another was asked for.
 */
static bool
is_already(const struct user *user)
{
	struct user own = *user;

	if (user_can_switch()) {
		return ids_are(user) && groups_are(user);
	}
	if (!user->grouped) {
		own.gid = getegid();
	}
	return ids_are(&own);
}

/*
 * Nothing of ours is to come through the job's exec.  Root keeps what the
 * container gives root; others must not depend on what the kernel drops by
 * itself, which an inherited securebit can change.
 */
static int
drop_caps(const struct user *user)
{
	struct caps caps;
	int i;

	/* Kernels before 4.3 have no ambient set. */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == -1 &&
	    errno != EINVAL) {
		return -1;
	}
	if (caps_call(SYS_capget, &caps) == -1) {
		return -1;
	}
	for (i = 0; i < 2; i++) {
		caps.half[i].inheritable = 0;
		if (user->uid != 0) {
			caps.half[i].effective = caps.half[i].permitted = 0;
		}
	}
	return caps_call(SYS_capset, &caps);
}

int
user_become(const struct user *user, struct error *error)
{
	if (is_already(user)) {
		return 0;
	}
	if (setgroups(user->count, user->groups) == -1) {
		return fail(user, errno, "setgroups", error);
	}
	if (setresgid(user->gid, user->gid, user->gid) == -1) {
		return fail(user, errno, "setresgid", error);
	}
	if (setresuid(user->uid, user->uid, user->uid) == -1) {
		return fail(user, errno, "setresuid", error);
	}
	if (drop_caps(user) == -1) {
		return fail(user, errno, "capset", error);
	}
	if (!ids_are(user) || !groups_are(user)) {
		return fail(user, EBADE, "the ids did not change", error);
	}
	if (user->uid != 0 && setresuid(0, 0, 0) != -1) {
		return fail(user, EBADE, "there is a way back", error);
	}
	/* A change of ids may have set it to what the system prefers. */
	if (prctl(PR_SET_DUMPABLE, 0) == -1) {
		return fail(user, errno, "PR_SET_DUMPABLE", error);
	}
	return 0;
}
