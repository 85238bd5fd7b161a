/* SPDX-License-Identifier: MIT */
/* runcmd.c - one program run to its end, within a time. */
#include "runcmd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "system.h"

struct pipes {
	int in[2], out[2], err[2];
};

static void
shut(int *fd)
{
	if (*fd >= 0) {
		close(*fd);
		*fd = -1;
	}
}

static void
shut_all(struct pipes *p)
{
	int saved = errno, i;

	for (i = 0; i < 2; i++) {
		shut(&p->in[i]);
		shut(&p->out[i]);
		shut(&p->err[i]);
	}
	errno = saved;
}

/* Keep the end of a stream: buf[cap], of which *len is used. */
static void
keep(char *buf, size_t cap, size_t *len, const char *data, size_t n)
{
	size_t over;

	if (n > cap) {
		data += n - cap;
		n = cap;
	}
	if (*len + n > cap) {
		over = *len + n - cap;
		memmove(buf, buf + over, *len - over);
		*len -= over;
	}
	memcpy(buf + *len, data, n);
	*len += n;
	buf[*len] = '\0';
}

/* Read once; the end of the stream closes it.  True if there were bytes. */
static bool
take(int *fd, char *buf, size_t cap, size_t *len)
{
	char data[16384];
	ssize_t n;

	if (*fd < 0) {
		return false;
	}
	n = read(*fd, data, sizeof(data));
	if (n > 0) {
		keep(buf, cap, len, data, (size_t)n);
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		shut(fd);
	}
	return false;
}

static void
feed(struct runcmd *run, int *fd, size_t *fed)
{
	ssize_t n;

	if (*fd < 0) {
		return;
	}
	n = write(*fd, (const char *)run->input + *fed,
	    run->input_len - *fed);
	if (n > 0) {
		*fed += (size_t)n;
	} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
		shut(fd);	/* it does not want the rest */
	}
	if (*fed == run->input_len) {
		shut(fd);
	}
}

/* Take and give until the child has ended; 0, or -1: past the deadline. */
static int
talk(struct runcmd *run, struct pipes *p, struct child *child)
{
	struct pollfd fds[3];
	size_t fed = 0;

	while (!child->exited) {
		if (clock_now() >= run->deadline) {
			return -1;
		}
		fds[0] = (struct pollfd){ p->in[1], POLLOUT, 0 };
		fds[1] = (struct pollfd){ p->out[0], POLLIN, 0 };
		fds[2] = (struct pollfd){ p->err[0], POLLIN, 0 };
		poll(fds, 3, p->out[0] < 0 && p->err[0] < 0 ? 1 : (int)CHILD_TICK_MS);
		feed(run, &p->in[1], &fed);
		take(&p->out[0], run->out, RUNCMD_OUT, &run->out_len);
		take(&p->err[0], run->err, RUNCMD_ERR, &run->err_len);
		child_reap();
	}
	while (take(&p->out[0], run->out, RUNCMD_OUT, &run->out_len)) {
	}
	while (take(&p->err[0], run->err, RUNCMD_ERR, &run->err_len)) {
	}
	return 0;
}

static int
launch(struct runcmd *run, struct pipes *p, struct child *child)
{
	struct child_spec spec = {
		.path = run->path, .argv = argv_words(run->argv),
		.env = run->env, .cwd = run->cwd
	};

	if (spec.argv == NULL) {
		errno = E2BIG;
		return -1;
	}
	if ((run->input != NULL && system_pipe(p->in) < 0) ||
	    system_pipe(p->out) < 0 || system_pipe(p->err) < 0) {
		return -1;
	}
	system_nonblock(p->in[1], 1);
	system_nonblock(p->out[0], 1);
	system_nonblock(p->err[0], 1);
	spec.in = p->in[0];
	spec.out = p->out[1];
	spec.err = p->err[1];
	if (child_spawn(child, &spec) < 0) {
		return -1;
	}
	shut(&p->in[0]);
	shut(&p->out[1]);
	shut(&p->err[1]);
	return 0;
}

int
runcmd_run(struct runcmd *run, struct error *error)
{
	struct pipes p = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
	struct child child;
	int rc = -1;

	run->status = 0;
	run->out_len = run->err_len = 0;
	run->out[0] = run->err[0] = '\0';
	signal(SIGPIPE, SIG_IGN);
	if (launch(run, &p, &child) < 0) {
		error_set(error, WIRE_STEP_START, errno, "cannot run %s",
		    run->path);
	} else if (talk(run, &p, &child) < 0) {
		child_kill(&child, SIGKILL);
		error_set(error, WIRE_STEP_START, ETIMEDOUT, "%s %s did not "
		    "end in time", run->path, run->argv->count > 1 ?
		    run->argv->words[1] : "");
	} else {
		run->status = WIFSIGNALED(child.status) ?
		    128 + WTERMSIG(child.status) : WEXITSTATUS(child.status);
		rc = 0;
	}
	shut_all(&p);
	return rc;
}

/* Without the blanks at both ends; NULs would cut the text. */
static void
trim(const char *from, size_t len, char *out, size_t cap)
{
	size_t i, n = 0;

	while (len > 0 && (from[len - 1] == '\n' || from[len - 1] == '\r' ||
	    from[len - 1] == ' ')) {
		len--;
	}
	while (len >= cap) {
		from++;
		len--;
	}
	for (i = 0; i < len; i++) {
		out[n++] = from[i] == '\0' ? '?' : from[i];
	}
	out[n] = '\0';
}

void
runcmd_blame(const struct runcmd *run, struct error *error)
{
	size_t used = strlen(error->text);
	char said[512];

	if (run->err_len > 0) {
		trim(run->err, run->err_len, said, sizeof(said));
	} else {
		trim(run->out, run->out_len, said, sizeof(said));
	}
	snprintf(error->text + used, sizeof(error->text) - used,
	    ": status %d, \"%s\"", run->status, said);
}
