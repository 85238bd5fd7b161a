/* SPDX-License-Identifier: MIT */
/* test_user.c - looking users up in hostile files; becoming them (as root). */
#include "user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char dir[] = "/tmp/test_user.XXXXXX";
static char passwd[64], group[64];
static struct user user;
static struct error error;
static const char *added;		/* to any user's groups */

static void
write_file(const char *path, const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static void
files(const char *users, const char *groups)
{
	unlink(passwd);
	unlink(group);
	if (users != NULL) {
		write_file(passwd, users, strlen(users));
	}
	if (groups != NULL) {
		write_file(group, groups, strlen(groups));
	}
}

static int
find(const char *spec)
{
	int rc;

	memset(&user, 0x55, sizeof(user));
	memset(&error, 0, sizeof(error));
	rc = user_find_in(&user, spec, added, passwd, group, &error);
	assert_int_equal(rc == 0, error.step == WIRE_STEP_NONE);
	return rc;
}

/* Found as "uid:gid groups... name home shell". */
static void
found(const char *spec, const char *expected)
{
	char text[512];
	int n, rc = find(spec);
	unsigned i;

	if (rc != 0) {
		fail_msg("%s: %s", spec, error.text);
	}
	n = snprintf(text, sizeof(text), "%u:%u", user.uid, user.gid);
	for (i = 0; i < user.count; i++) {
		n += snprintf(text + n, sizeof(text) - (size_t)n, " %u",
		    user.groups[i]);
	}
	snprintf(text + n, sizeof(text) - (size_t)n, " %s %s %s",
	    user.known ? user.name : "-", user.home, user.shell);
	assert_string_equal(text, expected);
}

static void
refused(const char *spec, int number, const char *text)
{
	assert_int_equal(find(spec), -1);
	assert_int_equal(error.step, WIRE_STEP_USER);
	assert_int_equal(error.number, number);
	assert_string_equal(error.text, text);
}

#define RANGE "uids and gids must be in range 0-2147483647"
#define NO_USER(name) "unable to find user " name \
	": no matching entries in passwd file"
#define NO_GROUP(name) "unable to find group " name \
	": no matching entries in group file"

static const char users[] =
    "root:x:0:0:root:/root:/bin/bash\n"
    "u:x:1000:1001:U,,,:/home/u:/bin/sh\n"
    "twice:x:1000:7:second:/home/twice:/bin/no\n"
    "1000:x:2000:2000::/home/thousand:/bin/n\n"
    "bare:x:3000:3001\n"
    "nohome:x:3002:3002:::\n";
static const char groups[] =
    "root:x:0:\n"
    "adm:x:4:syslog,u\n"
    "ug:x:1001:\n"
    "# u:x:66:u\n"
    "many:x:50:a,b,u,c\n"
    "again:x:4:u\n"
    "notu:x:51:uu,xu,u u,\n"
    "further:x:52:a:u\n"
    "12:x:77:\n";

static void
test_docker(void **state)
{
	(void)state;
	files(users, groups);
	found("root", "0:0 0 root /root /bin/bash");
	found("0", "0:0 0 root /root /bin/bash");
	found("u", "1000:1001 1001 4 50 u /home/u /bin/sh");
	/* A number is never a name; the first of two entries counts. */
	found("1000", "1000:1001 1001 4 50 u /home/u /bin/sh");
	found("+1000", "1000:1001 1001 4 50 u /home/u /bin/sh");
	found("001000", "1000:1001 1001 4 50 u /home/u /bin/sh");
	found("twice", "1000:7 7 twice /home/twice /bin/no");
	found("2000", "2000:2000 2000 1000 /home/thousand /bin/n");
	/* No entry: gid 0 and nothing else. */
	found("5", "5:0 0 - / ");
	found("2147483647", "2147483647:0 0 - / ");
	found("-0", "0:0 0 root /root /bin/bash");
	found("bare", "3000:3001 3001 bare / ");
	found("nohome", "3002:3002 3002 nohome / ");
	/* A group that is given stands alone. */
	found("u:adm", "1000:4 4 u /home/u /bin/sh");
	found("u:4", "1000:4 4 u /home/u /bin/sh");
	found("u:12", "1000:12 12 u /home/u /bin/sh");
	found("5:many", "5:50 50 - / ");
	found("5:6", "5:6 6 - / ");
	found("u:2147483647", "1000:2147483647 2147483647 u /home/u /bin/sh");
	found("u:", "1000:1001 1001 4 50 u /home/u /bin/sh");
	/* Nobody named is root. */
	found(":adm", "0:4 4 root /root /bin/bash");
	found(":5", "0:5 5 root /root /bin/bash");
	found(":", "0:0 0 root /root /bin/bash");
	found("", "0:0 0 root /root /bin/bash");
}

static void
test_refused(void **state)
{
	char name[WIRE_USER_MAX + 2];

	(void)state;
	files(users, groups);
	refused("nobody", 0, NO_USER("nobody"));
	refused("u ", 0, NO_USER("u "));
	refused("U", 0, NO_USER("U"));
	refused("0x5", 0, NO_USER("0x5"));
	refused("1.0", 0, NO_USER("1.0"));
	refused("-", 0, NO_USER("-"));
	refused("--1", 0, NO_USER("--1"));
	refused("nobody:nogroup", 0, NO_USER("nobody"));
	refused("u:nogroup", 0, NO_GROUP("nogroup"));
	refused("5:nogroup", 0, NO_GROUP("nogroup"));
	refused("u:adm:4", 0, NO_GROUP("adm:4"));
	refused("u::", 0, NO_GROUP(":"));
	refused("u:# u", 0, NO_GROUP("# u"));
	refused("2147483648", 0, RANGE);
	refused("4294967295", 0, RANGE);
	refused("4294967296", 0, RANGE);
	refused("18446744073709551616", 0, RANGE);
	refused("99999999999999999999999999999999999999999", 0, RANGE);
	refused("-1", 0, RANGE);
	refused("-4294967296", 0, RANGE);
	refused("u:2147483648", 0, RANGE);
	refused("u:4294967295", 0, RANGE);
	refused("u:-1", 0, RANGE);
	memset(name, 'u', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	refused(name, ENAMETOOLONG, "the user");
}

static void
test_added(void **state)
{
	(void)state;
	files(users, groups);
	added = "adm:77:5000:many:adm";
	found("root", "0:0 0 4 77 5000 50 root /root /bin/bash");
	found("u", "1000:1001 1001 4 50 77 5000 u /home/u /bin/sh");
	found("u:ug", "1000:1001 1001 4 77 5000 50 u /home/u /bin/sh");
	found("5:6", "5:6 6 4 77 5000 50 - / ");
	/* Here the first line that has it as either counts. */
	added = ":12:";
	found("5", "5:0 0 77 - / ");
	added = "50:051";
	found("5", "5:0 0 50 51 - / ");
	added = "adm:nosuch";
	refused("u", 0, NO_GROUP("nosuch"));
	refused("mallory", 0, NO_USER("mallory"));
	added = "4294967295";
	refused("u", 0, RANGE);
	files(users, NULL);
	added = "7";
	found("5", "5:0 0 7 - / ");
	added = "adm";
	refused("5", 0, NO_GROUP("adm"));
	added = "";
	found("5", "5:0 0 - / ");
	added = NULL;
}

static void
test_no_files(void **state)
{
	(void)state;
	files(NULL, NULL);
	found("5", "5:0 0 - / ");
	found("0", "0:0 0 - / ");
	found("5:6", "5:6 6 - / ");
	refused("root", 0, NO_USER("root"));
	refused("5:g", 0, NO_GROUP("g"));
	files("", "");
	found("5:6", "5:6 6 - / ");
	refused("root", 0, NO_USER("root"));
	files(users, NULL);
	found("u", "1000:1001 1001 u /home/u /bin/sh");
	refused("u:adm", 0, NO_GROUP("adm"));
}

static void
test_malformed(void **state)
{
	(void)state;
	files("\n\n  \t\n"
	    "u\n"
	    "u:\n"
	    "u:x\n"
	    "u:x:\n"
	    "u:x:1\n"
	    "u:x:1:\n"
	    "u:x::1:no uid:/a:/b\n"
	    "u:x:a:1:no number:/a:/b\n"
	    "u:x:-1:1:negative:/a:/b\n"
	    "u:x:+1:1:signed:/a:/b\n"
	    "u:x:1 :1:a space:/a:/b\n"
	    "u:x:0x1:1:hex:/a:/b\n"
	    "u:x:1:b:no gid:/a:/b\n"
	    "u:x:99999999999999999999:1:long:/a:/b\n"
	    ":x:5:5:no name:/a:/b\n"
	    "+::::::\n"
	    "::::::\n"
	    ":::::::::::::::::\n"
	    "  u:x:7:8:good:/h:/s:more:fields  \n"
	    "big:x:4294967295:1::/:/\n"
	    "biggid:x:1:4294967295::/:/\n"
	    "last:x:9:10::/l:/ls",
	    "g\n"
	    "g:x\n"
	    "g:x:\n"
	    "g:x:a:u\n"
	    "g:x::u\n"
	    "g:x:-5:u\n"
	    ":x:55:u\n"
	    "  g:x:56:,,u,\n"
	    "big:x:4294967295:b\n"
	    "e:x:57:u,last");
	found("u", "7:8 8 56 57 u /h /s");
	found("u:g", "7:56 56 u /h /s");
	found("5", "5:0 0 - / ");
	found("last", "9:10 10 57 last /l /ls");
	refused("big", 0, RANGE);
	refused("biggid", 0, RANGE);
	refused("u:big", 0, RANGE);
	refused("+", 0, NO_USER("+"));
}

static void
test_crlf(void **state)
{
	(void)state;
	files("u:x:7:8:good:/h:/s\r\nv:x:9:10\r\n",
	    "g:x:56:u\r\nh:x:57:\r\nv:x:58:v,u\r\n");
	found("u", "7:8 8 56 58 u /h /s");
	found("v", "9:10 10 58 v / ");
	found("u:h", "7:57 57 u /h /s");
}

static void
test_binary(void **state)
{
	static const char evil[] = "root\0x:x:6:6::/a:/b\n"
	    "u:x:1000\0:1::/a:/b\n"
	    "u:x\0y:7:8::/h:/s\n";
	char junk[65536];
	unsigned seed = 1;
	size_t i;

	(void)state;
	files(NULL, "g:x:5:u\n");
	write_file(passwd, evil, sizeof(evil) - 1);
	/* A NUL ends no name. */
	refused("root", 0, NO_USER("root"));
	found("u", "7:8 8 5 u /h /s");
	for (i = 0; i < sizeof(junk); i++) {
		seed = seed * 1103515245u + 12345u;
		junk[i] = (char)(seed >> 16 | 1);	/* no NUL */
	}
	write_file(passwd, junk, sizeof(junk));
	write_file(group, junk, sizeof(junk));
	refused("u", 0, NO_USER("u"));
	refused("5:g", 0, NO_GROUP("g"));
	found("70000", "70000:0 0 - / ");
}

/* A text of len bytes c between two texts. */
static char *
long_text(const char *before, char c, size_t len, const char *after)
{
	size_t a = strlen(before), b = strlen(after);
	char *text = malloc(a + len + b + 1);

	assert_non_null(text);
	memcpy(text, before, a);
	memset(text + a, c, len);
	memcpy(text + a + len, after, b + 1);
	return text;
}

static void
test_long(void **state)
{
	char *text, *more;
	size_t len;

	(void)state;
	/* Around the buffer's size, and far above it. */
	for (len = 4000; len < 4200; len++) {
		text = long_text("v:x:1:1:", 'g', len,
		    ":/h:/s\nu:x:7:8::/hu:/su\n");
		more = long_text("a:x:5:", 'm', len, ",u\nb:x:6:u\n");
		files(text, more);
		found("u", "7:8 8 5 6 u /hu /su");
		found("v", "1:1 1 v /h /s");
		free(text);
		free(more);
	}
	text = long_text("u:", 'x', 2000000, ":7:8:g:/h:/s\n");
	more = long_text("a:x:5:", ',', 2000000, "u\n");
	files(text, more);
	found("u", "7:8 8 5 u /h /s");
	free(text);
	free(more);
	/* What is kept does not fit: that line does not count. */
	text = long_text("u:x:1:1::/", 'h', WIRE_PATH_MAX, ":/s\n"
	    "u:x:2:2::/h:/s\n");
	files(text, "");
	found("u", "2:2 2 u /h /s");
	free(text);
	text = long_text("", 'n', WIRE_USER_MAX, ":x:1:1::/h:/s\n");
	files(text, "");
	text[WIRE_USER_MAX] = '\0';
	assert_int_equal(find(text), 0);
	free(text);
	text = long_text("", 'n', WIRE_USER_MAX + 1, ":x:1:1::/h:/s\n");
	files(text, "");
	text[WIRE_USER_MAX] = '\0';
	assert_int_equal(find(text), -1);
	free(text);
}

static void
test_too_large(void **state)
{
	char text[128];
	char *big;

	(void)state;
	big = long_text("u:x:7:8::/h:/s\n", '\n', USER_FILE_MAX - 15, "");
	files(big, big);
	found("u", "7:8 8 u /h /s");
	refused("v", 0, NO_USER("v"));
	free(big);
	big = long_text("u:x:7:8::/h:/s\n", '\n', USER_FILE_MAX - 14, "");
	files(big, NULL);
	refused("u", EFBIG, passwd);
	files("u:x:7:8::/h:/s\n", big);
	refused("u", EFBIG, group);
	found("u:5", "7:5 5 u /h /s");	/* the file is not needed */
	free(big);
	/* Too many groups are no reason to leave some out. */
	big = malloc(USER_GROUPS_MAX * 32);
	assert_non_null(big);
	big[0] = '\0';
	for (int i = 0, n = 0; i < USER_GROUPS_MAX; i++) {
		if (i == USER_GROUPS_MAX - 1) {
			files("u:x:7:8::/h:/s\n", big);
			assert_int_equal(find("u"), 0);
			assert_int_equal(user.count, USER_GROUPS_MAX);
		}
		n += snprintf(big + n, 32, "g:x:%d:u\n", 1000 + i);
	}
	files("u:x:7:8::/h:/s\n", big);
	snprintf(text, sizeof(text), "groups of user u");
	refused("u", E2BIG, text);
	free(big);
}

static void
test_not_a_file(void **state)
{
	char text[128];

	(void)state;
	alarm(20);
	files(NULL, groups);
	assert_int_equal(mkfifo(passwd, 0666), 0);
	snprintf(text, sizeof(text), "%s is not a regular file", passwd);
	refused("u", EINVAL, text);
	refused("5", EINVAL, text);
	unlink(passwd);
	assert_int_equal(symlink("/dev/zero", passwd), 0);
	refused("u", EINVAL, text);
	unlink(passwd);
	assert_int_equal(symlink("test_user.loop", passwd), 0);
	found("5", "5:0 0 - / ");	/* a link to nothing: no file */
	unlink(passwd);
	assert_int_equal(symlink(passwd, passwd), 0);
	refused("5", ELOOP, passwd);
	unlink(passwd);
	assert_int_equal(mkdir(passwd, 0700), 0);
	refused("u", EISDIR, text);
	rmdir(passwd);
	files(users, NULL);
	assert_int_equal(mkfifo(group, 0666), 0);
	snprintf(text, sizeof(text), "%s is not a regular file", group);
	refused("u", EINVAL, text);
	refused("5:g", EINVAL, text);
	found("5", "5:0 0 - / ");
	alarm(0);
}

/* ---- in a child ------------------------------------------------------- */

#define CHECK(what) do { \
	if (!(what)) { \
		fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, \
		    #what, error.text); \
		_exit(1); \
	} \
} while (0)

static void
in_child(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid != -1);
	if (pid == 0) {
		memset(&error, 0, sizeof(error));
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void
need_root(void)
{
	if (geteuid() != 0 || !user_can_switch()) {
		skip();
	}
}

/* Effective, permitted and inheritable of both halves, or'ed. */
static uint32_t
all_caps(void)
{
	uint32_t head[2] = { 0x20080522u, 0 }, data[6];

	CHECK(syscall(SYS_capget, head, data) == 0);
	return data[0] | data[1] | data[2] | data[3] | data[4] | data[5];
}

static void
switch_named(void)
{
	gid_t have[8];
	int fd;

	CHECK(find("u") == 0);
	prctl(PR_SET_DUMPABLE, 1);
	CHECK(user_become(&user, &error) == 0);
	CHECK(getuid() == 1000 && geteuid() == 1000);
	CHECK(getgid() == 1001 && getegid() == 1001);
	CHECK(getgroups(8, have) == 3);
	CHECK(have[0] == 4 && have[1] == 50 && have[2] == 1001);
	CHECK(all_caps() == 0);
	CHECK(prctl(PR_GET_DUMPABLE) == 0);
	CHECK(setuid(0) == -1 && seteuid(0) == -1 && setgid(0) == -1);
	CHECK(setgroups(0, NULL) == -1 && errno == EPERM);
	fd = open("/etc/shadow", O_RDONLY);
	CHECK(fd == -1);
	/* That user needs nothing to be itself, another cannot be had. */
	CHECK(!user_can_switch());
	CHECK(user_become(&user, &error) == 0);
	strcpy(user.name, "v");
	user.uid = 7;
	CHECK(user_become(&user, &error) == -1);
	CHECK(error.step == WIRE_STEP_SWITCH && error.number == EPERM);
	CHECK(strcmp(error.text, "cannot switch to user \"v\" (uid 7, gid "
	    "1001): the agent runs as uid 1000 and has no CAP_SETUID and "
	    "CAP_SETGID") == 0);
}

static void
switch_number(void)
{
	gid_t have[8];

	CHECK(find("5") == 0);
	CHECK(user_become(&user, &error) == 0);
	CHECK(getuid() == 5 && getgid() == 0);
	CHECK(getgroups(8, have) == 1 && have[0] == 0);
	CHECK(all_caps() == 0 && setuid(0) == -1);
}

static void
switch_root(void)
{
	const gid_t before[] = { 4, 27 };
	uint32_t caps = all_caps();
	gid_t have[8];

	/* Another group: no privilege is lost, no group stays. */
	CHECK(setgroups(2, before) == 0);
	CHECK(find("0:5") == 0);
	CHECK(user_become(&user, &error) == 0);
	CHECK(getuid() == 0 && getgid() == 5 && getegid() == 5);
	CHECK(getgroups(8, have) == 1 && have[0] == 5);
	CHECK(all_caps() == caps);
	CHECK(prctl(PR_GET_DUMPABLE) == 0);
}

static void
drop_to(uint32_t keep)
{
	uint32_t head[2] = { 0x20080522u, 0 };
	uint32_t data[6] = { keep, keep, keep, 0, 0, 0 };

	CHECK(syscall(SYS_capset, head, data) == 0);
}

/* What an inherited securebit would have kept is dropped. */
static void
switch_kept_caps(void)
{
	CHECK(prctl(PR_SET_SECUREBITS, 4) == 0);	/* NO_SETUID_FIXUP */
	CHECK(find("u") == 0);
	CHECK(user_become(&user, &error) == 0);
	CHECK(all_caps() == 0 && setuid(0) == -1);
}

static void
switch_ambient(void)
{
	drop_to(0xc1);			/* CHOWN, SETGID, SETUID */
	CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0, 0, 0) == 0);
	CHECK(user_can_switch());
	CHECK(find("u") == 0);
	CHECK(user_become(&user, &error) == 0);
	CHECK(all_caps() == 0);
	CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 0, 0, 0) == 0);
}

static void
no_privilege(void)
{
	drop_to(0x80);			/* SETUID alone */
	CHECK(!user_can_switch());
	CHECK(find("u") == 0);
	CHECK(user_become(&user, &error) == -1);
	CHECK(error.step == WIRE_STEP_SWITCH && error.number == EPERM);
	CHECK(strstr(error.text, "user \"u\" (uid 1000, gid 1001): the agent "
	    "runs as uid 0 and has no CAP_SETGID") != NULL);
	CHECK(getuid() == 0);
	/* Its own name and number need none. */
	CHECK(find("root") == 0 && user_become(&user, &error) == 0);
	CHECK(find("0:0") == 0 && user_become(&user, &error) == 0);
	CHECK(find("0:5") == 0 && user_become(&user, &error) == -1);
}

static void
setuid_missing(void)
{
	drop_to(0x40);			/* SETGID alone */
	CHECK(!user_can_switch());
	CHECK(find("5") == 0);
	CHECK(user_become(&user, &error) == -1);
	CHECK(error.number == EPERM);
	CHECK(strcmp(error.text, "cannot switch to uid 5, gid 0: the agent "
	    "runs as uid 0 and has no CAP_SETUID") == 0);
	CHECK(getuid() == 0);
}

/* An agent that is a user whose own entry has another group, and more. */
static void
own_user(void)
{
	const gid_t before[] = { 4, 27 };
	gid_t have[8];

	CHECK(setgroups(2, before) == 0 && setresgid(7, 7, 7) == 0 &&
	    setresuid(1000, 1000, 1000) == 0);
	CHECK(find("u") == 0 && user_become(&user, &error) == 0);
	CHECK(getgid() == 7 && getgroups(8, have) == 2);
	CHECK(find("1000") == 0 && user_become(&user, &error) == 0);
	CHECK(find("u:7") == 0 && user_become(&user, &error) == 0);
	CHECK(find("u:1001") == 0 && user_become(&user, &error) == -1);
	CHECK(find("0") == 0 && user_become(&user, &error) == -1);
}

static void
test_become(void **state)
{
	(void)state;
	need_root();
	files(users, groups);
	in_child(switch_named);
	in_child(switch_number);
	in_child(switch_root);
	in_child(switch_kept_caps);
	in_child(switch_ambient);
	in_child(no_privilege);
	in_child(setuid_missing);
	in_child(own_user);
}

static int
set_up(void **state)
{
	(void)state;
	if (mkdtemp(dir) == NULL || chmod(dir, 0755) == -1) {
		return -1;
	}
	snprintf(passwd, sizeof(passwd), "%s/passwd", dir);
	snprintf(group, sizeof(group), "%s/group", dir);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	unlink(passwd);
	unlink(group);
	return rmdir(dir);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_docker),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_added),
		cmocka_unit_test(test_no_files),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_crlf),
		cmocka_unit_test(test_binary),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_not_a_file),
		cmocka_unit_test(test_become),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
