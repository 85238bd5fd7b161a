/* SPDX-License-Identifier: MIT */
/*
 * test_agent_faults.c - whatever a job's start meets, it says: each call that
 * can fail, with each errno that its manual page has, becomes the right step,
 * the same errno and a text that names the thing.
 *
 * The calls are wrapped by the linker (WRAP_test_agent_faults in the
 * Makefile); one of them fails, and nothing else is changed.
 */
#include "job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <grp.h>
#include <pty.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

#include "init_rig.h"
#include "joblog.h"
#include "worker.h"

#define EVERY 0u
#define PRETEND 0			/* an errno: it says that all is well */
#define SAME (-1)			/* what is told is what happened */
#define MAX_ERRNOS 24

/* ---- the fault ---------------------------------------------------------- */

static struct {
	const char *call, *where;	/* where: its path; NULL: any */
	unsigned nth;			/* which of these calls, from 1 */
	unsigned seen;
	int number;
	bool armed;
} fault;

static bool
strikes(const char *call, const char *where)
{
	if (!fault.armed || strcmp(call, fault.call) != 0 ||
	    (fault.where != NULL && (where == NULL ||
	    strcmp(where, fault.where) != 0))) {
		return false;
	}
	fault.seen++;
	if (fault.nth != EVERY && fault.seen != fault.nth) {
		return false;
	}
	errno = fault.number;
	return true;
}

#define RESULT (fault.number == PRETEND ? 0 : -1)

/* type name(parameters), called with arguments */
#define WRAP(type, name, parameters, arguments, failure) \
	type __real_##name parameters; \
	type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		return strikes(#name, NULL) ? (failure) : \
		    __real_##name arguments; \
	}
#define WRAP_PATH(type, name, parameters, arguments) \
	type __real_##name parameters; \
	type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		return strikes(#name, path) ? RESULT : \
		    __real_##name arguments; \
	}

WRAP(int, fstat, (int fd, struct stat *st), (fd, st), RESULT)
WRAP(ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len), RESULT)
WRAP(int, setgroups, (size_t n, const gid_t *g), (n, g), RESULT)
WRAP(int, setresgid, (gid_t r, gid_t e, gid_t s), (r, e, s), RESULT)
WRAP(int, setresuid, (uid_t r, uid_t e, uid_t s), (r, e, s), RESULT)
WRAP(int, unlockpt, (int fd), (fd), RESULT)
WRAP(int, ptsname_r, (int fd, char *buf, size_t len), (fd, buf, len), errno)
WRAP(int, tcgetattr, (int fd, struct termios *t), (fd, t), RESULT)
WRAP(int, tcsetattr, (int fd, int how, const struct termios *t),
    (fd, how, t), RESULT)
WRAP(int, pipe2, (int fds[2], int flags), (fds, flags), RESULT)
WRAP(int, dup2, (int from, int to), (from, to), RESULT)
WRAP(int, nice, (int add), (add), RESULT)
WRAP(int, setrlimit, (int which, const struct rlimit *limit),
    (which, limit), RESULT)
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), NULL)
WRAP(int, socketpair, (int domain, int type, int protocol, int fds[2]),
    (domain, type, protocol, fds), RESULT)
WRAP_PATH(int, access, (const char *path, int mode), (path, mode))
WRAP_PATH(int, chdir, (const char *path), (path))
WRAP_PATH(int, execve, (const char *path, char *const *argv,
    char *const *envp), (path, argv, envp))

/* In place of a child: a number that no process has. */
pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t
__wrap_fork(void)
{
	static pid_t invented = 1 << 30;

	return !strikes("fork", NULL) ? __real_fork() :
	    fault.number == PRETEND ? invented++ : -1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int
__wrap_open(const char *path, int flags, ...)
{
	va_list list;
	mode_t mode;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
	va_end(list);
	return strikes("open", path) ? -1 : __real_open(path, flags, mode);
}

int __real_clone(int (*run)(void *), void *stack, int flags, void *arg, ...);
int __wrap_clone(int (*run)(void *), void *stack, int flags, void *arg, ...);
int
__wrap_clone(int (*run)(void *), void *stack, int flags, void *arg, ...)
{
	return strikes("clone", NULL) ? -1 :
	    __real_clone(run, stack, flags, arg);
}

/* For those that do several things: the first argument is part of the name. */
#define WRAP_MANY(type, name, kind, words) \
	type __real_##name(kind what, ...); \
	type __wrap_##name(kind what, ...); \
	type __wrap_##name(kind what, ...) \
	{ \
		long a, b, c, d; \
		va_list list; \
		va_start(list, what); \
		a = va_arg(list, long); \
		b = va_arg(list, long); \
		c = va_arg(list, long); \
		d = va_arg(list, long); \
		va_end(list); \
		return strikes(words, NULL) ? -1 : \
		    __real_##name(what, a, b, c, d); \
	}
WRAP_MANY(int, prctl, int, what == PR_CAP_AMBIENT ? "ambient" :
    what == PR_SET_DUMPABLE ? "dumpable" : "prctl")
WRAP_MANY(long, syscall, long, what == SYS_capget ? "capget" :
    what == SYS_capset ? "capset" : "syscall")

int __real_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...);
int
__wrap_ioctl(int fd, unsigned long what, ...)
{
	va_list list;
	void *arg;

	va_start(list, what);
	arg = va_arg(list, void *);
	va_end(list);
	return strikes(what == TIOCSCTTY ? "TIOCSCTTY" : "ioctl", NULL) ? -1 :
	    __real_ioctl(fd, what, arg);
}

int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int
__wrap_fcntl(int fd, int what, ...)
{
	va_list list;
	long arg;

	va_start(list, what);
	arg = va_arg(list, long);
	va_end(list);
	return strikes(what == F_SETFL ? "F_SETFL" : "fcntl", NULL) ? -1 :
	    __real_fcntl(fd, what, arg);
}

static void
arm(void)
{
	fault.armed = true;
}

/* ---- in the init ---------------------------------------------------------- */

#define SHELL_OF "a shell (the user's own, /bin/bash or /bin/sh)"
#define OTHER "61234:61235"		/* a user that is in no file */
#define TO_OTHER "cannot switch to uid 61234, gid 61235: "
#define LACKS(what) TO_OTHER "the agent runs as uid 0 and has no " what
#define HANDED 0x10000u			/* with a terminal that is there */

/* One call that fails, in every way it can. */
struct row {
	const char *call, *where;
	unsigned nth;
	int numbers[MAX_ERRNOS];	/* up to a 0, but for PRETEND alone */
	const char *user;
	unsigned flags;			/* of EXEC, and HANDED */
	enum wire_step step;
	int told;			/* errno, or SAME */
	const char *text;		/* what it begins with */
};

#define OPENS EACCES, ELOOP, EMFILE, ENFILE, ENOMEM, EPERM, EIO, EINTR, \
	ENXIO, EOVERFLOW
#define PTYS ENOENT, ENODEV, ENOSPC, EACCES, EMFILE, ENFILE, ENOMEM, EIO, \
	ENXIO, EPERM

static const struct row rows[] = {
	{ "malloc", NULL, 1, { ENOMEM }, NULL, 0,
	    WIRE_STEP_FORK, SAME, "arguments" },
	{ "malloc", NULL, 2, { ENOMEM }, "0", 0,
	    WIRE_STEP_FORK, SAME, "arguments" },
	/* USER */
	{ "open", "/etc/passwd", 1, { OPENS }, "root", 0,
	    WIRE_STEP_USER, SAME, "/etc/passwd" },
	{ "open", "/etc/passwd", 1, { ENOENT, ENOTDIR }, "root", 0,
	    WIRE_STEP_USER, 0, "unable to find user root: no matching" },
	{ "open", "/etc/group", 1, { OPENS }, "root", 0,
	    WIRE_STEP_USER, SAME, "/etc/group" },
	{ "open", "/etc/group", 1, { ENOENT, ENOTDIR }, "0:root", 0,
	    WIRE_STEP_USER, 0, "unable to find group root: no matching" },
	{ "fstat", NULL, 1, { EIO, EOVERFLOW, ENOMEM, EACCES }, "root", 0,
	    WIRE_STEP_USER, SAME, "/etc/passwd" },
	{ "fstat", NULL, 2, { EIO, EOVERFLOW, ENOMEM, EACCES }, "root", 0,
	    WIRE_STEP_USER, SAME, "/etc/group" },
	{ "read", NULL, 1, { EIO, EISDIR, EINVAL, EAGAIN, ESTALE }, "root", 0,
	    WIRE_STEP_USER, SAME, "/etc/passwd" },
	{ "read", NULL, 2, { EIO, EISDIR, EINVAL, EAGAIN, ESTALE }, "root", 0,
	    WIRE_STEP_USER, SAME, "/etc/group" },
	/* SWITCH */
	{ "setgroups", NULL, 1, { ENOMEM, EINVAL, EFAULT }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, TO_OTHER "setgroups" },
	{ "setgroups", NULL, 1, { EPERM }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, LACKS("setgroups(2)") },
	{ "setgroups", NULL, 1, { PRETEND }, OTHER, 0,
	    WIRE_STEP_SWITCH, EBADE, TO_OTHER "the ids did not change" },
	{ "setresgid", NULL, 1, { EINVAL, EAGAIN }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, TO_OTHER "setresgid" },
	{ "setresgid", NULL, 1, { EPERM }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, LACKS("") },
	{ "setresgid", NULL, 1, { PRETEND }, OTHER, 0,
	    WIRE_STEP_SWITCH, EBADE, TO_OTHER "the ids did not change" },
	{ "setresuid", NULL, 1, { EINVAL, EAGAIN }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, TO_OTHER "setresuid" },
	{ "setresuid", NULL, 1, { EPERM }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, LACKS("") },
	{ "setresuid", NULL, 1, { PRETEND }, OTHER, 0,
	    WIRE_STEP_SWITCH, EBADE, TO_OTHER "the ids did not change" },
	{ "setresuid", NULL, 2, { PRETEND }, OTHER, 0,
	    WIRE_STEP_SWITCH, EBADE, TO_OTHER "there is a way back" },
	{ "ambient", NULL, 1, { EPERM }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, TO_OTHER },
	{ "capget", NULL, 2, { EFAULT, EINVAL, ESRCH }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, TO_OTHER "capset" },
	{ "capset", NULL, 1, { EFAULT, EINVAL, ESRCH }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, TO_OTHER "capset" },
	{ "capset", NULL, 1, { EPERM }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, TO_OTHER },
	{ "dumpable", NULL, 1, { EINVAL }, OTHER, 0,
	    WIRE_STEP_SWITCH, SAME, TO_OTHER "PR_SET_DUMPABLE" },
	/* CHDIR */
	{ "chdir", "/w", 1, { ENOENT, EACCES, ENOTDIR, ELOOP, ENAMETOOLONG,
	    EIO, ENOMEM, ESTALE, EPERM }, NULL, 0,
	    WIRE_STEP_CHDIR, SAME, "/w" },
	{ "chdir", NULL, EVERY, { EACCES, EIO, ESTALE }, NULL, WIRE_EXEC_UMASK,
	    WIRE_STEP_CHDIR, SAME, "/" },
	/* PIPE and STDIO */
	{ "pipe2", NULL, 1, { EMFILE, ENFILE, ENOMEM }, NULL, 0,
	    WIRE_STEP_PIPE, SAME, "pipes" },
	{ "pipe2", NULL, 2, { EMFILE, ENFILE, ENOMEM }, NULL, 0,
	    WIRE_STEP_PIPE, SAME, "pipes" },
	{ "pipe2", NULL, 3, { EMFILE, ENFILE, ENOMEM }, NULL,
	    WIRE_EXEC_STDIN, WIRE_STEP_PIPE, SAME, "pipes" },
	{ "open", "/dev/null", 1, { OPENS, ENOENT, ENODEV }, NULL, 0,
	    WIRE_STEP_STDIO, SAME, "/dev/null" },
	{ "dup2", NULL, 1, { EBADF, EBUSY, EMFILE, EINTR }, NULL, 0,
	    WIRE_STEP_STDIO, SAME, "stdio" },
	{ "dup2", NULL, 2, { EBADF, EBUSY, EMFILE, EINTR }, NULL, 0,
	    WIRE_STEP_STDIO, SAME, "stdio" },
	{ "dup2", NULL, 3, { EBADF, EBUSY, EMFILE, EINTR }, NULL, 0,
	    WIRE_STEP_STDIO, SAME, "stdio" },
	/* PTY */
	{ "open", NULL, EVERY, { PTYS }, NULL, WIRE_EXEC_TTY,
	    WIRE_STEP_PTY, SAME, "/dev/ptmx" },
	{ "unlockpt", NULL, 1, { EIO, EINVAL, ENOTTY }, NULL, WIRE_EXEC_TTY,
	    WIRE_STEP_PTY, SAME, "a new terminal" },
	{ "ptsname_r", NULL, 1, { ENOTTY, ERANGE, EBADF }, NULL,
	    WIRE_EXEC_TTY, WIRE_STEP_PTY, SAME, "a new terminal" },
	{ "open", NULL, 2, { PTYS }, NULL, WIRE_EXEC_TTY,
	    WIRE_STEP_PTY, SAME, "/dev/pts/" },
	{ "tcgetattr", NULL, 1, { EIO, ENOTTY }, NULL,
	    WIRE_EXEC_TTY | HANDED, WIRE_STEP_PTY, SAME,
	    "the modes of the terminal" },
	{ "tcsetattr", NULL, 1, { EIO, ENOTTY, EINVAL }, NULL,
	    WIRE_EXEC_TTY | HANDED, WIRE_STEP_PTY, SAME,
	    "the modes of the terminal" },
	{ "TIOCSCTTY", NULL, 1, { EPERM, EIO, ENOTTY }, NULL, WIRE_EXEC_TTY,
	    WIRE_STEP_PTY, SAME, "a controlling terminal" },
	/* FORK and LIMIT */
	{ "clone", NULL, 1, { EAGAIN, ENOMEM, EINVAL, EPERM, ENOSPC }, NULL, 0,
	    WIRE_STEP_FORK, SAME, "a new process" },
	{ "nice", NULL, 1, { EPERM, EACCES }, NULL, 0,
	    WIRE_STEP_LIMIT, SAME, "nice" },
	{ "setrlimit", NULL, 1, { EPERM, EINVAL, EFAULT }, NULL, 0,
	    WIRE_STEP_LIMIT, SAME, "a resource limit" },
	/* EXEC */
	{ "access", NULL, EVERY, { ENOENT, EACCES, EIO, ELOOP }, NULL,
	    WIRE_EXEC_SHELL, WIRE_STEP_EXEC, ENOENT, SHELL_OF },
	{ "execve", "/bin/true", 1, { E2BIG, EACCES, EAGAIN, EINVAL, EIO,
	    EISDIR, ELIBBAD, ELOOP, EMFILE, ENAMETOOLONG, ENFILE, ENOEXEC,
	    ENOMEM, ENOTDIR, EPERM, ETXTBSY, EFAULT, ESTALE }, NULL, 0,
	    WIRE_STEP_EXEC, SAME, "/bin/true" },
	{ "execve", "/bin/true", 1, { ENOENT }, NULL, 0,
	    WIRE_STEP_EXEC, ENOEXEC, "/bin/true" }	/* it is there */
};

static void
check_fault(const struct row *row, int number)
{
	static const char *const argv[] = { "/bin/true", NULL };
	uint8_t buf[4096], limit[4 + WIRE_LIMIT_BYTES] = { 0, 0, 0,
	    WIRE_LIMIT_BYTES, RLIMIT_CORE };
	/* Every step is gone through, whatever fails. */
	struct wire_exec exec = { .flags = row->flags & 0xffffu, .nice = 1,
	    .limits = { 1, { limit, sizeof(limit) } } };
	struct init_rig rig;
	int master = -1, slave = -1;
	uint32_t len;

	if (row->user != NULL) {
		exec.user = wire_string(row->user);
	}
	if (row->where != NULL && strcmp(row->where, "/w") == 0) {
		exec.cwd = wire_string(row->where);
	}
	if (row->flags & HANDED) {
		assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL),
		    0);
		exec.terminal = 2;
	}
	len = rig_body(buf, exec, row->flags & WIRE_EXEC_SHELL ? NULL : argv);
	fault.call = row->call;
	fault.where = row->where;
	fault.nth = row->nth;
	fault.number = number;
	rig_start(&rig, buf, len, slave, arm);
	if (!rig_hear(&rig, RIG_MS) || rig.msg.word != INIT_FAIL ||
	    rig.msg.step != row->step ||
	    rig.msg.number != (row->told == SAME ? number : row->told) ||
	    strncmp(rig.text, row->text, strlen(row->text)) != 0) {
		fail_msg("%s %u with %s: said %d, step %d, %s: \"%s\"",
		    row->call, row->nth, strerror(number), rig.msg.word,
		    rig.msg.step, strerror(rig.msg.number), rig.text);
	}
	while (rig_hear(&rig, RIG_MS)) {
		/* A leader that could not exec has ended. */
		assert_true(rig.msg.word == INIT_START || (rig.msg.word ==
		    INIT_END && WEXITSTATUS(rig.msg.number) == 127));
	}
	rig_end(&rig);
	close(master);
	close(slave);
}

static void
test_init(void **state)
{
	unsigned i, j, tried = 0;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].step == WIRE_STEP_SWITCH && geteuid() != 0) {
			continue;
		}
		for (j = 0; j == 0 || rows[i].numbers[j] != 0; j++) {
			check_fault(&rows[i], rows[i].numbers[j]);
			tried++;
		}
	}
	print_message("%u faults\n", tried);
	assert_true(tried > 120);
}

/* ---- wrong orders: nothing has to fail ------------------------------------ */

static void
wrong(struct wire_exec exec, const char *const *argv, const char *text)
{
	uint8_t buf[4096];
	uint32_t len = rig_body(buf, exec, argv);
	struct init_rig rig;

	rig_start(&rig, buf, len, -1, NULL);
	rig_expect(&rig, INIT_FAIL);
	assert_int_equal(rig.msg.step, WIRE_STEP_USAGE);
	assert_int_equal(rig.msg.number, EINVAL);
	assert_string_equal(rig.text, text);
	assert_false(rig_hear(&rig, RIG_MS));
	rig_end(&rig);
}

static void
test_usage(void **state)
{
	static const char *const argv[] = { "/bin/true", NULL };
	static const char *const novalue[] = { "A=b", "novalue", NULL };
	static const char *const nameless[] = { "=x", NULL };
	static const char *const shorts[] = { "short", NULL };
	static const uint8_t nul[] = { 0, 0, 0, 2, 'a', 0 };
	const struct wire_bytes with_nul = { nul + 4, 2 };
	const struct wire_list list = { 1, { nul, sizeof(nul) } };
	uint8_t raw[256];

	(void)state;
	wrong((struct wire_exec){ 0 }, NULL, "argument 0 is missing");
	wrong((struct wire_exec){ .flags = WIRE_EXEC_SHELL }, argv,
	    "argument 0 is missing");
	wrong((struct wire_exec){ .terminal = 2 }, argv,
	    "terminal 2 is of no use to it");
	wrong((struct wire_exec){ .terminal = 3, .flags = WIRE_EXEC_TTY |
	    WIRE_EXEC_DETACH }, argv, "terminal 3 is of no use to it");
	wrong((struct wire_exec){ .limits = rig_list(raw, shorts) }, argv,
	    "limit 0 has a wrong form");
	wrong((struct wire_exec){ .env = rig_list(raw, novalue) }, argv,
	    "environment entry 1 is not NAME=VALUE");
	wrong((struct wire_exec){ .env = rig_list(raw, nameless) }, argv,
	    "environment entry 0 is not NAME=VALUE");
	wrong((struct wire_exec){ .env = list }, argv,
	    "environment entry 0 contains a NUL byte");
	wrong((struct wire_exec){ .unset = list }, argv,
	    "unset name 0 contains a NUL byte");
	wrong((struct wire_exec){ .cwd = with_nul }, argv, "the working "
	    "directory or the user contains a NUL byte");
	wrong((struct wire_exec){ .user = with_nul }, argv, "the working "
	    "directory or the user contains a NUL byte");
}

/* ---- in the core ---------------------------------------------------------- */

static struct error told;		/* what the request was answered */
static unsigned answers;

void __wrap_session_fail(struct session_request *req,
    const struct error *error);
void
__wrap_session_fail(struct session_request *req, const struct error *error)
{
	(void)req;
	told = *error;
	answers++;
}

void __wrap_session_result(struct session_request *req,
    const struct wire_result *result);
void
__wrap_session_result(struct session_request *req,
    const struct wire_result *result)
{
	(void)req;
	assert_int_equal(result->outcome, WIRE_FAILED);
	error_set(&told, (enum wire_step)result->step, (int)result->error,
	    "%.*s", (int)result->text.len, (const char *)result->text.at);
	answers++;
}

static void
ask(const char *call, unsigned nth, int number, uint32_t flags,
    uint32_t terminal)
{
	static const char *const argv[] = { "/bin/true", NULL };
	static struct session_request requests[JOBS_MAX + 1];
	static uint32_t id;
	struct wire msg;
	uint8_t buf[4096];
	uint32_t len = rig_body(buf, (struct wire_exec){ .flags = flags,
	    .terminal = terminal, .keep = 4096 }, argv);

	assert_int_equal(wire_decode(buf, len, &msg), WIRE_OK);
	fault.call = call;
	fault.where = NULL;
	fault.nth = nth;
	fault.seen = 0;
	fault.number = number;
	fault.armed = true;
	answers = 0;
	requests[id % (JOBS_MAX + 1)].id = id + 1;
	job_exec(&requests[id % (JOBS_MAX + 1)], &msg.u.exec, buf, len);
	fault.armed = false;
	id++;
}

static void
refused(enum wire_step step, int number, const char *text)
{
	assert_int_equal(answers, 1);
	assert_int_equal(told.step, step);
	assert_int_equal(told.number, number);
	assert_string_equal(told.text, text);
	assert_null(job_next(NULL));	/* nothing is kept of it */
}

static void
no_worker(const struct worker_child *c, void *arg)
{
	(void)c;
	(void)arg;
	_exit(0);
}

static void
test_core(void **state)
{
	static const struct {
		const char *call;
		unsigned nth;
		int numbers[4];
		enum wire_step step;
		const char *text;
		bool worker;
	} calls[] = {
		{ "calloc", 1, { ENOMEM }, WIRE_STEP_FORK, "memory for a job",
		    false },
		{ "calloc", 2, { ENOMEM }, WIRE_STEP_FORK, "memory for a job",
		    false },
		{ "socketpair", 1, { EMFILE, ENFILE, ENOMEM, ENOBUFS },
		    WIRE_STEP_FORK, "a new process", false },
		{ "fork", 1, { EAGAIN, ENOMEM, ENOSYS }, WIRE_STEP_FORK,
		    "a new process", false },
		{ "pipe2", 1, { EMFILE, ENFILE, ENOMEM }, WIRE_STEP_PIPE,
		    "pipes", true },
		{ "pipe2", 2, { EMFILE, ENFILE, ENOMEM }, WIRE_STEP_PIPE,
		    "pipes", true },
		{ "socketpair", 1, { EMFILE, ENFILE, ENOMEM, ENOBUFS },
		    WIRE_STEP_PIPE, "pipes", true },
		{ "F_SETFL", 1, { EPERM }, WIRE_STEP_PIPE, "pipes", true },
		{ "calloc", 1, { ENOMEM }, WIRE_STEP_FORK, "a new process",
		    true },
		{ "fork", 1, { EAGAIN, ENOMEM, ENOSYS }, WIRE_STEP_FORK,
		    "a new process", true }
	};
	struct session_request req = { .id = 1 };
	int before = dup(0), after;
	unsigned i, j;

	(void)state;
	close(before);
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (j = 0; j < 4 && calls[i].numbers[j] != 0; j++) {
			if (calls[i].worker) {
				fault.call = calls[i].call;
				fault.where = NULL;
				fault.nth = calls[i].nth;
				fault.seen = 0;
				fault.number = calls[i].numbers[j];
				fault.armed = true;
				answers = 0;
				worker_start(&req, WORKER_IN | WORKER_OUT,
				    no_worker, NULL);
				fault.armed = false;
			} else {
				ask(calls[i].call, calls[i].nth,
				    calls[i].numbers[j], WIRE_EXEC_DETACH, 0);
			}
			refused(calls[i].step, calls[i].numbers[j],
			    calls[i].text);
		}
	}
	ask("none", 1, 0, WIRE_EXEC_TTY, 2);
	refused(WIRE_STEP_PTY, ENOTTY, "none was handed over");
	after = dup(0);
	close(after);
	assert_int_equal(after, before);	/* no descriptor is kept */
}

/* Its init died before it took the job, and there can be no other. */
static void
test_no_second_init(void **state)
{
	static const int numbers[] = { EAGAIN, ENOMEM, ENOSYS };
	struct pollset set = { 0 };
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		ask("fork", 1, PRETEND, 0, 0);
		assert_int_equal(answers, 0);
		fault.seen = 0;
		fault.number = numbers[i];
		fault.armed = true;
		assert_true(jobs_reaped(job_next(NULL)->init));
		fault.armed = false;
		jobs_run(&set);
		refused(WIRE_STEP_FORK, numbers[i], "a new process");
	}
}

/* ATTACH: the job stays as it is. */
static void
test_no_reader(void **state)
{
	struct session_request req = { .id = 99 };
	struct wire_attach attach = { .flags = WIRE_ATTACH_FOLLOW };
	struct pollset set = { 0 };
	struct job *job;

	(void)state;
	ask("fork", 1, PRETEND, WIRE_EXEC_DETACH, 0);
	job = job_next(NULL);
	assert_non_null(job);
	attach.job = job->id;
	fault.call = "calloc";
	fault.seen = 0;
	fault.number = ENOMEM;
	fault.armed = true;
	joblog_attach(&req, &attach);
	fault.armed = false;
	assert_int_equal(answers, 1);
	assert_int_equal(told.step, WIRE_STEP_JOB);
	assert_int_equal(told.number, ENOMEM);
	assert_null(req.app);
	assert_ptr_equal(job_next(NULL), job);
	fault.call = "fork";
	fault.nth = EVERY;
	fault.armed = true;
	assert_true(jobs_reaped(job->init));
	fault.armed = false;
	answers = 0;
	jobs_run(&set);
	refused(WIRE_STEP_FORK, ENOMEM, "a new process");
}

/* The last test: these jobs stay. */
static void
test_too_many(void **state)
{
	const struct rlimit files = { 2048, 2048 };
	unsigned i;

	(void)state;
	setrlimit(RLIMIT_NOFILE, &files);
	for (i = 0; i < JOBS_MAX; i++) {
		ask("fork", 1, PRETEND, 0, 0);
		assert_int_equal(answers, 0);
	}
	ask("fork", 1, PRETEND, 0, 0);
	assert_int_equal(answers, 1);
	assert_int_equal(told.step, WIRE_STEP_BUSY);
	assert_string_equal(told.text, "512 jobs are running or kept");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_usage),
		cmocka_unit_test(test_core),
		cmocka_unit_test(test_no_second_init),
		cmocka_unit_test(test_no_reader),
		cmocka_unit_test(test_too_many)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
