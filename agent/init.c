/* SPDX-License-Identifier: MIT */
/* init.c - a job's init: the process between the core and the leader. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"
#include "terminal.h"
#include "tree.h"
#include "worker.h"

#define HELP_MS 1000			/* for the core to kill one for us */
#define LEADER_STACK 32768		/* until its exec */
#define KILL_STEP_MS 5			/* between two passes over a tree */
#define REAP_WATCHING 256		/* in one go, orders wait */
#define REAP_KILLING 4096		/* a look at so many takes as long */

enum stage { WATCHING, TERMINATING, KILLING };

/* The process is this one object. */
static struct {
	int core;			/* -1: it is gone */
	pid_t leader;
	int status;			/* of the leader */
	bool over, told;		/* the leader; the core knows it */
	enum stage stage;
	uint64_t kill_at;
	struct init_usage usage;
} init;

int
init_send(int fd, struct init_msg *msg, const int *fds, unsigned count)
{
	union {
		char buf[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { msg, offsetof(struct init_msg, text) + msg->len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (count > 0) {
		m.msg_control = control.buf;
		m.msg_controllen = (socklen_t)CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = (socklen_t)CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	return sendmsg(fd, &m, MSG_NOSIGNAL) == -1 ? -1 : 0;
}

static void
set_text(struct init_msg *msg, const char *text)
{
	size_t len = strlen(text);

	msg->len = (uint32_t)(len < INIT_TEXT ? len : INIT_TEXT);
	memcpy(msg->text, text, msg->len);
}

static void
tell_failure(enum wire_step step, int number, const char *text)
{
	struct init_msg msg = { .word = INIT_FAIL, .step = (uint8_t)step,
	    .number = number };

	set_text(&msg, text);
	init_send(init.core, &msg, NULL, 0);
}

static void
fail(enum wire_step step, int number, const char *text)
{
	tell_failure(step, number, text);
	_exit(1);
}

/* ---- the way to the leader -------------------------------------------- */

static void
on_child(int number)
{
	(void)number;			/* it only ends the wait */
}

/*
 * A group of its own in the core's session: if a job has stopped us when the
 * core dies, the kernel lets us go on (PDEATHSIG would need the core to have
 * the right to signal us).  Only the end of a child may interrupt us, and
 * only while we wait: what else a job sends to all its processes, and the
 * HUP that comes with that CONT, stays pending.
 */
static void
guard(void)
{
	struct sigaction sa = { .sa_handler = on_child };
	sigset_t all;

	setpgid(0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	child_reset();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigaction(SIGCHLD, &sa, NULL);
}

static void
become(struct child_spec *spec, struct user *user)
{
	struct error error;

	if (user_find(user, spec->user, spec->groups, &error) == -1 ||
	    user_become(user, &error) == -1) {
		fail(error.step, error.number, error.text);
	}
	if (child_user_env(spec, user) == -1) {
		fail(WIRE_STEP_FORK, errno, "arguments");
	}
}

/* The user's own shell, else a common one. */
static void
choose_shell(struct child_spec *spec, struct user *user)
{
	static char *argv[2];
	const char *shells[] = { NULL, "/bin/bash", "/bin/sh" };
	struct error error;
	char uid[16];
	size_t i;

	if (spec->user == NULL) {
		snprintf(uid, sizeof(uid), "%u", (unsigned)getuid());
		if (user_find(user, uid, NULL, &error) == -1) {
			user->known = false;
		}
	}
	if (user->known && user->shell[0] == '/') {
		shells[0] = user->shell;
	}
	for (i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (shells[i] != NULL && access(shells[i], X_OK) == 0) {
			argv[0] = (char *)(uintptr_t)shells[i];
			spec->argv = argv;
			return;
		}
	}
	fail(WIRE_STEP_EXEC, ENOENT, "a shell (the user's own, /bin/bash or "
	    "/bin/sh)");
}

/* Where the leader is to begin; the text to tell if that is not as meant. */
static const char *
enter(const struct child_spec *spec, const struct user *user)
{
	if (spec->cwd != NULL) {
		if (chdir(spec->cwd) == -1) {
			fail(WIRE_STEP_CHDIR, errno, spec->cwd);
		}
		return "";
	}
	if (chdir(".") == 0) {
		return "";
	}
	if (spec->user != NULL && user->home[0] == '/' &&
	    chdir(user->home) == 0) {
		return user->home;
	}
	if (chdir("/") == -1) {
		fail(WIRE_STEP_CHDIR, errno, "/");
	}
	return "/";
}

/* in, out, err of the leader, and the core's ends of them. */
struct ends {
	int in, out, err;
	int core[3];
	unsigned count;			/* in core[] */
};

/* The one handed over, whose other end the core has not; or a new one. */
static void
open_terminal(const struct child_spec *spec, struct ends *e)
{
	char path[TERMINAL_PATH];
	const char *what = "the modes of the terminal";

	e->in = spec->terminal;
	if (e->in != -1 ? terminal_cook(e->in, true) == -1 :
	    terminal_open(&e->core[e->count++], &e->in, path, &what) == -1) {
		fail(WIRE_STEP_PTY, errno, what);
	}
	terminal_resize(e->in, spec->rows, spec->columns);
	e->out = e->err = e->in;
}

/*
 * Made by the job's user, so that it may open /dev/stdout by name; the core
 * gets its ends with INIT_START.
 */
static void
open_pipes(const struct child_spec *spec, struct ends *e)
{
	int in[2], out[2], err[2];

	if (pipe2(out, O_CLOEXEC) == -1 || pipe2(err, O_CLOEXEC) == -1) {
		fail(WIRE_STEP_PIPE, errno, "pipes");
	}
	if (spec->flags & WIRE_EXEC_STDIN) {
		if (pipe2(in, O_CLOEXEC) == -1) {
			fail(WIRE_STEP_PIPE, errno, "pipes");
		}
		e->core[2] = in[1];
		e->count = 3;
	} else {
		in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (in[0] == -1) {
			fail(WIRE_STEP_STDIO, errno, "/dev/null");
		}
		e->count = 2;
	}
	e->in = in[0];
	e->out = out[1];
	e->err = err[1];
	e->core[0] = out[0];
	e->core[1] = err[0];
}

static void
close_ends(const struct ends *e)
{
	unsigned i;

	close(e->in);
	if (e->out != e->in) {
		close(e->out);
		close(e->err);
	}
	for (i = 0; i < e->count; i++) {
		close(e->core[i]);
	}
}

struct leader {
	const struct child_spec *spec;
	const struct ends *ends;
};

static int
lead(void *arg)
{
	const struct leader *l = arg;
	const char *what;
	enum wire_step step = child_exec(l->spec, l->ends->in, l->ends->out,
	    l->ends->err, &what);

	tell_failure(step, errno, what);
	_exit(127);
}

/*
 * As vfork() does it, on a stack of its own: it takes half as long as a fork.
 * Our memory holds no secret any more, and exec gives it a new one.
 */
static pid_t
spawn(const struct child_spec *spec, const struct ends *ends)
{
	static char stack[LEADER_STACK] __attribute__((aligned(16)));
	struct leader leader = { spec, ends };

	return clone(lead, stack + sizeof(stack), CLONE_VM | CLONE_VFORK |
	    SIGCHLD, &leader);
}

/* From here on nobody else may run it: see init.h. */
static void
take_job(void)
{
	char first;

	if (recv(init.core, &first, sizeof(first), MSG_DONTWAIT) == -1) {
		_exit(1);
	}
}

static void
start(struct child_spec *spec)
{
	static struct user user;
	struct init_msg msg = { .word = INIT_START };
	struct ends e = { .count = 0 };

	if (spec->user != NULL) {
		become(spec, &user);
	}
	if (spec->flags & WIRE_EXEC_SHELL) {
		choose_shell(spec, &user);
	}
	set_text(&msg, enter(spec, &user));
	if (spec->flags & WIRE_EXEC_TTY) {
		open_terminal(spec, &e);
	} else {
		open_pipes(spec, &e);
	}
	take_job();
	init.leader = spawn(spec, &e);
	if (init.leader == -1) {
		fail(WIRE_STEP_FORK, errno, "a new process");
	}
	msg.number = init.leader;
	msg.uid = (uint32_t)getuid();
	init_send(init.core, &msg, e.core, e.count);
	close_ends(&e);
	/* No directory is kept in use by us. */
	if (chdir("/") == -1) {
		return;			/* then it is kept */
	}
}

/* ---- the watch -------------------------------------------------------- */

static uint64_t
us(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000u + (uint64_t)tv->tv_usec;
}

static void
account(const struct rusage *ru)
{
	struct init_usage *u = &init.usage;

	u->user_us += us(&ru->ru_utime);
	u->system_us += us(&ru->ru_stime);
	u->read_blocks += (uint64_t)ru->ru_inblock;
	u->written_blocks += (uint64_t)ru->ru_oublock;
	if ((uint64_t)ru->ru_maxrss > u->peak_kib) {
		u->peak_kib = (uint64_t)ru->ru_maxrss;
	}
}

enum left { LEFT_NONE, LEFT_ALIVE, LEFT_DEAD };

/*
 * Reap what has ended, but not without an end: those that fork faster than
 * we reap are stopped by KILL alone, and the core waits for our answers.
 */
static enum left
reap(int most)
{
	struct rusage ru;
	int status, i;
	pid_t pid;

	for (i = 0; i < most; i++) {
		pid = wait4(-1, &status, WNOHANG, &ru);
		if (pid <= 0) {
			return pid == 0 ? LEFT_ALIVE : LEFT_NONE;
		}
		account(&ru);
		if (pid == init.leader) {
			init.over = true;
			init.status = status;
		}
	}
	return LEFT_DEAD;
}

/* gone: nothing of the tree is left. */
static void
tell_end(bool gone)
{
	struct init_msg msg = { .word = INIT_END, .over = init.over,
	    .gone = gone, .number = init.status, .usage = init.usage };

	init_send(init.core, &msg, NULL, 0);
	init.told = true;
	if (gone) {
		_exit(0);
	}
}

/* The core may do better: with us gone they are its children. */
static void
give_up(void)
{
	struct init_msg msg = { .word = INIT_END, .over = init.over,
	    .number = init.status, .usage = init.usage };

	msg.len = (uint32_t)tree_names(msg.text, sizeof(msg.text), NULL);
	init_send(init.core, &msg, NULL, 0);
	_exit(0);
}

/*
 * A child of ours that is not ours to kill (it changed its user): it stays
 * unreaped, and so keeps its number, until the core has seen to it.
 */
static void
ask_help(pid_t pid)
{
	struct init_msg msg = { .word = INIT_HELP, .number = pid };
	struct pollfd p = { init.core, POLLIN, 0 };

	if (init.core == -1 || init_send(init.core, &msg, NULL, 0) == -1) {
		return;
	}
	while (poll(&p, 1, HELP_MS) == 1) {
		if (recv(init.core, &msg, sizeof(msg), MSG_DONTWAIT) <= 0 ||
		    msg.word == INIT_HELPED) {
			return;		/* other orders change nothing now */
		}
	}
}

static void
end_one(pid_t pid, void *ctx)
{
	(void)ctx;
	if (tree_end(pid) == -1 && errno == EPERM) {
		ask_help(pid);
	}
}

/*
 * Level by level: the children of those that die come up to us.  Without a
 * core there is nobody to leave survivors to: then we stay with them.
 */
static void
end_tree(void)
{
	uint64_t end = clock_now() + INIT_EFFORT_MS * (uint64_t)CLOCK_MS;
	struct timespec step = { 0, KILL_STEP_MS * 1000000L };
	enum left left;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	tree_freeze(getpid(), NULL);
	while ((left = reap(REAP_KILLING)) != LEFT_NONE) {
		if (clock_now() >= end && init.core != -1) {
			give_up();
		} else if (clock_now() >= end) {
			step.tv_sec = 1;
		}
		tree_children(end_one, NULL);
		if (left == LEFT_ALIVE) {
			sigtimedwait(&child, NULL, &step);
		}
	}
	tell_end(true);
}

static void
take_order(void)
{
	struct init_msg msg = { .word = 0 };
	ssize_t n = recv(init.core, &msg, sizeof(msg), MSG_DONTWAIT);

	if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	if (n <= 0) {
		/* The core is dead: nothing of its jobs may stay. */
		close(init.core);
		init.core = -1;
		init.stage = KILLING;
		return;
	}
	if (msg.word == INIT_SIGNAL && !init.over) {
		kill(-init.leader, msg.number);
	} else if (msg.word == INIT_SIGNAL) {
		tree_signal(msg.number);
	}
	if (msg.word != INIT_STOP) {
		return;
	}
	init_send(init.core, &(struct init_msg){ .word = INIT_ALIVE }, NULL,
	    0);
	if (msg.number == 0) {
		init.stage = KILLING;
	} else if (init.stage == WATCHING) {
		init.stage = TERMINATING;
		init.kill_at = clock_now() +
		    (uint64_t)msg.number * CLOCK_MS;
		tree_signal(SIGTERM);
	}
}

/* The job that a waiting init is for; it stays in the socket. */
static const uint8_t *
await_body(uint32_t *len)
{
	static uint8_t body[INIT_BODY_MAX];
	ssize_t n;

	do {
		n = recv(init.core, body, sizeof(body), MSG_PEEK);
	} while (n == -1 && errno == EINTR);
	if (n <= 0) {
		_exit(0);
	}
	*len = (uint32_t)n;
	return body;
}

static void
read_spec(struct child_spec *spec, const uint8_t *body, uint32_t len,
    const struct agent_start *agent)
{
	struct wire msg;
	struct error error;

	/* The core has decoded it too: this cannot fail. */
	if (wire_decode(body, len, &msg) != WIRE_OK || msg.type != WIRE_EXEC) {
		fail(WIRE_STEP_USAGE, EPROTO, "a job's body");
	}
	if (child_spec(spec, &msg.u.exec, agent, &error) == -1) {
		fail(error.step, error.number, error.text);
	}
}

void
init_run(int core, int terminal, const uint8_t *body, uint32_t len,
    const struct agent_start *agent)
{
	struct pollfd p = { core, POLLIN, 0 };
	struct child_spec spec;
	struct timespec wait;
	enum left left;
	sigset_t mask;
	uint64_t now, until;

	init.core = core;
	worker_close_others(core, terminal, -1);
	guard();
	if (body == NULL) {
		body = await_body(&len);
	}
	read_spec(&spec, body, len, agent);
	spec.terminal = terminal;
	start(&spec);
	sigfillset(&mask);
	sigdelset(&mask, SIGCHLD);
	for (;;) {
		left = reap(REAP_WATCHING);
		if (left == LEFT_NONE || (init.over && !init.told)) {
			tell_end(left == LEFT_NONE);
		}
		now = clock_now();
		if (init.stage == TERMINATING && now >= init.kill_at) {
			init.stage = KILLING;
		}
		if (init.stage == KILLING) {
			end_tree();
		}
		until = left == LEFT_DEAD ? now : init.stage == TERMINATING ?
		    init.kill_at : CLOCK_NEVER;
		wait.tv_sec = (time_t)((until - now) / 1000000u);
		wait.tv_nsec = (long)((until - now) % 1000000u) * 1000;
		p.revents = 0;
		if (ppoll(&p, 1, until == CLOCK_NEVER ? NULL : &wait,
		    &mask) == 1) {
			take_order();
		}
	}
}
