/* SPDX-License-Identifier: MIT */
/* child.c - a job's own process, from its request to exec. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSE_MAX 65536			/* where close_range() is missing */
#define NSIG_BYTES 8u			/* of the kernel's signal sets */
#define DEFAULT_PATH \
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

extern char **environ;

static const char *const user_vars[CHILD_USER_VARS] = {
	"HOME", "USER", "LOGNAME", "SHELL"
};

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
	spec->env_count = n;
	for (i = 0; i < CHILD_USER_VARS; i++) {
		spec->given[i] = (exec->flags & WIRE_EXEC_CLEAR_ENV) != 0 ||
		    overridden(user_vars[i], exec->env, exec->unset);
	}
}

static int
check(const struct wire_exec *exec, struct error *error)
{
	struct wire_list limits = exec->limits;
	struct wire_bytes item;
	uint32_t i;

	if ((exec->argv.count == 0) != ((exec->flags & WIRE_EXEC_SHELL) != 0)) {
		return refuse(error, "argument", 0, "is missing");
	}
	if (exec->terminal != 0 && (exec->flags & (WIRE_EXEC_TTY |
	    WIRE_EXEC_DETACH)) != WIRE_EXEC_TTY) {
		return refuse(error, "terminal", exec->terminal,
		    "is of no use to it");
	}
	for (i = 0; wire_next(&limits, &item); i++) {
		if (item.len != WIRE_LIMIT_BYTES || i >= WIRE_LIMITS_MAX) {
			return refuse(error, "limit", i, "has a wrong form");
		}
	}
	if (has_nul(exec->cwd) || has_nul(exec->user)) {
		error_set(error, WIRE_STEP_USAGE, EINVAL, "the working "
		    "directory or the user contains a NUL byte");
		return -1;
	}
	return check_list(exec->argv, "argument", false, error) == -1 ||
	    check_list(exec->env, "environment entry", true, error) == -1 ||
	    check_list(exec->unset, "unset name", false, error) == -1 ? -1 : 0;
}

int
child_spec(struct child_spec *spec, const struct wire_exec *exec,
    const struct agent_start *start, struct error *error)
{
	struct wire_list argv = exec->argv;
	struct wire_bytes item;
	size_t inherited = 0, vectors, n = 0;
	uint8_t *limits;
	char *at;

	memset(spec, 0, sizeof(*spec));
	if (check(exec, error) == -1) {
		return -1;
	}
	while (environ[inherited] != NULL) {
		inherited++;
	}
	vectors = (exec->argv.count + exec->env.count + inherited +
	    CHILD_USER_VARS + 2) * sizeof(char *);
	/* A list's raw bytes hold 4 per item, more than the NULs need. */
	spec->block = malloc(vectors + exec->argv.raw.len +
	    exec->env.raw.len + exec->cwd.len + exec->user.len + 2 +
	    exec->limits.raw.len);
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
	spec->named = exec->user.len > 0;
	spec->user = spec->named ? copy(&at, exec->user) : start->user;
	spec->groups = start->groups;
	if (!spec->named && start->keep_home) {
		spec->given[0] = true;
	}
	limits = (uint8_t *)at;
	if (exec->limits.raw.len > 0) {
		memcpy(limits, exec->limits.raw.at, exec->limits.raw.len);
	}
	spec->limits = (struct wire_list){ exec->limits.count,
	    { limits, exec->limits.raw.len } };
	spec->flags = exec->flags;
	spec->terminal = -1;
	spec->rows = exec->rows;
	spec->columns = exec->columns;
	spec->umask = exec->umask;
	spec->nice = exec->nice;
	return 0;
}

/* ---- after the fork --------------------------------------------------- */

/* Some kernels lack the call. */
void
child_close(int first, int last)
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

/*
 * NAME=value in its place, or as one more: there is room.  What the user's
 * entry does not tell is no variable at all, least of all the agent's own.
 */
static int
set_env(struct child_spec *spec, const char *name, const char *value)
{
	size_t len = strlen(name), i;
	char *entry;

	for (i = 0; i < spec->env_count; i++) {
		if (strncmp(spec->envp[i], name, len) == 0 &&
		    spec->envp[i][len] == '=') {
			break;
		}
	}
	if (value[0] == '\0') {
		if (i < spec->env_count) {
			spec->envp[i] = spec->envp[--spec->env_count];
			spec->envp[spec->env_count] = NULL;
		}
		return 0;
	}
	entry = malloc(len + strlen(value) + 2);
	if (entry == NULL) {
		return -1;
	}
	memcpy(entry, name, len);
	entry[len] = '=';
	strcpy(entry + len + 1, value);
	spec->envp[i] = entry;
	if (i == spec->env_count) {
		spec->envp[++spec->env_count] = NULL;
	}
	return 0;
}

int
child_user_env(struct child_spec *spec, const struct user *user)
{
	const char *values[CHILD_USER_VARS] = { user->home, user->name,
	    user->name, user->shell };
	size_t i, count = spec->named ? CHILD_USER_VARS : 1;

	for (i = 0; i < count; i++) {
		if (!spec->given[i] &&
		    set_env(spec, user_vars[i], values[i]) == -1) {
			return -1;
		}
	}
	return 0;
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

/* "No such file" about a file that is there means its interpreter. */
static int
exec_errno(const char *path)
{
	int number = errno;

	return number == ENOENT && access(path, F_OK) == 0 ? ENOEXEC : number;
}

/* The name as execvp() would look it up, in the job's own PATH. */
static const char *
exec_path(const struct child_spec *spec)
{
	static char full[PATH_MAX];
	const char *name = spec->argv[0], *path = DEFAULT_PATH, *end;
	int found = ENOENT, number;
	size_t i, n;

	if (strchr(name, '/') != NULL || name[0] == '\0') {
		execve(name, spec->argv, spec->envp);
		errno = exec_errno(name);
		return name;
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
				errno = number;
				return full;
			}
			found = number == EACCES ? EACCES : found;
		}
		if (*end == '\0') {
			errno = found;
			return name;
		}
	}
}

static int
set_limits(struct wire_list limits)
{
	struct wire_bytes item;
	struct rlimit limit;

	while (wire_next(&limits, &item)) {
		limit.rlim_cur = wire_number_get(item.at + 1, 8);
		limit.rlim_max = wire_number_get(item.at + 9, 8);
		if (setrlimit(item.at[0], &limit) == -1) {
			return -1;
		}
	}
	return 0;
}

/* nice() of -1 is no error: only errno tells. */
static int
be_nice(int32_t add)
{
	errno = 0;
	return add != 0 && nice(add) == -1 && errno != 0 ? -1 : 0;
}

enum wire_step
child_exec(const struct child_spec *spec, int in, int out, int err,
    const char **what)
{
	sigset_t none;

	setsid();
	*what = "a controlling terminal";
	if (spec->flags & WIRE_EXEC_TTY && ioctl(in, TIOCSCTTY, 0) == -1) {
		return WIRE_STEP_PTY;
	}
	*what = "stdio";
	if (dup2(in, 0) == -1 || dup2(out, 1) == -1 || dup2(err, 2) == -1) {
		return WIRE_STEP_STDIO;
	}
	if (spec->flags & WIRE_EXEC_UMASK) {
		umask((mode_t)spec->umask & 0777);
	}
	*what = "nice";
	if (be_nice(spec->nice) == -1) {
		return WIRE_STEP_LIMIT;
	}
	*what = "a resource limit";
	if (set_limits(spec->limits) == -1) {
		return WIRE_STEP_LIMIT;
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	*what = exec_path(spec);
	return WIRE_STEP_EXEC;
}
