/* SPDX-License-Identifier: MIT */
/* test_tree.c - descendants: found, signalled, ended, with /proc or without. */
#include "tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define UID 61238u			/* nobody else's */
#define LIMIT_S 40			/* for anything; never a measure */
#define MOST 1100u			/* children, more than one look has */

static bool hidden;			/* there is no /proc */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int
__wrap_open(const char *path, int flags, ...)
{
	if (hidden && strncmp(path, "/proc", 5) == 0) {
		errno = ENOENT;
		return -1;
	}
	return __real_open(path, flags, 0);
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *
__wrap_opendir(const char *path)
{
	if (hidden && strncmp(path, "/proc", 5) == 0) {
		errno = ENOENT;
		return NULL;
	}
	return __real_opendir(path);
}

/* A child that runs this, or sleeps; it ends with us. */
static pid_t
child(void (*run)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(LIMIT_S);
		if (run != NULL) {
			run();
			_exit(0);
		}
		for (;;) {
			pause();
		}
	}
	return pid;
}

static int
reap(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void
dead(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT),
	    0);
}

/*
 * Run it in a process of its own, whose children are its own too; whoever
 * stops that, the parent lets it go on.
 */
static void
apart(void (*run)(void))
{
	time_t end = time(NULL) + LIMIT_S;
	pid_t pid = child(run), done;
	int status = 0;

	while ((done = waitpid(pid, &status, WNOHANG | WUNTRACED)) == 0 ||
	    (done == pid && WIFSTOPPED(status))) {
		kill(pid, SIGCONT);
		if (time(NULL) >= end) {
			kill(pid, SIGKILL);
		}
		usleep(200);
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* In there assertions are this. */
static void
check(bool right, int line)
{
	if (!right) {
		dprintf(2, "test_tree.c:%d\n", line);
		_exit(2);
	}
}
#define CHECK(x) check(x, __LINE__)

struct seen {
	pid_t all[MOST];
	size_t count;
};

static void
see(pid_t pid, void *ctx)
{
	struct seen *seen = ctx;

	if (seen->count < MOST) {
		seen->all[seen->count++] = pid;
	}
}

/* ---- children ----------------------------------------------------------- */

static void
with_grandchild(void)
{
	child(NULL);
	pause();
}

static void
check_children(void)
{
	static struct seen seen;
	pid_t pids[5], gone;
	size_t i;

	tree_children(see, &seen);
	CHECK(seen.count == 0);
	for (i = 0; i < 5; i++) {
		pids[i] = child(i == 2 ? with_grandchild : NULL);
	}
	gone = child(NULL);
	kill(gone, SIGKILL);
	reap(gone);
	kill(pids[1], SIGKILL);		/* a zombie is still one */
	dead(pids[1]);
	usleep(50000);
	do {
		/* Without /proc one look in two is a short one. */
		seen.count = 0;
		tree_children(see, &seen);
	} while (seen.count < 5);
	CHECK(seen.count == 5);
	for (i = 0; i < 5; i++) {
		CHECK(seen.all[i] == pids[4 - i]);	/* newest first */
		CHECK(tree_is_child(pids[i]));
	}
	CHECK(!tree_is_child(gone));
	CHECK(!tree_is_child(getpid()));
	CHECK(!tree_is_child(getppid()));
	CHECK(!tree_is_child(1));
}

static void
check_children_hidden(void)
{
	hidden = true;
	check_children();
}

static void
test_children(void **state)
{
	(void)state;
	apart(check_children);
	apart(check_children_hidden);
}

static void
nothing(void)
{
}

static void
check_many(void)
{
	static struct seen seen;
	static pid_t pids[MOST];
	size_t i, first;

	for (i = 0; i < MOST; i++) {
		pids[i] = child(nothing);
	}
	tree_children(see, &seen);
	CHECK(seen.count >= 1000 && seen.count < MOST);
	first = seen.count;
	for (i = 0; i < first; i++) {
		CHECK(seen.all[i] == pids[MOST - 1 - i]);
		reap(seen.all[i]);
	}
	/* The oldest are there next time. */
	tree_children(see, &seen);
	CHECK(seen.count == MOST);
	CHECK(seen.all[MOST - 1] == pids[0]);
}

static void
test_more_than_one_look(void **state)
{
	(void)state;
	apart(check_many);
}

static void
odd_name(void)
{
	prctl(PR_SET_NAME, ") R 1 (\n1) S");
	pause();
}

static void
test_parent(void **state)
{
	pid_t pid;

	(void)state;
	assert_int_equal(tree_parent(getpid()), getppid());
	pid = child(odd_name);
	usleep(20000);
	assert_int_equal(tree_parent(pid), getpid());
	kill(pid, SIGKILL);
	reap(pid);
	assert_int_equal(tree_parent(pid), 0);
	hidden = true;
	assert_int_equal(tree_parent(getpid()), 0);
	hidden = false;
}

/* ---- a snapshot ----------------------------------------------------------- */

static unsigned
mark(const pid_t pairs[][2], size_t count, pid_t root, bool *inside)
{
	struct tree_process all[16];
	struct tree tree = { all, count };
	unsigned found;
	size_t i;

	memset(all, 0, sizeof(all));
	for (i = 0; i < count; i++) {
		all[i].pid = pairs[i][0];
		all[i].parent = pairs[i][1];
		all[i].inside = true;	/* of an earlier question */
	}
	found = tree_mark(&tree, root);
	for (i = 0; i < count; i++) {
		inside[i] = all[i].inside;
	}
	return found;
}

static void
test_mark(void **state)
{
	/* Numbers go round: children may have lower ones. */
	static const pid_t pairs[][2] = { { 1, 0 }, { 2, 900 }, { 3, 2 },
	    { 4, 1 }, { 50, 1 }, { 60, 50 }, { 70, 60 }, { 900, 70 },
	    { 901, 4 } };
	/* What was read at different moments may go round, too. */
	static const pid_t circle[][2] = { { 5, 7 }, { 6, 5 }, { 7, 6 },
	    { 8, 1 } };
	bool inside[16];

	(void)state;
	assert_int_equal(mark(pairs, 9, 50, inside), 5);
	assert_false(inside[0] || inside[3] || inside[4] || inside[8]);
	assert_true(inside[1] && inside[2] && inside[5] && inside[6] &&
	    inside[7]);
	assert_int_equal(mark(pairs, 9, 3, inside), 0);
	assert_int_equal(mark(pairs, 9, 77, inside), 0);
	assert_int_equal(mark(circle, 4, 1, inside), 1);
	assert_int_equal(mark(circle, 4, 6, inside), 3);
	assert_int_equal(mark(circle, 0, 6, inside), 0);
}

static void
test_read(void **state)
{
	struct tree tree;
	pid_t pid = child(odd_name);
	size_t i, found = 0;

	(void)state;
	usleep(20000);
	assert_int_equal(tree_read(&tree, CLOCK_NEVER), 0);
	for (i = 0; i < tree.count; i++) {
		if (tree.all[i].pid == pid) {
			found++;
			assert_int_equal(tree.all[i].parent, getpid());
			assert_int_equal(tree.all[i].state, 'S');
			assert_true(tree.all[i].started > 0);
		}
		assert_true(i == 0 || tree.all[i].pid > tree.all[i - 1].pid);
	}
	assert_int_equal(found, 1);
	assert_int_equal(tree_mark(&tree, getpid()), 1);
	tree_free(&tree);
	/* Out of time, and without any. */
	assert_int_equal(tree_read(&tree, 1), -1);
	tree_free(&tree);
	hidden = true;
	assert_int_equal(tree_read(&tree, CLOCK_NEVER), -1);
	hidden = false;
	tree_free(&tree);
	kill(pid, SIGKILL);
	reap(pid);
}

/* ---- KILL ------------------------------------------------------------------ */

/* A group of four that hold a pipe: its end to read. */
static int
group(pid_t *leader, bool own)
{
	int pair[2];

	assert_int_equal(pipe(pair), 0);
	*leader = fork();
	if (*leader == 0) {
		if (own) {
			setpgid(0, 0);
		}
		fork();
		fork();
		close(pair[0]);
		if (write(pair[1], "x", 1) == 1) {
			/* Until nobody reads it. */
			poll(&(struct pollfd){ pair[1], 0, 0 }, 1,
			    LIMIT_S * 1000);
		}
		_exit(0);
	}
	close(pair[1]);
	return pair[0];
}

static void
await(int fd, int bytes)
{
	char byte;

	while (bytes-- > 0) {
		assert_int_equal(read(fd, &byte, 1), 1);
	}
}

static void
test_end(void **state)
{
	struct pollfd p = { .events = POLLIN };
	pid_t leader;
	char byte;

	(void)state;
	p.fd = group(&leader, true);
	await(p.fd, 4);
	assert_int_equal(tree_end(leader), 0);
	assert_int_equal(read(p.fd, &byte, 1), 0);	/* all of them */
	close(p.fd);
	assert_int_equal(WTERMSIG(reap(leader)), SIGKILL);

	/* Its group is ours: it alone, and we live to tell. */
	p.fd = group(&leader, false);
	await(p.fd, 4);
	assert_int_equal(tree_end(leader), 0);
	reap(leader);
	assert_int_equal(poll(&p, 1, 300), 0);
	close(p.fd);
	assert_int_equal(tree_end(leader), -1);
	assert_int_equal(errno, ESRCH);
}

static void
become_user(void)
{
	if (setresgid(UID, UID, UID) == -1 || setresuid(UID, UID, UID) == -1) {
		_exit(1);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void
stop_all(void)
{
	become_user();
	for (;;) {
		kill(-1, SIGSTOP);
	}
}

static void
user_sleeps(void)
{
	become_user();
	pause();
}

static void
without_kill(void)
{
	struct { uint32_t version, pid; } head = { 0x20080522u, 0 };
	struct { uint32_t effective, permitted, inheritable; } caps[2];

	CHECK(syscall(SYS_capget, &head, caps) == 0);
	caps[0].effective &= ~(1u << 5);
	CHECK(syscall(SYS_capset, &head, caps) == 0);
}

/* A root without CAP_KILL, and a user who stops whatever is that user's. */
static void
check_helper(void)
{
	pid_t stopper, victim;
	unsigned i;

	stopper = child(stop_all);
	without_kill();
	usleep(20000);
	for (i = 0; i < 300; i++) {
		victim = child(user_sleeps);
		usleep(i * 10);
		CHECK(kill(victim, 0) == 0 || errno == EPERM);
		CHECK(tree_kill(victim, SIGKILL) == 0);
		reap(victim);
	}
	CHECK(tree_kill(stopper, SIGKILL) == 0);
	reap(stopper);
	CHECK(tree_kill(stopper, SIGKILL) == -1 && errno == ESRCH);
}

static void
test_kill_without_privilege(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		skip();
	}
	apart(check_helper);
}

/* The look without /proc forks, and a job of the same user stops its child. */
static void
check_stopped_looks(void)
{
	static struct seen seen;
	pid_t stopper;
	unsigned i;

	become_user();
	prctl(PR_SET_DUMPABLE, 1);
	stopper = child(stop_all);
	hidden = true;
	for (i = 0; i < 300; i++) {
		seen.count = 0;
		tree_children(see, &seen);
	}
	CHECK(tree_kill(stopper, SIGKILL) == 0);
	reap(stopper);
}

static void
test_looks_that_are_stopped(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		skip();
	}
	apart(check_stopped_looks);
}

/* ---- milder signals, names ---------------------------------------------------- */

static void
leave_group(void)
{
	setpgid(0, 0);
	pause();
}

static void
check_signal(void)
{
	pid_t near = child(NULL), far = child(leave_group);
	pid_t stopped = child(leave_group);

	usleep(50000);
	kill(stopped, SIGSTOP);
	if (hidden) {
		/* Groups alone are seen then, and never ours. */
		tree_signal(SIGTERM);
		usleep(50000);
		CHECK(tree_is_child(near) && kill(near, SIGKILL) == 0);
		CHECK(WTERMSIG(reap(near)) == SIGKILL);
	} else {
		tree_signal(SIGTERM);
		CHECK(WTERMSIG(reap(near)) == SIGTERM);
	}
	CHECK(WTERMSIG(reap(far)) == SIGTERM);
	CHECK(WTERMSIG(reap(stopped)) == SIGTERM);
	tree_signal(SIGTERM);			/* nobody is left: not us */
}

static void
check_signal_hidden(void)
{
	hidden = true;
	check_signal();
}

static void
test_signal(void **state)
{
	(void)state;
	apart(check_signal);
	apart(check_signal_hidden);
}

static pid_t skipped;

static bool
skip_one(pid_t pid)
{
	return pid == skipped;
}

static void
named(void)
{
	prctl(PR_SET_NAME, "a (b) c");
	pause();
}

static void
check_names(void)
{
	pid_t a = child(named), b = child(NULL);
	char want[64], out[64];
	size_t len;

	usleep(50000);
	skipped = b;
	len = tree_names(out, sizeof(out), skip_one);
	snprintf(want, sizeof(want), "%d a (b) c", (int)a);
	CHECK(len == strlen(want) + 1 && memcmp(out, want, len) == 0);
	/* What does not fit whole is left out. */
	CHECK(tree_names(out, len - 1, skip_one) == 0);
	CHECK(tree_names(out, sizeof(out), NULL) > len);
	hidden = true;
	len = tree_names(out, sizeof(out), skip_one);
	snprintf(want, sizeof(want), "%d ", (int)a);
	CHECK(len == strlen(want) + 1 && memcmp(out, want, len) == 0);
}

static void
test_names(void **state)
{
	(void)state;
	apart(check_names);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_more_than_one_look),
		cmocka_unit_test(test_parent),
		cmocka_unit_test(test_mark),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_kill_without_privilege),
		cmocka_unit_test(test_looks_that_are_stopped),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_names)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
