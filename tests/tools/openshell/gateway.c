/* SPDX-License-Identifier: MIT */
/*
 * gateway.c - the stand-in's daemon on the host.
 *
 * One process, one poll, any number of links.  Requests that run docker
 * are answered by a forked child.  It keeps nothing that matters in memory
 * but the links: killed and started again it finds every sandbox.
 */
#include "docker.h"
#include "link.h"
#include "state.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GATEWAY_LINKS 1024

static struct link *links[GATEWAY_LINKS];
static struct pollfd polls[1 + 2 * GATEWAY_LINKS];
static int nlinks;
static struct link_config config;

static double
setting(const char *name, double standard)
{
	const char *s = getenv(name);

	return s != NULL && *s != '\0' ? atof(s) : standard;
}

/* Picoseconds a byte from MB/s; no limit for 0. */
static int64_t
from_rate(double mbs)
{
	return mbs > 0 ? (int64_t)(1e6 / mbs) : 0;
}

static void
configure(void)
{
	config.pace.alone_ps = from_rate(setting("STANDIN_MBS", 80));
	config.pace.both_ps = from_rate(setting("STANDIN_BOTH_MBS", 28));
	config.pace.delay_ns =
	    (int64_t)(setting("STANDIN_DELAY_US", 270) * 1000);
	config.up_max = (size_t)setting("STANDIN_UP_BYTES", 10e6);
	config.down_max = (size_t)setting("STANDIN_DOWN_BYTES", 1800000);
	config.exec_ns = (int64_t)(setting("STANDIN_EXEC_MS", 16) * 1e6);
	config.keepalive_ns =
	    (int64_t)(setting("STANDIN_KEEPALIVE_S", 15) * 1e9);
}

/* Three descriptors a link: the usual 1024 would end too soon. */
static void
allow_files(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
		rl.rlim_cur = rl.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &rl);
	}
}

/* In the child that answers: no other link may be held open by it. */
static void
keep_only(int fd)
{
	(void)dup2(fd, 3);
	(void)syscall(SYS_close_range, 4, ~0U, 0);
}

static void
answer_create(int fd, const struct wire_buf *rq)
{
	struct docker_create cr;
	struct wire_buf out = {0};
	int r;

	if (docker_unpack(&cr, rq->p, rq->len) == -1) {
		return;
	}
	r = docker_create(&cr, &out);
	(void)wire_send(fd, r == 0 ? WIRE_OK : WIRE_FAIL, out.p, out.len);
}

static void
answer_delete(int fd, const struct wire_buf *rq)
{
	struct wire_cur c = { rq->p, rq->len, 0 };
	struct wire_buf out = {0};

	if (docker_delete(wire_get_str(&c)) == 0) {
		(void)wire_send(fd, WIRE_OK, NULL, 0);
		return;
	}
	wire_put_str(&out, "NotFound");
	wire_put_str(&out, "sandbox not found");
	(void)wire_send(fd, WIRE_FAIL, out.p, out.len);
}

static void
answer_list(int fd, const struct wire_buf *rq)
{
	struct wire_cur c = { rq->p, rq->len, 0 };
	struct wire_buf out = {0};

	docker_list(wire_get_str(&c), &out);
	(void)wire_send(fd, WIRE_OK, out.p, out.len);
}

static void
answer_in_child(struct link *l, enum wire_type t, const struct wire_buf *rq)
{
	if (fork() != 0) {
		return;
	}
	(void)signal(SIGCHLD, SIG_DFL);
	keep_only(link_client(l));
	if (t == WIRE_CREATE) {
		answer_create(3, rq);
	} else if (t == WIRE_DELETE) {
		answer_delete(3, rq);
	} else if (t == WIRE_LIST) {
		answer_list(3, rq);
	}
	_exit(0);
}

static void
control(struct link *client, const struct wire_buf *rq)
{
	struct wire_cur c = { rq->p, rq->len, 0 };
	const char *verb = wire_get_str(&c);
	const char *name = wire_get_str(&c);
	const char *arg = wire_get_str(&c);
	uint32_t hit = 0;
	int i;

	for (i = 0; i < nlinks; i++) {
		if (links[i] == client ||
		    strcmp(link_name(links[i]), name) != 0) {
			continue;
		}
		hit++;
		if (strcmp(verb, "cut") == 0) {
			link_set_budget(links[i], atoll(arg));
		} else {
			link_set_frozen(links[i],
			    strcmp(verb, "freeze") == 0);
		}
	}
	link_answer(client, WIRE_OK, &hit, sizeof(hit));
}

static void
run_links(void)
{
	int i = 0;
	int n = nlinks;
	int kept = 0;

	for (i = 0; i < n; i++) {
		struct wire_buf rq = {0};
		enum wire_type t;
		int over = link_run(links[i], polls + 1 + 2 * i);

		if (!over && link_take_request(links[i], &t, &rq)) {
			if (t == WIRE_CONTROL) {
				control(links[i], &rq);
			} else {
				answer_in_child(links[i], t, &rq);
				over = 1;
			}
			wire_free(&rq);
		}
		if (over) {
			link_free(links[i]);
			links[i] = NULL;
		}
	}
	for (i = 0; i < n; i++) {
		if (links[i] != NULL) {
			links[kept++] = links[i];
		}
	}
	nlinks = kept;
}

static void
wait_events(int listener)
{
	struct timespec ts;
	int64_t wake = 0;
	int64_t left;
	int i;

	polls[0].fd = nlinks < GATEWAY_LINKS ? listener : -1;
	polls[0].events = POLLIN;
	polls[0].revents = 0;
	for (i = 0; i < nlinks; i++) {
		int64_t w = link_poll(links[i], polls + 1 + 2 * i);

		if (w != 0 && (wake == 0 || w < wake)) {
			wake = w;
		}
	}
	left = wake != 0 ? wake - wire_now_ns() : 0;
	left = left > 0 ? left : 0;
	ts.tv_sec = left / 1000000000;
	ts.tv_nsec = left % 1000000000;
	(void)ppoll(polls, (nfds_t)(1 + 2 * nlinks), wake != 0 ? &ts : NULL,
	    NULL);
}

static void
serve(int listener)
{
	for (;;) {
		int fd;

		wait_events(listener);
		run_links();
		if ((polls[0].revents & POLLIN) == 0) {
			continue;
		}
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd != -1) {
			links[nlinks++] = link_new(fd, &config);
		}
	}
}

int
main(void)
{
	const char *dir = state_dir();
	int listener;

	if (dir == NULL) {
		perror("gateway: state directory");
		return 1;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_IGN);		/* children reap themselves */
	(void)prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
	setvbuf(stderr, NULL, _IOLBF, 0);
	configure();
	allow_files();
	listener = wire_listen(dir, "gateway.sock");
	if (listener == -1) {
		perror("gateway: cannot listen");
		return 1;
	}
	(void)fcntl(listener, F_SETFL, O_NONBLOCK);
	(void)!chdir("/");
	serve(listener);
	return 0;
}
