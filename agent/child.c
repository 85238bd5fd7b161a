/* SPDX-License-Identifier: MIT */
/* child.c - a job's own process, from fork to exec. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSE_MAX 65536			/* where close_range() is missing */
#define NSIG_BYTES 8u			/* of the kernel's signal sets */
#define DEFAULT_PATH \
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

extern char **environ;

static struct rlimit files_limit;	/* as the agent was started */

/* ---- before the fork -------------------------------------------------- */

static int
refuse(struct error *error, const char *what, uint32_t index,
    const char *why)
{
	error_set(error, WIRE_STEP_USAGE, EINVAL, "%s %u %s", what,
	    (unsigned)index, why);
	return -1;
}

static bool
has_nul(struct wire_bytes b)
{
	return b.len > 0 && memchr(b.at, '\0', b.len) != NULL;
}

/* Each item without NUL; names also without '=' and not empty. */
static int
check_list(struct wire_list list, const char *what, bool env,
    struct error *error)
{
	struct wire_bytes item;
	uint32_t i;

	for (i = 0; wire_next(&list, &item); i++) {
		if (has_nul(item)) {
			return refuse(error, what, i, "contains a NUL byte");
		}
		if (env && (item.len == 0 || item.at[0] == '=' ||
		    memchr(item.at, '=', item.len) == NULL)) {
			return refuse(error, what, i, "is not NAME=VALUE");
		}
	}
	return 0;
}

static char *
copy(char **at, struct wire_bytes b)
{
	char *start = *at;

	memcpy(start, b.at, b.len);
	start[b.len] = '\0';
	*at += b.len + 1;
	return start;
}

/* Whether an inherited K=V is replaced by env or removed by unset. */
static bool
overridden(const char *have, struct wire_list env, struct wire_list unset)
{
	size_t name = strcspn(have, "=");
	struct wire_bytes item;

	while (wire_next(&env, &item)) {
		if (item.len > name && item.at[name] == '=' &&
		    memcmp(item.at, have, name) == 0) {
			return true;
		}
	}
	while (wire_next(&unset, &item)) {
		if (item.len == name && memcmp(item.at, have, name) == 0) {
			return true;
		}
	}
	return false;
}

/* Of several values for one name the last one counts. */
static bool
repeated(struct wire_bytes have, struct wire_list later)
{
	const uint8_t *eq = memchr(have.at, '=', have.len);
	size_t name = (size_t)(eq - have.at) + 1;
	struct wire_bytes item;

	while (wire_next(&later, &item)) {
		if (item.len >= name && memcmp(item.at, have.at, name) == 0) {
			return true;
		}
	}
	return false;
}

static void
fill_env(struct child_spec *spec, const struct wire_exec *exec, char **at)
{
	struct wire_list env = exec->env;
	struct wire_bytes item;
	size_t n = 0, i;

	for (i = 0; environ[i] != NULL &&
	    !(exec->flags & WIRE_EXEC_CLEAR_ENV); i++) {
		if (!overridden(environ[i], exec->env, exec->unset)) {
			spec->envp[n++] = environ[i];
		}
	}
	/* A short look back per name; environments are small or unique. */
	while (wire_next(&env, &item)) {
		if (exec->env.count > 1024 || !repeated(item, env)) {
			spec->envp[n++] = copy(at, item);
		}
	}
	spec->envp[n] = NULL;
}

int
child_spec(struct child_spec *spec, const struct wire_exec *exec,
    struct error *error)
{
	struct wire_list argv = exec->argv;
	struct wire_bytes item;
	size_t inherited = 0, vectors, n = 0;
	char *at;

	memset(spec, 0, sizeof(*spec));
	if (exec->argv.count == 0) {
		return refuse(error, "argument", 0, "is missing");
	}
	if (has_nul(exec->cwd)) {
		error_set(error, WIRE_STEP_USAGE, EINVAL,
		    "the working directory contains a NUL byte");
		return -1;
	}
	if (check_list(exec->argv, "argument", false, error) == -1 ||
	    check_list(exec->env, "environment entry", true, error) == -1 ||
	    check_list(exec->unset, "unset name", false, error) == -1) {
		return -1;
	}
	while (environ[inherited] != NULL) {
		inherited++;
	}
	vectors = (exec->argv.count + exec->env.count + inherited + 2) *
	    sizeof(char *);
	/* A list's raw bytes hold 4 per item, more than the NULs need. */
	spec->block = malloc(vectors + exec->argv.raw.len +
	    exec->env.raw.len + exec->cwd.len + 1);
	if (spec->block == NULL) {
		error_set(error, WIRE_STEP_FORK, ENOMEM, "arguments");
		return -1;
	}
	spec->argv = spec->block;
	spec->envp = spec->argv + exec->argv.count + 1;
	at = (char *)spec->block + vectors;
	while (wire_next(&argv, &item)) {
		spec->argv[n++] = copy(&at, item);
	}
	spec->argv[n] = NULL;
	fill_env(spec, exec, &at);
	spec->cwd = exec->cwd.len > 0 ? copy(&at, exec->cwd) : NULL;
	spec->has_stdin = (exec->flags & WIRE_EXEC_STDIN) != 0;
	return 0;
}

void
child_spec_free(struct child_spec *spec)
{
	free(spec->block);
	spec->block = NULL;
}

/* ---- after the fork --------------------------------------------------- */

void
child_fail(int note, enum wire_step step, int number, const char *text)
{
	struct task_note n = { .step = (uint8_t)step, .number = number };

	strncpy(n.text, text, sizeof(n.text) - 1);
	/* Nobody is left to tell if this fails: the core is gone. */
	if (write(note, &n, sizeof(n)) == -1) {
		_exit(126);
	}
	_exit(127);
}

/* Close the descriptors from first to last; some kernels lack the call. */
static void
close_from_to(int first, int last)
{
	int fd;

	if (first > last) {
		return;
	}
#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0) == 0) {
		return;
	}
#endif
	for (fd = first; fd <= last && fd < CLOSE_MAX; fd++) {
		close(fd);
	}
}

void
child_close_others(const struct task_child *c)
{
	int keep[4] = { c->in, c->out, c->err, c->note };
	int from = AGENT_NULL_FDS, next, i;

	for (;;) {
		next = INT_MAX;
		for (i = 0; i < 4; i++) {
			if (keep[i] >= from && keep[i] < next) {
				next = keep[i];
			}
		}
		close_from_to(from, next - 1);
		if (next == INT_MAX) {
			return;
		}
		from = next + 1;
	}
}

void
child_prepare(void)
{
	/* All zero: the default action, no flags, as the kernel's struct. */
	static const uint64_t standard[4];
	struct rlimit all;
	sigset_t none;
	int i;

	/*
	 * Not sigaction(): the C library keeps signals 32 to 34 to itself,
	 * yet they may have been inherited as ignored.
	 */
	for (i = 1; i < NSIG; i++) {
		syscall(SYS_rt_sigaction, i, standard, NULL, NSIG_BYTES);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (getrlimit(RLIMIT_NOFILE, &files_limit) == 0) {
		all = files_limit;
		all.rlim_cur = all.rlim_max;
		setrlimit(RLIMIT_NOFILE, &all);
	}
}

void
child_reset(void)
{
	/* What the core has changed since child_prepare(). */
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	if (files_limit.rlim_max != 0) {
		setrlimit(RLIMIT_NOFILE, &files_limit);
	}
}

/* Put fd at the number to; dup2() onto itself would keep CLOEXEC. */
static int
place(int fd, int to)
{
	if (fd == to) {
		return fcntl(fd, F_SETFD, 0);
	}
	return dup2(fd, to);
}

/* "No such file" about a file that is there means its interpreter. */
static int
exec_errno(const char *path)
{
	int number = errno;

	return number == ENOENT && access(path, F_OK) == 0 ? ENOEXEC : number;
}

/* The name as execvp() would look it up, in the job's own PATH. */
static void
exec_path(const struct child_spec *spec, int note)
{
	const char *name = spec->argv[0], *path = DEFAULT_PATH, *end;
	char full[WIRE_PATH_MAX + 256];
	int found = ENOENT, number;
	size_t i, n;

	if (strchr(name, '/') != NULL || name[0] == '\0') {
		execve(name, spec->argv, spec->envp);
		child_fail(note, WIRE_STEP_EXEC, exec_errno(name), name);
	}
	for (i = 0; spec->envp[i] != NULL; i++) {
		if (strncmp(spec->envp[i], "PATH=", 5) == 0) {
			path = spec->envp[i] + 5;
		}
	}
	for (;; path = end + 1) {
		end = path + strcspn(path, ":");
		n = (size_t)(end - path);
		if (n + strlen(name) + 2 <= sizeof(full)) {
			snprintf(full, sizeof(full), "%.*s%s%s", (int)n, path,
			    n > 0 ? "/" : "", name);
			execve(full, spec->argv, spec->envp);
			number = exec_errno(full);
			if (number != ENOENT && number != ENOTDIR &&
			    number != EACCES) {
				child_fail(note, WIRE_STEP_EXEC, number, full);
			}
			found = number == EACCES ? EACCES : found;
		}
		if (*end == '\0') {
			child_fail(note, WIRE_STEP_EXEC, found, name);
		}
	}
}

void
child_run(const struct task_child *c, void *arg)
{
	const struct child_spec *spec = arg;
	int in = spec->has_stdin ? c->in : open("/dev/null",
	    O_RDONLY | O_CLOEXEC);

	setsid();
	/* Only an extra: the core ends its jobs itself when it can. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	child_reset();
	if (in == -1) {
		child_fail(c->note, WIRE_STEP_STDIO, errno, "/dev/null");
	}
	if (place(in, 0) == -1 || place(c->out, 1) == -1 ||
	    place(c->err, 2) == -1) {
		child_fail(c->note, WIRE_STEP_STDIO, errno, "stdio");
	}
	if (spec->cwd != NULL && chdir(spec->cwd) == -1) {
		child_fail(c->note, WIRE_STEP_CHDIR, errno, spec->cwd);
	}
	exec_path(spec, c->note);
}
