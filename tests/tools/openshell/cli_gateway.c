/* SPDX-License-Identifier: MIT */
/*
 * cli_gateway.c - finds, starts, kills and commands the gateway.
 *
 * The gateway's pid is never stored: the socket's peer credentials have it.
 */
#include "cli.h"

#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLI_START_MS 10000

static void
pause_ms(long ms)
{
	const struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	(void)nanosleep(&ts, NULL);
}

static void
run_gateway(const char *dir)
{
	char path[STATE_PATH + 32];
	ssize_t n;
	char *slash;
	int log, null;

	(void)setsid();
	if (fork() != 0) {
		_exit(0);
	}
	(void)snprintf(path, sizeof(path), "%s/gateway.log", dir);
	log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	(void)dup2(null, 0);
	(void)dup2(log != -1 ? log : null, 1);
	(void)dup2(log != -1 ? log : null, 2);
	(void)syscall(SYS_close_range, 3, ~0U, 0);
	(void)signal(SIGPIPE, SIG_DFL);
	n = readlink("/proc/self/exe", path, sizeof(path) - 16);
	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash != NULL) {
		memcpy(slash + 1, "gateway", 8);
		(void)setenv("STANDIN_DIR", dir, 1);
		(void)execl(path, "gateway", (char *)NULL);
	}
	_exit(127);
}

/* With the lock held; waits until the new gateway listens. */
static int
start_locked(const char *dir)
{
	int i;
	int fd = wire_connect(dir, "gateway.sock");

	if (fd != -1) {
		return fd;
	}
	if (fork() == 0) {
		run_gateway(dir);
	}
	for (i = 0; i < CLI_START_MS / 5; i++) {
		fd = wire_connect(dir, "gateway.sock");
		if (fd != -1) {
			return fd;
		}
		pause_ms(5);
	}
	return -1;
}

static int
start_gateway(const char *dir)
{
	char path[STATE_PATH];
	int lock, fd;

	(void)snprintf(path, sizeof(path), "%s/start.lock", dir);
	lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock == -1) {
		return -1;
	}
	(void)flock(lock, LOCK_EX);
	fd = start_locked(dir);
	(void)close(lock);
	return fd;
}

int
cli_connect(void)
{
	const char *stay = getenv("STANDIN_NO_START");
	const char *dir = state_dir();
	int fd = dir != NULL ? wire_connect(dir, "gateway.sock") : -1;

	if (fd == -1 && dir != NULL &&
	    (stay == NULL || strcmp(stay, "1") != 0)) {
		fd = start_gateway(dir);
	}
	if (fd == -1) {
		(void)cli_error("", "transport error\n"
		    "  cannot connect to the gateway: connection refused");
	}
	return fd;
}

int
cli_ask(enum wire_type t, struct wire_buf *b)
{
	enum wire_type answer;
	int fd = cli_connect();
	int r;

	if (fd == -1) {
		return 1;
	}
	r = wire_send(fd, t, b->p, b->len);
	if (r == 0) {
		r = wire_recv(fd, &answer, b) == 1 ? 0 : -1;
	}
	(void)close(fd);
	if (r == -1) {
		return cli_error("", "transport error");
	}
	return answer == WIRE_OK ? 0 : cli_fail(b);
}

void
cli_save_last(const char *name)
{
	char path[STATE_PATH];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/last", state_dir());
	f = fopen(path, "we");
	if (f != NULL) {
		(void)fputs(name, f);
		(void)fclose(f);
	}
}

int
cli_load_last(char *name, size_t size)
{
	char path[STATE_PATH];
	const char *dir = state_dir();
	FILE *f;
	char *r;

	(void)snprintf(path, sizeof(path), "%s/last", dir != NULL ? dir : "");
	f = fopen(path, "re");
	if (f == NULL) {
		return -1;
	}
	r = fgets(name, (int)size, f);
	(void)fclose(f);
	return r != NULL ? 0 : -1;
}

/* SIGKILL, and gone when this returns. */
static void
kill_gateway(void)
{
	const char *dir = state_dir();
	int fd = dir != NULL ? wire_connect(dir, "gateway.sock") : -1;
	struct ucred cred;
	socklen_t n = sizeof(cred);
	int i;

	if (fd == -1) {
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == 0 &&
	    cred.pid > 1) {
		(void)kill(cred.pid, SIGKILL);
		for (i = 0; i < 1000 && kill(cred.pid, 0) == 0; i++) {
			pause_ms(2);
		}
	}
	(void)close(fd);
}

static int
stop_all(void)
{
	char **names = state_dir() != NULL ? state_names() : NULL;
	size_t i;

	for (i = 0; names != NULL && names[i] != NULL; i++) {
		struct wire_buf b = {0};

		wire_put_str(&b, names[i]);
		(void)cli_ask(WIRE_DELETE, &b);
		wire_free(&b);
	}
	state_free_names(names);
	kill_gateway();
	return 0;
}

static int
control(int argc, char **argv)
{
	struct wire_buf b = {0};
	int r;

	if (argc < 2) {
		return cli_usage("a sandbox name is required", NULL);
	}
	wire_put_str(&b, argv[0]);
	wire_put_str(&b, argv[1]);
	wire_put_str(&b, argc > 2 ? argv[2] : "0");
	r = cli_ask(WIRE_CONTROL, &b);
	if (r == 0) {
		struct wire_cur c = { b.p, b.len, 0 };

		(void)printf("%u\n", wire_get_u32(&c));
	}
	wire_free(&b);
	return r;
}

int
cli_standin(int argc, char **argv)
{
	const char *verb = argc > 0 ? argv[0] : "--help";
	int fd;

	if (strcmp(verb, "cut") == 0 || strcmp(verb, "freeze") == 0 ||
	    strcmp(verb, "thaw") == 0) {
		return control(argc, argv);
	}
	if (strcmp(verb, "stop") == 0) {
		return stop_all();
	}
	if (strcmp(verb, "kill-gateway") == 0) {
		kill_gateway();
		return 0;
	}
	if (strcmp(verb, "restart-gateway") == 0 ||
	    strcmp(verb, "start") == 0) {
		if (verb[0] == 'r') {
			kill_gateway();
		}
		fd = cli_connect();
		return fd == -1 ? 1 : close(fd);
	}
	if (strcmp(verb, "dir") == 0) {
		const char *dir = state_dir();

		(void)puts(dir != NULL ? dir : "");
		return dir != NULL ? 0 : 1;
	}
	return cli_print_help(CLI_HELP_STANDIN);
}
