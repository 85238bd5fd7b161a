/* SPDX-License-Identifier: MIT */
/* cp_tree.c - `sandmux cp -r`: a helper process, and the stream it makes. */
#include "cp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bundle.h"
#include "clock.h"
#include "cmd.h"
#include "interrupt.h"
#include "json.h"
#include "progress.h"
#include "report.h"
#include "run.h"
#include "sink.h"
#include "system.h"
#include "words.h"

#define PIPE_BYTES 1048576		/* of the stream, if we may */
#define SKIPPED_MAX 1000u		/* of the last event's list */

/* What the helper says on its socket, one packet each. */
enum saying { SAYS_SKIPPED, SAYS_SETTLE, SAYS_DONE, SAYS_FAILED };

struct saying_packet {
	enum saying saying;
	struct wire_tree_info info;	/* SETTLE, DONE */
	struct error error;		/* SKIPPED, FAILED */
};

struct tree {
	const struct cp *cp;
	const char *local;
	bool up;
	unsigned flags;			/* enum wire_tree_flags */
	char name[NAME_MAX + 1];	/* of the source, "": none */
	pid_t helper;
	int stream;			/* owned, -1: closed */
	int says;			/* owned */
	struct run run;
	struct progress progress;
	struct events events;
	struct json skipped;		/* an array */
	size_t shown;			/* of its items */
	bool settles, done, failed;	/* what the helper has said */
	bool broken;			/* it takes or gives no more */
	int signal;			/* that came before it was in place */
	struct wire_tree_info info;	/* its counts */
	struct error error;		/* its failure */
};

/* ---- the helper ------------------------------------------------------- */

static int
say(int fd, enum saying saying, const struct wire_tree_info *info,
    const struct error *error)
{
	static struct saying_packet packet;

	packet.saying = saying;
	if (info != NULL) {
		packet.info = *info;
	}
	if (error != NULL) {
		packet.error = *error;
	}
	return send(fd, &packet, sizeof(packet), 0) ==
	    (ssize_t)sizeof(packet) ? 0 : -1;
}

static void
help_skipped(void *ctx, const char *path, int number)
{
	const struct tree *t = ctx;
	struct error error;

	error_set(&error, WIRE_STEP_READ, number, "%.900s", path);
	say(t->says, SAYS_SKIPPED, NULL, &error);
}

/* The parent says whether the far end agrees. */
static int
help_settle(void *ctx, const struct wire_tree_info *info, uint64_t bytes,
    struct error *error)
{
	const struct tree *t = ctx;
	char go;

	(void)bytes;
	if (say(t->says, SAYS_SETTLE, info, NULL) == 0 &&
	    recv(t->says, &go, 1, 0) == 1) {
		return 0;
	}
	error_set(error, WIRE_STEP_WRITE, ECANCELED, "%.900s", t->local);
	return -1;
}

/* Signals are the parent's affair: it closes the stream. */
static int
help(struct tree *t)
{
	const struct bundle_source source = { .out = t->stream,
	    .path = t->local, .flags = t->flags,
	    .skipped = help_skipped, .ctx = t };
	const struct bundle_sink sink = { .in = t->stream,
	    .path = t->local, .name = t->name, .flags = t->flags,
	    .skipped = help_skipped, .settle = help_settle, .ctx = t };
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT,
	    SIGPIPE };
	struct wire_tree_info info;
	struct error error;
	size_t i;
	int rc;

	for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
		signal(ignored[i], SIG_IGN);
	}
	rc = t->up ? bundle_send(&source, &info, &error) :
	    bundle_receive(&sink, &info, &error);
	if (rc == 0) {
		return say(t->says, SAYS_DONE, &info, NULL);
	}
	/* Our reader has gone: it knows why. */
	return error.step == WIRE_STEP_WRITE && error.number == EPIPE &&
	    t->up ? 0 : say(t->says, SAYS_FAILED, NULL, &error);
}

static int
start(struct tree *t, struct error *error)
{
	int pipes[2] = { -1, -1 }, says[2] = { -1, -1 }, mine;

	if (system_pipe(pipes) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0,
	    says) < 0 || (t->helper = fork()) < 0) {
		error_set(error, WIRE_STEP_FORK, errno, "the copy's helper");
		if (says[0] >= 0) {
			close(says[0]);
			close(says[1]);
		}
		if (pipes[0] >= 0) {
			close(pipes[0]);
			close(pipes[1]);
		}
		return -1;
	}
	mine = t->up ? 0 : 1;
	if (t->helper == 0) {
		t->stream = pipes[1 - mine];
		t->says = says[1];
		close(pipes[mine]);
		close(says[0]);
		_exit(help(t) < 0);
	}
	t->stream = pipes[mine];
	t->says = says[0];
	close(pipes[1 - mine]);
	close(says[1]);
	fcntl(t->says, F_SETFD, FD_CLOEXEC);
#ifdef F_SETPIPE_SZ
	fcntl(t->stream, F_SETPIPE_SZ, PIPE_BYTES);
#endif
	return system_nonblock(t->stream, 1);
}

/* ---- what it says ----------------------------------------------------- */

static void
on_skipped(struct tree *t, const struct error *error)
{
	char line[WORDS_LINE];

	dprintf(STDERR_FILENO, "%ssandmux: cp: skipped: %s\n",
	    t->progress.shown ? "\r\033[K" : "",
	    words_error(error, line, sizeof(line)));
	if (t->shown++ < SKIPPED_MAX) {
		json_object(&t->skipped, NULL);
		json_string(&t->skipped, "path", error->text);
		json_i64(&t->skipped, "errno", error->number);
		json_end_object(&t->skipped);
	}
}

/* Take what it has said; with `wait` up to its end or its question. */
static void
hear(struct tree *t, bool wait)
{
	static struct saying_packet p;
	ssize_t n;

	for (;;) {
		n = recv(t->says, &p, sizeof(p), wait ? 0 : MSG_DONTWAIT);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n == 0) {
			close(t->says);
			t->says = -1;
		}
		if (n != (ssize_t)sizeof(p)) {
			return;
		}
		switch (p.saying) {
		case SAYS_SKIPPED:
			p.error.text[sizeof(p.error.text) - 1] = '\0';
			on_skipped(t, &p.error);
			break;
		case SAYS_SETTLE:
			t->settles = true;
			t->info = p.info;
			return;
		case SAYS_DONE:
			t->done = true;
			t->info = p.info;
			break;
		case SAYS_FAILED:
			t->failed = true;
			t->error = p.error;
			break;
		}
	}
}

static void
close_stream(struct tree *t)
{
	if (t->stream >= 0) {
		close(t->stream);
		t->stream = -1;
	}
}

/* ---- the request ------------------------------------------------------ */

static ssize_t
move_in(void *ctx, void *buf, size_t len)
{
	struct tree *t = ctx;
	ssize_t n = read(t->stream, buf, len);

	if (n > 0) {
		t->progress.done += (size_t)n;
		return n;
	}
	if (n < 0) {
		errno = errno == EINTR ? EAGAIN : errno;
		return -1;
	}
	hear(t, true);
	if (!t->done) {
		/* Only a whole stream has an end. */
		t->broken = true;
		t->run.in.fd.fd = -1;
		run_cancel(&t->run);
		errno = EAGAIN;
		return -1;
	}
	return 0;
}

static ssize_t
move_out(void *ctx, void *buf, size_t len)
{
	struct tree *t = ctx;
	ssize_t n;

	if (t->broken) {
		return (ssize_t)len;
	}
	n = write(t->stream, buf, len);
	if (n < 0 && errno == EPIPE) {
		t->broken = true;
		run_cancel(&t->run);
		return (ssize_t)len;
	}
	if (n < 0 && errno == EINTR) {
		errno = EAGAIN;
	}
	t->progress.done += n > 0 ? (size_t)n : 0;
	return n;
}

static void
turn(void *ctx, struct pollset *set)
{
	struct tree *t = ctx;

	hear(t, false);
	pollset_add(set, t->says, POLLIN);
	progress_turn(&t->progress, set);
}

static void
carry(struct tree *t, struct run_end *end)
{
	const struct cp *cp = t->cp;
	struct wire msg = { .type = t->up ? WIRE_TREE_PUT : WIRE_TREE_GET };
	struct client_config config = { .target = cp->target,
	    .flags = CLIENT_START, .events = &run_events, .ctx = &t->run };
	struct run_flow flow = { .fd = { .fd = t->stream,
	    .way = STDFD_OWN }, .name = t->local, .ctx = t };

	if (t->up) {
		msg.u.tree_put = (struct wire_tree_put){ t->flags, cp->user,
		    wire_string(cp->to.path), wire_string(t->name) };
		flow.move = move_in;
	} else {
		msg.u.tree_get = (struct wire_tree_get){ t->flags, cp->user,
		    wire_string(cp->from.path) };
		flow.move = move_out;
	}
	t->run = (struct run){ .in = { .fd = { .fd = -1 } },
	    .out = { .fd = { .fd = -1 } }, .err = { .fd = { .fd = -1 } },
	    .has_in = t->up, .catch = true, .turn = turn, .ctx = t };
	*(t->up ? &t->run.in : &t->run.out) = flow;
	*end = (struct run_end){ 0 };
	t->run.client = client_open(&config, &end->error);
	if (t->run.client == NULL) {
		return;
	}
	if (interrupt_init() < 0) {
		error_set(&end->error, WIRE_STEP_START, errno, "signals");
	} else {
		progress_start(&t->progress, true);
		run_request(&t->run, &msg, end);
		progress_end(&t->progress);
	}
	client_close(t->run.client);
}

/* ---- the end ---------------------------------------------------------- */

/* Whether the far end has done all of it, and counts what was moved here. */
static int
check(const struct tree *t, const struct run_end *end, struct error *error)
{
	struct wire info;

	if (t->failed && (t->up || t->broken)) {
		*error = t->error;	/* that is why the rest ended */
		return -1;
	}
	if (t->broken && !t->failed && !t->done) {
		error_set(error, WIRE_STEP_WAIT, 0, "the helper process died");
		return -1;
	}
	if (run_complaint(end, error)) {
		return -1;
	}
	if (!end->complete || end->outcome != WIRE_EXITED || end->code != 0) {
		error_set(error, WIRE_STEP_NONE, 0, "interrupted");
		return -1;
	}
	if (t->failed) {
		*error = t->error;
		return -1;
	}
	if (end->info == NULL || wire_decode(end->info, end->info_len,
	    &info) != WIRE_OK || info.type != WIRE_TREE_INFO ||
	    memcmp(&info.u.tree_info, &t->info, sizeof(t->info)) != 0 ||
	    (t->up ? end->in : end->out) != t->progress.done) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "the two ends count "
		    "differently");
		return -1;
	}
	return 0;
}

/* Both ends have come to their end; 0 if the tree is in place and whole. */
static int
conclude(struct tree *t, const struct run_end *end, struct error *error)
{
	int rc;

	close_stream(t);
	if (t->up && end->signal != 0) {
		/* It only reads, maybe where that hangs. */
		kill(t->helper, SIGKILL);
	}
	hear(t, true);
	rc = check(t, end, error);
	if (t->settles) {
		/* The last moment to leave. */
		if (rc == 0 && (t->signal = interrupt_take()) != 0) {
			error_set(error, WIRE_STEP_NONE, 0, "interrupted");
			rc = -1;
		}
		if (rc == 0 && send(t->says, "", 1, 0) == 1) {
			t->settles = false;
		} else {
			shutdown(t->says, SHUT_WR);
		}
		hear(t, true);
	}
	if (rc == 0 && !t->done) {
		*error = t->error;
		if (!t->failed) {
			error_set(error, WIRE_STEP_WAIT, 0, "the helper "
			    "process died");
		}
		rc = -1;
	}
	return rc;
}

/* "12 entries (10 files, 1.5 MiB, 1 hard link), 2 skipped" */
static void
summarize(const struct tree *t, char *out, size_t cap)
{
	const struct wire_tree_info *i = &t->info;
	char bytes[16];

	progress_bytes(i->bytes, bytes);
	snprintf(out, cap, "%llu entries (%llu files, %s, %llu hard links), "
	    "%llu skipped", (unsigned long long)i->entries,
	    (unsigned long long)i->files, bytes,
	    (unsigned long long)i->links, (unsigned long long)i->skipped);
}

static void
say_end(struct tree *t, int status, const struct error *error)
{
	const struct wire_tree_info *i = &t->info;
	const char *list;
	struct json json;

	json_end_array(&t->skipped);
	list = json_text(&t->skipped);
	cp_end_begin(&json, status, &t->progress);
	json_u64(&json, "entries", i->entries);
	json_u64(&json, "files", i->files);
	json_u64(&json, "bytes", i->bytes);
	json_u64(&json, "hard_links", i->links);
	json_u64(&json, "skipped_count", i->skipped);
	if (list != NULL) {
		json_raw(&json, "skipped", list, strlen(list));
	}
	cp_end_send(&t->events, &json, status, error);
}

static int
finish(struct tree *t, const struct run_end *end, struct error *error)
{
	char line[160];

	error->step = WIRE_STEP_NONE;
	error->number = 0;
	if (conclude(t, end, error) < 0) {
		return t->signal != 0 ? RUN_SIGNAL + t->signal :
		    cp_failed(end);
	}
	summarize(t, line, sizeof(line));
	if (t->info.skipped > 0) {
		error_set(error, WIRE_STEP_NONE, 0, "not all of it: %s",
		    line);
		return CMD_FAILED;
	}
	if (isatty(STDERR_FILENO)) {
		dprintf(STDERR_FILENO, "%s\n", line);
	}
	return CMD_OK;
}

/* docker cp's rule: SRC/. (and what has no name) is the content. */
static void
name_of(const char *path, char *name)
{
	size_t len = strlen(path);

	if (len >= 2 && strcmp(path + len - 2, "/.") == 0) {
		name[0] = '\0';
	} else if (sink_base(path, name) < 0) {
		name[0] = '\0';
	}
}

static unsigned
flags_of(const struct cp *cp)
{
	return cp->tree |
	    ((cp->flags & CP_ARCHIVE) == 0 ? 0 :
	    WIRE_TREE_OWNER | WIRE_TREE_SETID) |
	    ((cp->flags & CP_PARENTS) == 0 ? 0 : WIRE_TREE_PARENTS) |
	    ((cp->flags & CP_FOLLOW) == 0 ? 0 : WIRE_TREE_FOLLOW);
}

int
cp_tree(const struct cp *cp, struct error *error)
{
	struct tree t = { .cp = cp, .up = cp->from.local,
	    .local = cp->from.local ? cp->from.path : cp->to.path,
	    .flags = flags_of(cp), .stream = -1, .says = -1, .helper = -1,
	    .events = { .fd = -1 } };
	struct run_end end = { 0 };
	int status = CMD_FAILED;

	interrupt_guard();
	t.progress.name = t.local;
	if (cp_say_start(cp, &t.events, &t.progress, error) < 0) {
		return CMD_FAILED;
	}
	name_of(cp->from.path, t.name);
	json_array(&t.skipped, NULL);
	if (start(&t, error) == 0) {
		carry(&t, &end);
		status = finish(&t, &end, error);
	}
	say_end(&t, status, error);
	close_stream(&t);
	if (t.says >= 0) {
		close(t.says);
	}
	if (t.helper > 0) {
		waitpid(t.helper, NULL, 0);
	}
	json_free(&t.skipped);
	run_end_free(&end);
	events_close(&t.events);
	return status;
}
