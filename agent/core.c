/* SPDX-License-Identifier: MIT */
/*
 * core.c - the agent's loop: one session with the host, and its requests.
 *
 * It lives in a session of its own, knows the session secret and is not
 * dumpable.  It never blocks: what could (files, look-ups) runs in processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"
#include "attempt.h"
#include "clock.h"
#include "file.h"
#include "job.h"
#include "joblog.h"
#include "orphans.h"
#include "terminal.h"
#include "tree.h"
#include "user.h"
#include "worker.h"

#define REAP_MAX 1024			/* children in one turn */
#define STRANGERS_MAX 4096		/* descriptors closed at the start */

struct core {
	int stub;			/* the link's: -1 once it is over */
	int chld[2];			/* SIGCHLD's self-pipe */
	uint64_t deadline;		/* of the first, or the next, link */
	uint64_t turn;			/* without a link: the last one's */
	uint32_t committed;		/* see link_config */
	struct link_config base;	/* of all links */
	struct seal_secret *secret;
	struct link *link;
	struct session *session;
	struct session_budget budget;
	const struct agent_start *start;
	struct pollset set;
};

static struct core core;		/* the process is this one object */

void
core_wipe(void)
{
	seal_secret_wipe(core.secret);
	link_wipe(core.link);
	attempts_wipe();
}

/* ---- requests --------------------------------------------------------- */

static void
open_unknown(struct session_request *req, const char *what)
{
	struct error error;

	error_set(&error, WIRE_STEP_USAGE, EPROTO, "%s", what);
	session_fail(req, &error);
}

/* Give what came before the body was complete to the one who wants it. */
static void
feed(struct session_request *req)
{
	const struct serve *serve;
	const uint8_t *data;
	size_t len, n;

	while ((serve = req->app) != NULL &&
	    (len = session_peek(req, 1, &data)) > 0) {
		n = serve->ops->data(req, data, len);
		if (n == 0 || req->in[1].drop) {
			return;
		}
		session_consume(req, 1, n);
	}
}

/* ---- ECHO: no process ------------------------------------------------- */

static void
echo_end(struct session_request *req, uint8_t outcome)
{
	struct wire_result r = { .outcome = outcome };

	r.in = req->in[1].received;
	req->app = NULL;
	session_result(req, &r);
}

/* It is over when its queue has run dry, which no event tells. */
static void
echo_ended(struct session_request *req)
{
	if (req->in[1].ended && req->in[1].queue.length == 0) {
		echo_end(req, WIRE_EXITED);
	}
}

static size_t
echo_data(struct session_request *req, const uint8_t *data, size_t len)
{
	size_t n = session_push(req, 0, data, len);

	if (n < len) {
		session_ready(req, 0);
	}
	return n;
}

static size_t
echo_pull(struct session_request *req, unsigned index, uint8_t *buf,
    size_t max)
{
	const uint8_t *data;
	size_t n = index == 0 ? session_peek(req, 1, &data) : 0;

	n = n < max ? n : max;
	if (n > 0) {
		memcpy(buf, data, n);
		session_consume(req, 1, n);
	}
	return n;
}

static void
echo_unwanted(struct session_request *req, unsigned index)
{
	/* What is queued has nowhere to go, and nothing else ends it. */
	if (index == 0) {
		echo_end(req, WIRE_EXITED);
	}
}

static void
echo_cancel(struct session_request *req)
{
	echo_end(req, WIRE_CANCELLED);
}

static const struct serve_ops echo_ops = {
	.data = echo_data, .ended = echo_ended, .pull = echo_pull,
	.unwanted = echo_unwanted, .cancel = echo_cancel
};
static struct serve echo = { &echo_ops };

static void
visit_echo(void *ctx, struct session_request *req)
{
	(void)ctx;
	if (req->app == &echo && req->state == SESSION_RUNNING) {
		echo_ended(req);
	}
}

/* ---- events ----------------------------------------------------------- */

static void
on_opened(void *ctx, struct session_request *req, const uint8_t *body,
    uint32_t len)
{
	struct wire msg;
	enum wire_err err = wire_decode(body, len, &msg);

	(void)ctx;
	if (err != WIRE_OK || msg.type != req->kind) {
		open_unknown(req, err != WIRE_OK ? wire_err_text(err) :
		    "a body of another kind");
		return;
	}
	switch (msg.type) {
	case WIRE_EXEC:
		job_exec(req, &msg.u.exec, body, len);
		break;
	case WIRE_PUT:
		file_put(req, &msg.u.put, core.start);
		break;
	case WIRE_GET:
		file_get(req, &msg.u.get, core.start);
		break;
	case WIRE_TREE_PUT:
		file_tree_put(req, &msg.u.tree_put, core.start);
		break;
	case WIRE_TREE_GET:
		file_tree_get(req, &msg.u.tree_get, core.start);
		break;
	case WIRE_FS:
		file_fs(req, &msg.u.fs, core.start);
		break;
	case WIRE_PROBE:
		file_probe(req);
		break;
	case WIRE_JOBS:
		job_list(req);
		break;
	case WIRE_KILL:
		job_kill(req, &msg.u.kill);
		break;
	case WIRE_ATTACH:
		joblog_attach(req, &msg.u.attach);
		break;
	case WIRE_ECHO:
		req->app = &echo;
		session_ready(req, 0);
		return;
	default:
		open_unknown(req, "this agent has no such request");
		return;
	}
	feed(req);
}

static size_t
on_data(void *ctx, struct session_request *req, unsigned index,
    const uint8_t *data, size_t len)
{
	const struct serve *serve = req->app;

	(void)ctx;
	(void)index;
	return serve == NULL ? len : serve->ops->data(req, data, len);
}

static void
on_ended(void *ctx, struct session_request *req, unsigned index)
{
	const struct serve *serve = req->app;

	(void)ctx;
	(void)index;
	if (serve != NULL) {
		serve->ops->ended(req);
	}
}

static size_t
on_pull(void *ctx, struct session_request *req, unsigned index, uint8_t *buf,
    size_t max)
{
	const struct serve *serve = req->app;

	(void)ctx;
	return serve == NULL ? 0 : serve->ops->pull(req, index, buf, max);
}

static void
on_unwanted(void *ctx, struct session_request *req, unsigned index)
{
	const struct serve *serve = req->app;

	(void)ctx;
	if (serve != NULL) {
		serve->ops->unwanted(req, index);
	}
}

static void
on_signal(void *ctx, struct session_request *req, int number)
{
	const struct serve *serve = req->app;

	(void)ctx;
	if (serve != NULL && serve->ops->signal != NULL) {
		serve->ops->signal(req, number);
	}
}

static void
on_resize(void *ctx, struct session_request *req, unsigned rows,
    unsigned columns)
{
	const struct serve *serve = req->app;

	(void)ctx;
	if (serve != NULL && serve->ops->resize != NULL) {
		serve->ops->resize(req, rows, columns);
	}
}

static void
on_cancel(void *ctx, struct session_request *req)
{
	const struct serve *serve = req->app;

	(void)ctx;
	if (serve != NULL) {
		serve->ops->cancel(req);
	}
}

static const struct session_events events = {
	.opened = on_opened, .data = on_data, .ended = on_ended,
	.pull = on_pull, .unwanted = on_unwanted, .signal = on_signal,
	.resize = on_resize, .cancel = on_cancel
};

/* ---- the first link --------------------------------------------------- */

/* The stub's words and descriptors; -1 if no link can come of it. */
static int
take_attempt(void)
{
	struct link_config config = core.base;
	int rc = attempt_receive(core.stub, &config);

	if (rc == 1 && config.terms.number != 1) {
		close(config.in);
		close(config.out);
		rc = -1;
	}
	if (rc == 1) {
		probe_terminal(isatty(config.in));
		core.link = link_new_agent(&config);
		rc = core.link == NULL ? -1 : 0;
	}
	return rc;
}

/* ---- between links ------------------------------------------------------- */

/* The link is over: false if the session is too. */
static bool
lose_link(void)
{
	uint64_t stay = link_stay(core.link);

	core.turn = clock_now();
	core.deadline = stay == CLOCK_NEVER ? stay : core.turn + stay;
	link_free(core.link);
	core.link = NULL;
	close_fd(&core.stub);
	session_trim(core.session);
	return stay > 0;
}

/*
 * While we were stopped nobody could come: a gap counts as little as it does
 * on a link.
 */
static bool
may_wait(void)
{
	uint64_t ping = LINK_PING_MS * (uint64_t)CLOCK_MS;
	uint64_t now = clock_now(), gap = now - core.turn;

	core.turn = now;
	if (core.deadline != CLOCK_NEVER && gap > ping) {
		core.deadline += gap - ping;
	}
	return now < core.deadline;
}

/* An attempt's host has proven itself: it has the session from now on. */
static void
take_over(struct link *link, int stub)
{
	link_free(core.link);
	close_fd(&core.stub);
	core.link = link;
	core.stub = stub;
}

/* ---- life ------------------------------------------------------------- */

static void
on_sigchld(int number)
{
	int saved = errno;

	(void)number;
	if (write(core.chld[1], "", 1) == -1) {
		errno = saved;	/* full: a wake-up is on its way already */
	}
	errno = saved;
}

static void
close_strangers(int keep)
{
	long i, max = sysconf(_SC_OPEN_MAX);

	max = max < 0 || max > STRANGERS_MAX ? STRANGERS_MAX : max;
	for (i = AGENT_NULL_FDS; i < max; i++) {
		if (i != keep) {
			close((int)i);
		}
	}
}

static int
set_up(int fd, const struct agent_start *start, uint8_t unlinked)
{
	struct session_config config = { .events = &events,
	    .budget = &core.budget, .server = true, .stored = true };
	struct sigaction sa = { .sa_handler = on_sigchld,
	    .sa_flags = SA_RESTART };

	setsid();
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	close_strangers(fd);
	stub_let_go();
	child_prepare();
	core.start = start;
	jobs_begin(start);
	core.stub = fd;
	core.turn = clock_now();
	core.deadline = core.turn + ATTEMPT_MS * (uint64_t)CLOCK_MS;
	signal(SIGPIPE, SIG_IGN);
	if (pipe2(core.chld, O_CLOEXEC | O_NONBLOCK) == -1 ||
	    sigaction(SIGCHLD, &sa, NULL) == -1 ||
	    session_budget_init(&core.budget, SESSION_REQUESTS) == -1) {
		return -1;
	}
	core.secret = seal_secret_new();
	core.session = session_new(&config);
	if (core.secret == NULL || core.session == NULL) {
		return -1;
	}
	core.base = (struct link_config){ .session = core.session,
	    .secret = core.secret, .committed = &core.committed,
	    .unlinked = unlinked,
	    .switches = user_can_switch(), .terminals = terminal_possible() };
	/* Without it only what needs a second link fails, and says so. */
	attempts_listen(start->words[2], &core.base);
	return 0;
}

static void
reap(void)
{
	int status, i;
	pid_t pid;

	for (i = 0; i < REAP_MAX; i++) {
		pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
		if (pid <= 0) {
			return;
		}
		if (WIFSTOPPED(status) && !jobs_know(pid)) {
			orphans_expect();	/* their helper's doing */
		} else if (WIFSTOPPED(status)) {
			/* Not for long: jobs have no say in what is ours. */
			tree_kill(pid, SIGCONT);
		} else if (!jobs_reaped(pid) && !workers_reaped(pid)) {
			orphans_expect();
		}
	}
	on_sigchld(0);			/* there may be more */
}

/* One turn; false when the core's life is over. */
static bool
turn(void)
{
	struct link *link;
	size_t stub, chld;
	char waste[64];
	int conn;

	pollset_clear(&core.set);
	/* Without a link: the first one's words are due, or it is -1. */
	stub = core.link == NULL ? pollset_add(&core.set, core.stub, POLLIN) :
	    POLLSET_NONE;
	chld = pollset_add(&core.set, core.chld[0], POLLIN);
	if (core.link != NULL) {
		link_interest(core.link, &core.set);
	} else if (core.deadline != CLOCK_NEVER) {
		pollset_wake(&core.set, core.deadline);
		pollset_wake(&core.set, clock_now() + LINK_PING_MS *
		    (uint64_t)CLOCK_MS);
	}
	attempts_interest(&core.set);
	workers_interest(&core.set);
	jobs_interest(&core.set);
	if (pollset_wait(&core.set) == -1) {
		return false;
	}
	if (pollset_ready(&core.set, chld) != 0) {
		while (read(core.chld[0], waste, sizeof(waste)) > 0) {
			continue;
		}
		reap();
	}
	if (pollset_ready(&core.set, stub) != 0 && take_attempt() == -1) {
		return false;
	}
	if (attempts_run(&core.set, &link, &conn)) {
		take_over(link, conn);
	}
	workers_run(&core.set);
	jobs_run(&core.set);
	if (core.link == NULL) {
		return may_wait();
	}
	link_set_busy(core.link, jobs_alive());
	link_run(core.link, &core.set);
	session_each(core.session, visit_echo, NULL);
	link_flush(core.link);
	jobs_prepare();
	return link_state(core.link) < LINK_CLOSED || lose_link();
}

int
core_run(int fd, const struct agent_start *start, uint8_t unlinked)
{
	int rc = set_up(fd, start, unlinked);

	while (rc == 0 && turn()) {
		continue;
	}
	/* Nobody can ask for anything any more: nothing may stay behind. */
	jobs_end();
	attempts_close();
	link_free(core.link);
	seal_secret_free(core.secret);
	return rc == 0 ? 0 : 1;
}
