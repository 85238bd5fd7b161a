/* SPDX-License-Identifier: MIT */
/* tree.c - a process's descendants: finding, signalling and ending them. */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "clock.h"

#define PID_MAX 4194304			/* Linux's greatest */
#define CHILDREN_MAX 1024u		/* in one look */
#define PIDS_NEAR 512			/* from the newest one down */
#define PIDS_AHEAD 32			/* of it, born while we look */
#define SIGNAL_MS 500u			/* to find whom a signal is for */
#define FREEZE_FEW 8u			/* these KILL alone catches */
#define PROCESSES_MAX 65536u		/* in one snapshot */
/* Fields of /proc/PID/stat, as proc(5) numbers them. */
#define STAT_PARENT 4u
#define STAT_CPU 14u			/* four: own and reaped, user, system */
#define STAT_STARTED 22u

/* Up to cap - 1 bytes of a file in /proc/PID; the length, 0 if unreadable. */
static size_t
read_proc(pid_t pid, const char *name, char *out, size_t cap)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd != -1) {
		n = read(fd, out, cap - 1);
		close(fd);
	}
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* ---- children --------------------------------------------------------- */

bool
tree_is_child(pid_t pid)
{
	siginfo_t info;

	return waitid(P_PID, (id_t)pid, &info,
	    WEXITED | WNOHANG | WNOWAIT) == 0;
}

static bool
childless(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1;
}

struct visit {
	void (*each)(pid_t pid, void *ctx);
	void *ctx;
	unsigned count;
};

/* Downwards: storms are where the numbers are new. */
static void
try_range(struct visit *v, pid_t from, pid_t to)
{
	for (; to >= from; to--) {
		if (tree_is_child(to)) {
			v->each(to, v->ctx);
			v->count++;
		}
	}
}

/* The newest number: they are given out in turn. */
static pid_t
last_pid(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		core_wipe();
		_exit(0);
	}
	if (pid > 0) {
		kill(pid, SIGKILL);	/* or a job could hold us: by STOP */
	}
	while (pid > 0 && waitpid(pid, NULL, 0) == -1 && errno == EINTR) {
		continue;
	}
	return pid;
}

/*
 * Without /proc: descendants have the numbers from ours to the newest, if
 * these have not gone round since; to try all would take a second.  Every
 * other look is a short one, to be as fast as those that fork.
 */
static void
try_all(struct visit *v)
{
	static bool look_short;
	pid_t self = getpid(), last = last_pid();

	look_short = !look_short && last > self + PIDS_NEAR;
	if (look_short) {
		try_range(v, last - PIDS_NEAR, last + PIDS_AHEAD);
		return;
	}
	if (last > self) {
		try_range(v, self + 1, last + PIDS_AHEAD);
	} else if (last > 0) {
		try_range(v, 2, last + PIDS_AHEAD);
		try_range(v, self + 1, PID_MAX);
	}
	if (v->count == 0 && (last == -1 || last > self)) {
		try_range(v, 2, PID_MAX);
	}
}

void
tree_children(void (*visit)(pid_t pid, void *ctx), void *ctx)
{
	static pid_t newest[CHILDREN_MAX];
	char path[64], buf[4096];
	pid_t self = getpid(), pid = 0;
	size_t count = 0, left;
	ssize_t n, i;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)self);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1) {
		if (!childless()) {
			try_all(&(struct visit){ visit, ctx, 0 });
		}
		return;
	}
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (i = 0; i < n; i++) {
			if (buf[i] >= '0' && buf[i] <= '9') {
				pid = pid * 10 + (buf[i] - '0');
			} else if (pid > 0) {
				newest[count++ % CHILDREN_MAX] = pid;
				pid = 0;
			}
		}
	}
	close(fd);
	for (left = count < CHILDREN_MAX ? count : CHILDREN_MAX; left > 0;
	    left--) {
		visit(newest[--count % CHILDREN_MAX], ctx);
	}
}

/* ---- kill ------------------------------------------------------------- */

/* The real uid in /proc/PID/status: whose signals it takes. */
static int
owner(pid_t pid, uid_t *uid)
{
	char status[2048];
	const char *at;

	read_proc(pid, "status", status, sizeof(status));
	at = strstr(status, "\nUid:\t");
	if (at == NULL) {
		return -1;
	}
	*uid = (uid_t)strtoul(at + 6, NULL, 10);
	return 0;
}

int
tree_kill(pid_t pid, int number)
{
	int status;
	pid_t helper;
	uid_t uid;

	if (kill(pid, number) == 0) {
		return 0;
	}
	if (errno != EPERM || geteuid() != 0 || owner(pid, &uid) == -1) {
		return -1;
	}
	helper = fork();
	if (helper == 0) {
		core_wipe();
		/*
		 * Its effective user is enough, and with our real and saved
		 * one none of that user's processes may stop it: we wait.
		 */
		_exit(setresuid((uid_t)-1, uid, (uid_t)-1) == -1 ||
		    kill(pid, number) == -1);
	}
	errno = EPERM;
	while (helper > 0 && waitpid(helper, &status, 0) == -1) {
		if (errno != EINTR) {
			return -1;
		}
	}
	return helper > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ?
	    0 : -1;
}

int
tree_end(pid_t pid)
{
	/* The group is within one session, and that began below the caller. */
	pid_t group = getpgid(pid);
	int rc = tree_kill(pid, SIGKILL), saved = errno;

	if (group > 1 && group != getpgrp()) {
		kill(-group, SIGKILL);
	}
	errno = saved;
	return rc;
}

/* ---- snapshots -------------------------------------------------------- */

static int
read_stat(struct tree_process *p)
{
	static uint64_t tick_us;
	unsigned long value;
	char stat[1024], *at;
	unsigned field;

	if (tick_us == 0) {
		tick_us = 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	}
	read_proc(p->pid, "stat", stat, sizeof(stat));
	/* The name may hold anything, but nothing after it holds a ')'. */
	at = strrchr(stat, ')');
	if (at == NULL || at[1] != ' ' || at[2] == '\0') {
		return -1;
	}
	p->state = at[2];
	p->cpu_us = 0;
	at += 3;
	for (field = STAT_PARENT; field <= STAT_STARTED; field++) {
		if (*at != ' ') {
			return -1;
		}
		value = strtoul(at, &at, 10);
		if (field == STAT_PARENT) {
			p->parent = (pid_t)value;
		} else if (field >= STAT_CPU && field < STAT_CPU + 4) {
			p->cpu_us += value * tick_us;
		}
	}
	p->started = value;
	return 0;
}

pid_t
tree_parent(pid_t pid)
{
	struct tree_process p = { .pid = pid };

	return read_stat(&p) == 0 ? p.parent : 0;
}

int
tree_self(struct tree_process *self)
{
	*self = (struct tree_process){ .pid = getpid() };
	return read_stat(self);
}

int
tree_read(struct tree *tree, uint64_t until)
{
	DIR *dir = opendir("/proc");
	struct tree_process *more;
	struct dirent *entry;
	size_t size = 0;

	*tree = (struct tree){ NULL, 0 };
	while (dir != NULL && (entry = readdir(dir)) != NULL &&
	    tree->count < PROCESSES_MAX && clock_now() < until) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9') {
			continue;
		}
		if (tree->count == size) {
			size = size == 0 ? 256 : 2 * size;
			more = realloc(tree->all, size * sizeof(*more));
			if (more == NULL) {
				break;
			}
			tree->all = more;
		}
		tree->all[tree->count] = (struct tree_process){
		    .pid = (pid_t)strtol(entry->d_name, NULL, 10) };
		if (read_stat(&tree->all[tree->count]) == 0) {
			tree->count++;
		}
	}
	if (dir != NULL) {
		closedir(dir);
	}
	return tree->count > 0 ? 0 : -1;
}

void
tree_free(struct tree *tree)
{
	free(tree->all);
	tree->all = NULL;
	tree->count = 0;
}

/* The kernel lists them in rising order. */
static bool
marked(const struct tree *tree, pid_t pid)
{
	size_t low = 0, high = tree->count, at;

	while (low < high) {
		at = low + (high - low) / 2;
		if (tree->all[at].pid == pid) {
			return tree->all[at].inside;
		}
		if (tree->all[at].pid < pid) {
			low = at + 1;
		} else {
			high = at;
		}
	}
	return false;
}

/* Without the children of root, and their own, that skip knows. */
static unsigned
mark(struct tree *tree, pid_t root,
    bool (*skip)(const struct tree_process *p))
{
	unsigned count = 0, before;
	size_t i;

	for (i = 0; i < tree->count; i++) {
		tree->all[i].inside = false;
	}
	do {
		before = count;
		for (i = 0; i < tree->count; i++) {
			struct tree_process *p = &tree->all[i];

			if (!p->inside && (marked(tree, p->parent) ||
			    (p->parent == root && (skip == NULL ||
			    !skip(p))))) {
				p->inside = true;
				count++;
			}
		}
	} while (count > before);
	return count;
}

unsigned
tree_mark(struct tree *tree, pid_t root)
{
	return mark(tree, root, NULL);
}

/* ---- milder signals --------------------------------------------------- */

/*
 * To the very process that was listed, although it may be reaped and its
 * number another's at any moment: a descriptor holds whichever has it now,
 * the start time tells whether that is the same.  Where there are none
 * (before Linux 5.3, or a filter forbids them) a small window is left.
 * 0, or -1: it was not sent.
 */
static int
signal_listed(const struct tree_process *p, int number)
{
	struct tree_process now = { .pid = p->pid };
	int fd = (int)syscall(SYS_pidfd_open, p->pid, 0), rc = -1;

	if (fd == -1 && errno == ESRCH) {
		return -1;
	}
	if (read_stat(&now) == 0 && now.started == p->started) {
		rc = fd == -1 ? kill(p->pid, number) :
		    (int)syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
	}
	if (fd != -1) {
		close(fd);
	}
	return rc;
}

static void
signal_group(pid_t pid, void *ctx)
{
	pid_t group = getpgid(pid);

	/* A group is within one session, and that began below us. */
	if (group > 1 && group != getpgrp()) {
		kill(-group, *(int *)ctx);
		if (*(int *)ctx == SIGTERM) {
			kill(-group, SIGCONT);
		}
	}
}

void
tree_signal(int number)
{
	struct tree tree;
	size_t i;

	if (tree_read(&tree, clock_now() + SIGNAL_MS *
	    (uint64_t)CLOCK_MS) == -1) {
		tree_children(signal_group, &number);
		return;
	}
	tree_mark(&tree, getpid());
	for (i = 0; i < tree.count; i++) {
		/* One that is stopped could not end when TERM asks. */
		if (tree.all[i].inside && signal_listed(&tree.all[i],
		    number) == 0 && number == SIGTERM) {
			signal_listed(&tree.all[i], SIGCONT);
		}
	}
	tree_free(&tree);
}

/* ---- stopping --------------------------------------------------------- */

/* STOP all that can still run; how many those were. */
static unsigned
stop_all(pid_t root, bool (*skip)(const struct tree_process *p),
    uint64_t until)
{
	struct tree tree;
	unsigned count = 0;
	size_t i;

	if (tree_read(&tree, until) == -1) {
		return 0;
	}
	mark(&tree, root, skip);
	for (i = 0; i < tree.count; i++) {
		if (tree.all[i].inside && strchr("TtZX",
		    tree.all[i].state) == NULL &&
		    signal_listed(&tree.all[i], SIGSTOP) == 0) {
			count++;
		}
	}
	tree_free(&tree);
	return count;
}

void
tree_freeze(pid_t root, bool (*skip)(const struct tree_process *p))
{
	uint64_t until = clock_now() + TREE_FREEZE_MS * (uint64_t)CLOCK_MS;

	while (stop_all(root, skip, until) > FREEZE_FEW &&
	    clock_now() < until) {
		continue;
	}
}

/* ---- names ------------------------------------------------------------ */

struct names {
	char *out;
	size_t used, cap;
	bool (*skip)(pid_t pid);
};

static void
name_one(pid_t pid, void *ctx)
{
	struct names *names = ctx;
	char comm[64], line[96];
	size_t len;

	if (names->skip != NULL && names->skip(pid)) {
		return;
	}
	len = read_proc(pid, "comm", comm, sizeof(comm));
	if (len > 0 && comm[len - 1] == '\n') {
		comm[len - 1] = '\0';
	}
	len = (size_t)snprintf(line, sizeof(line), "%d %s", (int)pid,
	    comm) + 1;
	if (names->used + len <= names->cap) {
		memcpy(names->out + names->used, line, len);
		names->used += len;
	}
}

size_t
tree_names(char *out, size_t cap, bool (*skip)(pid_t pid))
{
	struct names names = { out, 0, cap, skip };

	tree_children(name_one, &names);
	return names.used;
}
