/* SPDX-License-Identifier: MIT */
/* child.c - starting, ending and reaping the controller's own children. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system.h"

static struct list children = { &children, &children };
static struct rlimit files;
static bool files_known;
static mode_t mask = 022;

void
child_init(void)
{
	struct rlimit raised;

	mask = umask(077);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files_known = true;
		raised = files;
		raised.rlim_cur = raised.rlim_max;
		setrlimit(RLIMIT_NOFILE, &raised);
	}
}

void
child_clear(struct child *child)
{
	list_init(&child->link);
	child->pid = -1;
	child->status = 0;
	child->exited = child->owned = false;
}

/* The new process: a session of its own, nothing of our signals. */
static void
settle(pid_t parent)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	sigset_t none;
	int number;

	setsid();
	system_die_with(parent);
	for (number = 1; number < 32; number++) {
		sigaction(number, &sa, NULL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

pid_t
child_fork(struct child *child)
{
	pid_t parent = getpid(), pid;

	child_clear(child);
	pid = fork();
	if (pid < 0) {
		return -1;
	}
	if (pid == 0) {
		settle(parent);
		list_init(&children);
		return 0;
	}
	child->pid = pid;
	list_append(&children, &child->link);
	return pid;
}

/* Descriptor to (0 to 2) from fd, which may be any, also to itself. */
static void
place(int fd, int to)
{
	if (fd == to) {
		fcntl(to, F_SETFD, 0);	/* dup2() would keep CLOEXEC */
	} else {
		dup2(fd, to);
	}
}

/* Only our own bytes and system calls from here on: fork in a daemon. */
static void
become(const struct child_spec *spec)
{
	int fds[3] = { spec->in, spec->out, spec->err };
	const char *why;
	int i, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (i = 0; i < 3; i++) {
		/* Above 2 first, so that none overwrites another. */
		fds[i] = fcntl(fds[i] < 0 ? null : fds[i], F_DUPFD_CLOEXEC, 3);
	}
	for (i = 0; i < 3; i++) {
		place(fds[i], i);
	}
	if (files_known) {
		setrlimit(RLIMIT_NOFILE, &files);
	}
	umask(mask);
	if (spec->cwd == NULL || chdir(spec->cwd) < 0) {
		if (chdir("/") < 0) {
			_exit(127);
		}
	}
	system_close_from(3);
	execve(spec->path, spec->argv, spec->env);
	why = strerror(errno);
	dprintf(2, "cannot run %s: %s\n", spec->path, why);
	_exit(127);
}

int
child_spawn(struct child *child, const struct child_spec *spec)
{
	pid_t pid = child_fork(child);

	if (pid == 0) {
		become(spec);
	}
	return pid < 0 ? -1 : 0;
}

void
child_kill(struct child *child, int number)
{
	if (child->pid > 0 && !child->exited) {
		/* Its session may not be there yet: then by its own id. */
		if (kill(-child->pid, number) < 0) {
			kill(child->pid, number);
		}
	}
}

void
child_reap(void)
{
	struct list *l, *next;
	struct child *child;
	siginfo_t info;

	for (l = children.next; l != &children; l = next) {
		next = l->next;
		child = LIST_OF(l, struct child, link);
		info.si_pid = 0;
		if (waitid(P_PID, (id_t)child->pid, &info,
		    WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) {
			continue;
		}
		/* As long as it is a zombie its group is surely its own. */
		kill(-child->pid, SIGKILL);
		waitpid(child->pid, &child->status, 0);
		child->exited = true;
		list_remove(&child->link);
		if (child->owned) {
			free(child);
		}
	}
}

void
child_drop(struct child *child)
{
	struct child *rest;

	if (child->pid > 0 && !child->exited) {
		child_kill(child, SIGKILL);
		list_remove(&child->link);
		rest = malloc(sizeof(*rest));
		if (rest == NULL) {
			waitpid(child->pid, NULL, 0);
		} else {
			*rest = *child;
			rest->owned = true;
			list_append(&children, &rest->link);
		}
	}
	child_clear(child);
}

void
child_words(const struct child *child, char *out, size_t cap)
{
	if (!child->exited) {
		snprintf(out, cap, "is still running");
	} else if (WIFSIGNALED(child->status)) {
		snprintf(out, cap, "was killed by signal %d",
		    WTERMSIG(child->status));
	} else {
		snprintf(out, cap, "exited with status %d",
		    WEXITSTATUS(child->status));
	}
}
