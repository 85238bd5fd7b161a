/* SPDX-License-Identifier: MIT */
/*
 * test_init.c - a job's init, with the test as its core: what it says when,
 * and what is left of its job's processes.
 *
 * Every process of a job holds the write end of its stdout unless it closes
 * it: that pipe's end is the proof that all of them are gone.
 */
#include "init.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>

#include "clock.h"
#include "init_rig.h"
#include "tree.h"

/* Whether the init may kill what is its own. */
static bool powerless;

int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);
int
__wrap_kill(pid_t pid, int number)
{
	if (powerless && number == SIGKILL) {
		errno = EPERM;
		return -1;
	}
	return __real_kill(pid, number);
}

static void
disarm(void)
{
	powerless = true;
}

static void
run(struct init_rig *rig, const char *script, uint32_t flags,
    void (*before)(void))
{
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	uint8_t buf[4096];
	struct wire_exec exec = { .flags = flags, .rows = 24, .columns = 80 };

	rig_start(rig, buf, rig_body(buf, exec, argv), -1, before);
	rig_expect(rig, INIT_START);
	assert_int_equal(rig->msg.uid, getuid());
	assert_int_equal(rig->files, flags & WIRE_EXEC_TTY ? 1 :
	    flags & WIRE_EXEC_STDIN ? 3 : 2);
}

/* All of a pipe, or what has come of it within ms. */
static size_t
slurp(int fd, char *out, size_t cap, int ms)
{
	struct pollfd p = { fd, POLLIN, 0 };
	size_t used = 0;
	ssize_t n;

	while (poll(&p, 1, ms) == 1) {
		n = read(fd, out + used, cap - 1 - used);
		if (n <= 0) {
			break;
		}
		used += (size_t)n;
	}
	out[used] = '\0';
	return used;
}

/* Until its stdout has said the words. */
static void
await(struct init_rig *rig, const char *words)
{
	char byte, said[256] = "";
	size_t n = 0;

	while (strstr(said, words) == NULL) {
		assert_true(n + 1 < sizeof(said));
		assert_int_equal(read(rig->fds[0], &byte, 1), 1);
		said[n++] = byte;
		said[n] = '\0';
	}
}

/* Nobody holds its stdout any more. */
static void
all_gone(struct init_rig *rig)
{
	struct pollfd p = { rig->fds[0], POLLIN, 0 };
	char waste[4096];

	do {
		assert_int_equal(poll(&p, 1, RIG_MS), 1);
	} while (read(rig->fds[0], waste, sizeof(waste)) > 0);
}

static void
expect_end(struct init_rig *rig, bool over, bool gone)
{
	rig_expect(rig, INIT_END);
	assert_int_equal(rig->msg.over, over);
	assert_int_equal(rig->msg.gone, gone);
}

static void
expect_exit(struct init_rig *rig)
{
	int status = rig_end(rig);

	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- from start to end ---------------------------------------------------- */

static void
test_result(void **state)
{
	struct init_rig rig;
	char said[64];

	(void)state;
	run(&rig, "echo out; echo err >&2; cat; exit 7", 0, NULL);
	assert_true(rig.msg.number > 1 && rig.msg.number != rig.pid);
	assert_int_equal(rig.msg.len, 0);
	expect_end(&rig, true, true);
	assert_true(WIFEXITED(rig.msg.number));
	assert_int_equal(WEXITSTATUS(rig.msg.number), 7);
	assert_true(rig.msg.usage.peak_kib > 0);
	slurp(rig.fds[0], said, sizeof(said), RIG_MS);
	assert_string_equal(said, "out\n");
	slurp(rig.fds[1], said, sizeof(said), RIG_MS);
	assert_string_equal(said, "err\n");
	assert_false(rig_hear(&rig, RIG_MS));
	expect_exit(&rig);

	run(&rig, "kill -USR1 $$", 0, NULL);
	expect_end(&rig, true, true);
	assert_true(WIFSIGNALED(rig.msg.number));
	assert_int_equal(WTERMSIG(rig.msg.number), SIGUSR1);
	expect_exit(&rig);
}

static void
test_stdin(void **state)
{
	struct init_rig rig;
	char said[64];

	(void)state;
	run(&rig, "cat; echo end", WIRE_EXEC_STDIN, NULL);
	assert_int_equal(write(rig.fds[2], "in\n", 3), 3);
	await(&rig, "in\n");
	close(rig.fds[2]);
	rig.files = 2;
	slurp(rig.fds[0], said, sizeof(said), RIG_MS);
	assert_string_equal(said, "end\n");
	expect_end(&rig, true, true);
	expect_exit(&rig);
}

static void
test_terminal(void **state)
{
	struct init_rig rig;
	char said[256];

	(void)state;
	run(&rig, "stty size </dev/tty; tty; exit 4", WIRE_EXEC_TTY, NULL);
	expect_end(&rig, true, true);
	assert_int_equal(WEXITSTATUS(rig.msg.number), 4);
	slurp(rig.fds[0], said, sizeof(said), 500);
	assert_ptr_equal(strstr(said, "24 80\r\n/dev/pts/"), said);
	expect_exit(&rig);
}

/* Sums of all that were reaped, and the largest's peak. */
static void
test_usage(void **state)
{
	struct init_rig rig;

	(void)state;
	run(&rig, "burn() { i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done;"
	    " }; (burn & wait) & (burn & wait) & wait", 0, NULL);
	expect_end(&rig, true, true);
	assert_true(rig.msg.usage.user_us > 10000);
	assert_true(rig.msg.usage.peak_kib > 100 &&
	    rig.msg.usage.peak_kib < 1000000);
	expect_exit(&rig);
}

/* ---- the job that a waiting one gets -------------------------------------- */

static void
test_waiting(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "exit 5", NULL };
	struct init_rig rig;
	uint8_t buf[4096];
	uint32_t len = rig_body(buf, (struct wire_exec){ 0 }, argv);

	(void)state;
	rig_start(&rig, NULL, 0, -1, NULL);
	assert_false(rig_hear(&rig, 100));
	expect_exit(&rig);		/* the core has gone */

	rig_start(&rig, NULL, 0, -1, NULL);
	assert_int_equal(send(rig.fd, buf, len, 0), len);
	rig_expect(&rig, INIT_START);
	expect_end(&rig, true, true);
	assert_int_equal(WEXITSTATUS(rig.msg.number), 5);
	expect_exit(&rig);

	rig_start(&rig, NULL, 0, -1, NULL);
	assert_int_equal(send(rig.fd, "garbage", 7, 0), 7);
	rig_expect(&rig, INIT_FAIL);
	assert_int_equal(rig.msg.step, WIRE_STEP_USAGE);
	assert_int_equal(rig.msg.number, EPROTO);
	rig_end(&rig);
}

/* What the kernel says of one that is dead by now. */
static int
epitaph(struct init_rig *rig)
{
	char waste[sizeof(struct init_msg)];
	int number;

	assert_int_equal(waitpid(rig->pid, NULL, 0), rig->pid);
	number = recv(rig->fd, waste, sizeof(waste), 0) == -1 ? errno : 0;
	close(rig->fd);
	return number;
}

/* See init.h: unread up to the leader's start, and not a moment longer. */
static void
test_unread_until_started(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "sleep 60",
	    NULL };
	struct init_rig rig;
	uint8_t buf[4096];
	struct wire_exec exec = { 0 };
	uint32_t len = rig_body(buf, exec, argv);
	unsigned i;

	(void)state;
	for (i = 0; i < 2; i++) {
		/* Dead before it could look at it; then in the midst. */
		rig_start(&rig, i == 0 ? NULL : buf, len, -1, NULL);
		assert_int_equal(kill(rig.pid, SIGSTOP), 0);
		assert_int_equal(waitpid(rig.pid, NULL, WUNTRACED), rig.pid);
		if (i == 0) {
			assert_int_equal(send(rig.fd, buf, len, 0), len);
		} else if (rig_hear(&rig, 0)) {
			i--;		/* it was quicker: once more */
			kill(rig.pid, SIGCONT);
			rig_end(&rig);
			continue;
		}
		kill(rig.pid, SIGKILL);
		assert_int_equal(epitaph(&rig), ECONNRESET);
	}
	/* It has failed by itself: that is said too. */
	exec.cwd = wire_string("/nowhere");
	rig_start(&rig, buf, rig_body(buf, exec, argv), -1, NULL);
	assert_int_equal(epitaph(&rig), ECONNRESET);
	/* It has started it. */
	run(&rig, "sleep 60", 0, NULL);
	kill(rig.pid, SIGKILL);
	kill(rig.msg.number, SIGKILL);
	assert_int_equal(epitaph(&rig), 0);
}

/* ---- trees ------------------------------------------------------------------- */

#define IGNORE "trap '' TERM HUP INT; "
#define TREE IGNORE "setsid sleep 100 & (sleep 100 & sleep 100 &) ; " \
	"(setsid sh -c 'sleep 100 & sleep 100' &) ; echo up; sleep 100; exit 1"

static void
test_orphans(void **state)
{
	struct init_rig rig;

	(void)state;
	run(&rig, "(sleep 0.4; (sleep 0.4; exit 9) &) & exit 3", 0, NULL);
	expect_end(&rig, true, false);
	assert_int_equal(WEXITSTATUS(rig.msg.number), 3);
	expect_end(&rig, true, true);
	assert_int_equal(WEXITSTATUS(rig.msg.number), 3);
	all_gone(&rig);
	expect_exit(&rig);
}

static void
test_end_at_once(void **state)
{
	struct init_rig rig;

	(void)state;
	run(&rig, TREE, 0, NULL);
	await(&rig, "up");
	rig_order(&rig, INIT_STOP, 0);
	rig_expect(&rig, INIT_ALIVE);
	expect_end(&rig, true, true);
	assert_int_equal(WTERMSIG(rig.msg.number), SIGKILL);
	all_gone(&rig);
	expect_exit(&rig);
}

static uint64_t
ms_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)(now.tv_sec - start->tv_sec) * 1000u +
	    (uint64_t)(now.tv_nsec / 1000000) -
	    (uint64_t)(start->tv_nsec / 1000000);
}

static void
test_grace(void **state)
{
	struct timespec start;
	struct init_rig rig;

	(void)state;
	/* Those that obey are not waited for. */
	run(&rig, "setsid sleep 100 & echo up; exec sleep 100", 0, NULL);
	await(&rig, "up");
	rig_order(&rig, INIT_STOP, 3600000);
	rig_expect(&rig, INIT_ALIVE);
	/* Either of the two may be the last. */
	rig_expect(&rig, INIT_END);
	assert_true(rig.msg.over);
	if (!rig.msg.gone) {
		expect_end(&rig, true, true);
	}
	assert_int_equal(WTERMSIG(rig.msg.number), SIGTERM);
	all_gone(&rig);
	expect_exit(&rig);

	/* Those that do not have it whole, and no more. */
	run(&rig, TREE, 0, NULL);
	await(&rig, "up");
	clock_gettime(CLOCK_MONOTONIC, &start);
	rig_order(&rig, INIT_STOP, 700);
	rig_expect(&rig, INIT_ALIVE);
	assert_false(rig_hear(&rig, 400));
	expect_end(&rig, true, true);
	assert_true(ms_since(&start) >= 700);
	all_gone(&rig);
	expect_exit(&rig);

	/* A second order may shorten it. */
	run(&rig, TREE, 0, NULL);
	await(&rig, "up");
	rig_order(&rig, INIT_STOP, 3600000);
	rig_expect(&rig, INIT_ALIVE);
	rig_order(&rig, INIT_STOP, 0);
	rig_expect(&rig, INIT_ALIVE);
	expect_end(&rig, true, true);
	all_gone(&rig);
	expect_exit(&rig);
}

static void
test_the_cores_end(void **state)
{
	struct init_rig rig;

	(void)state;
	run(&rig, TREE, 0, NULL);
	await(&rig, "up");
	close(rig.fd);
	all_gone(&rig);
	rig.fd = dup(0);
	expect_exit(&rig);
}

/* Many at once, and those that come while they are being ended. */
static void
test_many(void **state)
{
	struct init_rig rig;

	(void)state;
	run(&rig, IGNORE "i=0; while [ $i -lt 200 ]; do setsid sleep 100 & "
	    "i=$((i+1)); done; echo up; while [ $i -lt 2000 ]; do sleep 100 & "
	    "i=$((i+1)); done; wait", 0, NULL);
	await(&rig, "up");
	rig_order(&rig, INIT_STOP, 0);
	rig_expect(&rig, INIT_ALIVE);
	expect_end(&rig, true, true);
	all_gone(&rig);
	expect_exit(&rig);
}

/* ---- signals -------------------------------------------------------------------- */

static void
test_signals(void **state)
{
	struct init_rig rig;
	char said[256];

	(void)state;
	/* The leader's group has it, who left that has not. */
	run(&rig, "setsid sh -c \"trap 'echo far' USR1; echo up1; while :; do "
	    "sleep 0.05; done\" & trap 'echo near; exit 6' USR1; echo up2; "
	    "while :; do sleep 0.05; done", 0, NULL);
	await(&rig, "up");
	await(&rig, "up");
	rig_order(&rig, INIT_SIGNAL, SIGUSR1);
	await(&rig, "near\n");
	expect_end(&rig, true, false);
	assert_int_equal(WEXITSTATUS(rig.msg.number), 6);
	slurp(rig.fds[0], said, sizeof(said), 300);
	assert_string_equal(said, "");
	/* Once the leader is over, all that is left has. */
	rig_order(&rig, INIT_SIGNAL, SIGUSR1);
	await(&rig, "far\n");
	rig_order(&rig, INIT_SIGNAL, SIGTERM);
	expect_end(&rig, true, true);
	all_gone(&rig);
	expect_exit(&rig);
}

/* More orders than the socket holds do not hold up an end. */
static void
test_orders_without_number(void **state)
{
	struct init_msg msg = { .word = INIT_SIGNAL, .number = SIGWINCH };
	struct init_rig rig;
	unsigned i, sent = 0;

	(void)state;
	run(&rig, TREE, 0, NULL);
	await(&rig, "up");
	for (i = 0; i < 20000; i++) {
		msg.word = i % 3 == 0 ? 200 : INIT_SIGNAL;
		sent += send(rig.fd, &msg, offsetof(struct init_msg, text),
		    MSG_DONTWAIT) != -1;
	}
	assert_true(sent > 100);
	rig_order(&rig, INIT_STOP, 0);
	rig_expect(&rig, INIT_ALIVE);
	expect_end(&rig, true, true);
	all_gone(&rig);
	expect_exit(&rig);
}

/* ---- what it may not kill --------------------------------------------------------- */

static void
test_help(void **state)
{
	struct init_rig rig;
	unsigned helped = 0;

	(void)state;
	run(&rig, TREE, 0, disarm);
	await(&rig, "up");
	rig_order(&rig, INIT_STOP, 0);
	rig_expect(&rig, INIT_ALIVE);
	while (rig_hear(&rig, RIG_MS) && rig.msg.word == INIT_HELP) {
		/* Unreaped until we have seen to it: it is still that one. */
		assert_int_equal(kill(rig.msg.number, SIGKILL), 0);
		rig_order(&rig, INIT_HELPED, 0);
		helped++;
	}
	assert_true(helped >= 3);
	assert_int_equal(rig.msg.word, INIT_END);
	assert_true(rig.msg.gone);
	all_gone(&rig);
	expect_exit(&rig);
}

/* How many below init have come to be this program. */
static int
called(pid_t init, const char *program)
{
	char path[64], line[64];
	struct tree tree;
	int count = 0;
	size_t i;

	assert_int_equal(tree_read(&tree, clock_now() + RIG_MS *
	    (uint64_t)CLOCK_MS), 0);
	tree_mark(&tree, init);
	for (i = 0; i < tree.count; i++) {
		FILE *f = NULL;

		snprintf(path, sizeof(path), "/proc/%d/comm",
		    (int)tree.all[i].pid);
		if (tree.all[i].inside && (f = fopen(path, "re")) != NULL &&
		    fgets(line, sizeof(line), f) != NULL) {
			line[strcspn(line, "\n")] = '\0';
			count += strcmp(line, program) == 0;
		}
		if (f != NULL) {
			fclose(f);
		}
	}
	tree_free(&tree);
	return count;
}

static void
test_gives_up(void **state)
{
	uint64_t by = clock_now() + RIG_MS * (uint64_t)CLOCK_MS;
	struct init_rig rig;
	const char *name;
	int survivors = 0;

	(void)state;
	run(&rig, IGNORE "(setsid sleep 100 &) ; echo up; exec sleep 100", 0,
	    disarm);
	await(&rig, "up");
	/* They are stopped first, and would never come to be that. */
	while (called(rig.pid, "sleep") != 2) {
		assert_true(clock_now() < by);
		usleep(1000);
	}
	rig_order(&rig, INIT_STOP, 0);
	rig_expect(&rig, INIT_ALIVE);
	while (rig_hear(&rig, RIG_MS) && rig.msg.word == INIT_HELP) {
		rig_order(&rig, INIT_HELPED, 0);
	}
	assert_int_equal(rig.msg.word, INIT_END);
	assert_false(rig.msg.over || rig.msg.gone);
	for (name = rig.text; name < rig.text + rig.msg.len;
	    name += strlen(name) + 1) {
		assert_non_null(strstr(name, " sleep"));
		assert_int_equal(kill(atoi(name), SIGKILL), 0);
		survivors++;
	}
	assert_int_equal(survivors, 2);
	all_gone(&rig);
	expect_exit(&rig);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result),
		cmocka_unit_test(test_stdin),
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_usage),
		cmocka_unit_test(test_waiting),
		cmocka_unit_test(test_unread_until_started),
		cmocka_unit_test(test_orphans),
		cmocka_unit_test(test_end_at_once),
		cmocka_unit_test(test_grace),
		cmocka_unit_test(test_the_cores_end),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_orders_without_number),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_gives_up)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
