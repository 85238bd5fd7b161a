/* SPDX-License-Identifier: MIT */
/* launch.c - the controller's socket: connecting, starting, checking. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "paths.h"
#include "system.h"

#define LAUNCH_ARGS 64			/* words in SANDMUX_SERVE_ARGS */

/* Nothing there (step NONE), or what is there must be our own socket. */
static int
check_file(const char *path, struct error *error)
{
	struct stat st;
	char owner[64];

	if (lstat(path, &st) < 0) {
		error_set(error, errno == ENOENT ? WIRE_STEP_NONE :
		    WIRE_STEP_START, errno, "%s", path);
		return -1;
	}
	if (st.st_uid != geteuid()) {
		paths_owner((unsigned)st.st_uid, owner, sizeof(owner));
		error_set(error, WIRE_STEP_START, 0, "%s belongs to %s; it is "
		    "not used; remove it or set SANDMUX_DIR to another "
		    "directory", path, owner);
		return -1;
	}
	if (!S_ISSOCK(st.st_mode)) {
		error_set(error, WIRE_STEP_START, 0, "%s is not a socket; "
		    "remove it or set SANDMUX_DIR to another directory", path);
		return -1;
	}
	return 0;
}

static int
check_peer(int fd, const char *path, struct error *error)
{
	uid_t uid;
	pid_t pid;
	char owner[64];

	if (system_peer(fd, &uid, &pid) < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s", path);
		return -1;
	}
	if (uid != geteuid()) {
		paths_owner((unsigned)uid, owner, sizeof(owner));
		error_set(error, WIRE_STEP_START, 0, "the controller at %s "
		    "(pid %ld) runs as %s; it is not used", path, (long)pid,
		    owner);
		return -1;
	}
	return 0;
}

static int
dial(const char *path, struct error *error)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct timeval wait = { .tv_sec = LAUNCH_MS / 1000 };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		goto fail;
	}
	memcpy(un.sun_path, path, strlen(path) + 1);
	/* A full backlog makes connect() wait, so long. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	while (connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0) {
		if (errno != EINTR) {
			goto fail;
		}
	}
	if (system_nonblock(fd, 1) < 0) {
		goto fail;
	}
	return fd;
fail:
	if (errno == ECONNREFUSED || errno == ENOENT) {
		error_set(error, WIRE_STEP_NONE, errno, "%s", path);
	} else if (errno == EAGAIN) {
		error_set(error, WIRE_STEP_START, 0, "the controller at %s "
		    "does not answer; is it stopped?", path);
	} else {
		error_set(error, WIRE_STEP_START, errno, "cannot connect to "
		    "%s", path);
	}
	if (fd >= 0) {
		close(fd);
	}
	return -1;
}

int
launch_connect(const char *dir, struct error *error)
{
	struct sockaddr_un un;
	char path[sizeof(un.sun_path)];
	int fd;

	if (paths_join(path, sizeof(path), dir, PATHS_SOCKET, error) < 0 ||
	    check_file(path, error) < 0) {
		return -1;
	}
	fd = dial(path, error);
	if (fd >= 0 && check_peer(fd, path, error) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- start ---------------------------------------------------------- */

/* The child: serve --daemon, with nothing of ours but the error pipe. */
static void
run_serve(const char *dir, pid_t take_over, int say)
{
	static char serve[] = "serve", daemon[] = "--daemon", to[] = "--dir";
	static char name[] = "sandmux", over[] = "--take-over";
	char pid[32];
	const char *extra = getenv("SANDMUX_SERVE_ARGS");
	char *copy = strdup(extra == NULL ? "" : extra), *word, *rest;
	char *argv[LAUNCH_ARGS + 8] = { name, serve, daemon, to, NULL };
	int null = open("/dev/null", O_RDWR), n = 5, number;
	sigset_t none;

	setsid();
	for (number = 1; number < NSIG; number++) {
		signal(number, SIG_DFL);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	argv[4] = strdup(dir);
	if (null < 0 || copy == NULL || argv[4] == NULL ||
	    dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(say, STDERR_FILENO) < 0) {
		_exit(126);
	}
	for (word = strtok_r(copy, " ", &rest); word != NULL &&
	    n < LAUNCH_ARGS + 5; word = strtok_r(NULL, " ", &rest)) {
		argv[n++] = word;
	}
	snprintf(pid, sizeof(pid), "%ld", (long)take_over);
	argv[n] = take_over != 0 ? over : NULL;
	argv[n + 1] = pid;
	system_close_from(STDERR_FILENO + 1);
	execv("/proc/self/exe", argv);
	execvp(name, argv);
	dprintf(STDERR_FILENO, "sandmux: cannot run itself: %s\n",
	    strerror(errno));
	_exit(127);
}

/* Read what the child says until it closes; -1: not in time. */
static int
listen_to(int fd, char *said, size_t cap)
{
	uint64_t deadline = clock_now() + LAUNCH_MS * (uint64_t)CLOCK_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t used = 0;
	char drop[512];
	ssize_t n;

	for (;;) {
		n = poll(&p, 1, clock_poll_ms(clock_now(), deadline));
		if (n == 0) {
			return -1;
		}
		if (n > 0) {
			n = used + 1 < cap ?
			    read(fd, said + used, cap - 1 - used) :
			    read(fd, drop, sizeof(drop));
			if (n == 0 || (n < 0 && errno != EINTR)) {
				break;
			}
			used += n > 0 && used + 1 < cap ? (size_t)n : 0;
		}
	}
	while (used > 0 && said[used - 1] == '\n') {
		used--;
	}
	said[used] = '\0';
	return 0;
}

/* What the child said, without the words that cmd_fail() puts before it. */
static const char *
message(const char *said)
{
	static const char *const before[] = { "sandmux: ", "serve: ",
	    "cannot start: " };
	size_t i;

	for (i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		if (strncmp(said, before[i], strlen(before[i])) == 0) {
			said += strlen(before[i]);
		}
	}
	return said[0] == '\0' ? "it said nothing" : said;
}

int
launch_start(const char *dir, pid_t take_over, struct error *error)
{
	char said[WIRE_TEXT_MAX] = "";
	int ends[2], status = 0, rc;
	pid_t pid;

	if (system_pipe(ends) < 0) {
		error_set(error, WIRE_STEP_START, errno, "the controller");
		return -1;
	}
	pid = fork();
	if (pid == 0) {
		run_serve(dir, take_over, ends[1]);
	}
	close(ends[1]);
	if (pid < 0) {
		error_set(error, WIRE_STEP_START, errno, "the controller");
		close(ends[0]);
		return -1;
	}
	rc = listen_to(ends[0], said, sizeof(said));
	close(ends[0]);
	if (rc < 0) {
		kill(pid, SIGKILL);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (rc < 0 || status != 0) {
		error_set(error, WIRE_STEP_START, 0, "the controller: %.900s",
		    rc < 0 ? "it does not get ready" : message(said));
		return -1;
	}
	return 0;
}
