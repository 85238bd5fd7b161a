/* SPDX-License-Identifier: MIT */
/* spawn.c - starts one command of the sandbox, on a fresh pty or on pipes. */
#include "supervisor.h"

#include "cage.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SPAWN_ENV 256

static const struct cage *cage;
static char *env_tty[SPAWN_ENV];
static char *env_pipe[SPAWN_ENV];

/* The proxy and the CA files do not exist: only the variables do. */
static const char *const fixed_env[] = {
	"OPENSHELL_SANDBOX=1", "USER=sandbox", "SHELL=/bin/bash",
	"ALL_PROXY=http://10.200.0.1:3128",
	"HTTP_PROXY=http://10.200.0.1:3128",
	"HTTPS_PROXY=http://10.200.0.1:3128",
	"NO_PROXY=127.0.0.1,localhost,::1",
	"http_proxy=http://10.200.0.1:3128",
	"https_proxy=http://10.200.0.1:3128",
	"no_proxy=127.0.0.1,localhost,::1",
	"grpc_proxy=http://10.200.0.1:3128",
	"NODE_USE_ENV_PROXY=1",
	"NODE_EXTRA_CA_CERTS=/etc/openshell-tls/openshell-ca.pem",
	"DENO_CERT=/etc/openshell-tls/openshell-ca.pem",
	"SSL_CERT_FILE=/etc/openshell-tls/ca-bundle.pem",
	"REQUESTS_CA_BUNDLE=/etc/openshell-tls/ca-bundle.pem",
	"CURL_CA_BUNDLE=/etc/openshell-tls/ca-bundle.pem",
	"GIT_SSL_CAINFO=/etc/openshell-tls/ca-bundle.pem",
};

static char *
join(const char *a, const char *b)
{
	size_t n = strlen(a) + strlen(b) + 1;
	char *s = malloc(n);

	if (s == NULL) {
		abort();
	}
	(void)snprintf(s, n, "%s%s", a, b);
	return s;
}

void
spawn_init(const struct cage *c, char *const *user_env, int n)
{
	const char *path = getenv("PATH");
	size_t i;
	size_t k = 0;
	int u;

	cage = c;
	for (i = 0; i < sizeof(fixed_env) / sizeof(fixed_env[0]); i++) {
		env_tty[k++] = join(fixed_env[i], "");
	}
	env_tty[k++] = join("HOME=", c->workdir);
	env_tty[k++] = join("PATH=",
	    path != NULL ? path : "/usr/local/bin:/usr/bin:/bin");
	for (u = 0; u < n && k < SPAWN_ENV - 2; u++) {
		env_tty[k++] = join(user_env[u], "");
	}
	memcpy(env_pipe, env_tty, sizeof(env_pipe));
	env_tty[k] = join("TERM=", "xterm-256color");
	env_pipe[k] = join("TERM=", "dumb");
}

/* After fork: only async-signal-safe calls. */
static void
give_up(int report)
{
	int err = errno;

	(void)!write(report, &err, sizeof(err));
	_exit(125);
}

static void
run_child(const struct spawn_request *rq, const int fds[3], int report)
{
	char *const shell[] = {
		(char *)"/bin/bash",
		(char *)((rq->flags & WIRE_F_NO_LOGIN) != 0 ? "-c" : "-lc"),
		(char *)rq->command, NULL
	};
	int tty = (rq->flags & WIRE_F_TTY) != 0;
	char *const *argv = rq->argv != NULL ? rq->argv : shell;
	struct sigaction sa;
	sigset_t none;
	int i;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = SIG_DFL;
	for (i = 1; i < 65; i++) {
		(void)sigaction(i, &sa, NULL);
	}
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (tty && (setsid() == -1 || ioctl(fds[0], TIOCSCTTY, 0) == -1)) {
		give_up(report);
	}
	for (i = 0; i < 3; i++) {
		if (dup2(fds[i], i) == -1) {
			give_up(report);
		}
	}
	if (chdir(cage->workdir) == -1 || cage_enter(cage) == -1) {
		give_up(report);
	}
	if (rq->argv != NULL && strchr(argv[0], '/') == NULL) {
		environ = env_pipe;
		(void)execvp(argv[0], argv);
	}
	(void)execve(argv[0], argv, tty ? env_tty : env_pipe);
	give_up(report);
}

static int
open_tty(struct child *ch, const struct spawn_request *rq, int fds[3])
{
	struct winsize ws;
	int off = 0;

	ch->tty = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (ch->tty == -1 || ioctl(ch->tty, TIOCSPTLCK, &off) == -1) {
		return -1;
	}
	fds[0] = ioctl(ch->tty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fds[0] == -1) {
		return -1;
	}
	fds[1] = fds[2] = fds[0];
	memset(&ws, 0, sizeof(ws));
	ws.ws_col = (unsigned short)(rq->cols > 0 ? rq->cols : 1);
	ws.ws_row = (unsigned short)(rq->rows > 0 ? rq->rows : 1);
	(void)ioctl(ch->tty, TIOCSWINSZ, &ws);
	return fcntl(ch->tty, F_SETFL, O_NONBLOCK);
}

/* Only our ends are non-blocking: the command must see plain pipes. */
static int
open_pipes(struct child *ch, int fds[3])
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) == -1) {
		return -1;
	}
	fds[0] = p[0];
	ch->in = p[1];
	if (pipe2(p, O_CLOEXEC) == -1) {
		return -1;
	}
	ch->out = p[0];
	fds[1] = p[1];
	if (pipe2(p, O_CLOEXEC) == -1) {
		return -1;
	}
	ch->err = p[0];
	fds[2] = p[1];
	(void)fcntl(ch->in, F_SETFL, O_NONBLOCK);
	(void)fcntl(ch->out, F_SETFL, O_NONBLOCK);
	(void)fcntl(ch->err, F_SETFL, O_NONBLOCK);
	return 0;
}

static void
close_ends(int fds[3])
{
	if (fds[1] != -1 && fds[1] != fds[0]) {
		(void)close(fds[1]);
		(void)close(fds[2]);
	}
	if (fds[0] != -1) {
		(void)close(fds[0]);
	}
}

/* An image without /bin/bash fails here, not with a status of its own. */
static int
fork_child(struct child *ch, const struct spawn_request *rq, const int fds[3])
{
	int report[2];
	int err = 0;

	if (pipe2(report, O_CLOEXEC) == -1) {
		return -1;
	}
	reaper_lock();
	ch->pid = fork();
	if (ch->pid == 0) {
		run_child(rq, fds, report[1]);
	}
	if (ch->pid > 0) {
		ch->slot = reaper_add(ch->pid, &ch->exited);
	}
	reaper_unlock();
	(void)close(report[1]);
	if (read(report[0], &err, sizeof(err)) != sizeof(err)) {
		err = ch->pid > 0 && ch->slot != -1 ? 0 : EAGAIN;
	} else if (ch->slot != -1) {
		reaper_forget(ch->slot);
	}
	(void)close(report[0]);
	errno = err;
	return err == 0 ? 0 : -1;
}

int
spawn_start(struct child *ch, const struct spawn_request *rq)
{
	int fds[3] = { -1, -1, -1 };
	int r;

	memset(ch, 0, sizeof(*ch));
	ch->tty = ch->in = ch->out = ch->err = ch->exited = ch->slot = -1;
	if (rq->argv != NULL) {
		fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
		fds[1] = 1;
		fds[2] = 2;
		r = fds[0] == -1 ? -1 : 0;
	} else if ((rq->flags & WIRE_F_TTY) != 0) {
		r = open_tty(ch, rq, fds);
	} else {
		r = open_pipes(ch, fds);
	}
	if (r == 0) {
		r = fork_child(ch, rq, fds);
	}
	if (rq->argv != NULL) {
		fds[1] = fds[2] = -1;
	}
	close_ends(fds);
	if (r == -1) {
		spawn_close(ch);
	}
	return r;
}

void
spawn_close(struct child *ch)
{
	int *fds[] = { &ch->tty, &ch->in, &ch->out, &ch->err };
	size_t i;

	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] != -1) {
			(void)close(*fds[i]);
			*fds[i] = -1;
		}
	}
}
