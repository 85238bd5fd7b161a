/* SPDX-License-Identifier: MIT */
/* cmd_smoke.c - `sandmux smoke`: a sandbox's whole life, step by step. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "interrupt.h"
#include "options.h"
#include "run.h"
#include "seal.h"
#include "system.h"
#include "text.h"

static const char usage[] =
"usage: sandmux smoke [-f FILE] [--base DIR]\n"
"  -f, --file FILE   as for up\n"
"      --base DIR    as for up\n"
"Makes the file's sandboxes, writes a file into the first, runs a command\n"
"there, reads the file back, removes them, and prints each step.\n"
"Exit status: 0, 1 a step failed, 2 usage or configuration.\n";

#define SAID_MAX 65536u			/* kept of a step's stdout */
#define SECRET 32u			/* random bytes that go there and back */

#define ME ((char *)"sandmux")

enum { BASE = 256 };

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ 'f', "file", OPTIONS_VALUE },
	{ BASE, "base", OPTIONS_VALUE },
	OPTIONS_LAST
};

struct smoke {
	char name[64], transport[32];	/* of the first sandbox */
	char **names;			/* argv: two words, then all of them */
	int count;
	char secret[2 * SECRET + 2];	/* what the file holds */
	char file[32];			/* what it is called there */
	char local[64];			/* what it is called here */
	char said[SAID_MAX + 1];	/* a step's stdout */
	size_t said_len;
};

static struct smoke smoke;		/* the process does one thing */

/* One subcommand as anybody would run it; its exit status. */
static int
step(struct smoke *s, char **argv)
{
	int fds[2], status = 0;
	ssize_t n = 1;
	pid_t pid;

	s->said_len = 0;
	s->said[0] = '\0';
	fflush(stdout);
	if (system_pipe(fds) < 0 || (pid = fork()) < 0) {
		return CMD_FAILED;
	}
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		execv("/proc/self/exe", argv);
		_exit(CMD_FAILED);
	}
	close(fds[1]);
	while (n > 0 || (n < 0 && errno == EINTR)) {
		n = read(fds[0], s->said + s->said_len,
		    SAID_MAX - s->said_len);
		s->said_len += n > 0 ? (size_t)n : 0;
	}
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
	}
	s->said[s->said_len] = '\0';
	return WIFEXITED(status) ? WEXITSTATUS(status) :
	    RUN_SIGNAL + WTERMSIG(status);
}

static int
tell(uint64_t since, int status, const char *what, const char *more)
{
	printf("%s  %-28s %6.2f s%s%s\n", status == 0 ? "ok    " : "FAILED",
	    what, (double)(clock_now() - since) / (1000.0 * CLOCK_MS),
	    more[0] != '\0' ? "  " : "", more);
	fflush(stdout);
	return status;
}

/* ---- the steps -------------------------------------------------------- */

static void
take_name(void *ctx, const char *path, const char *value, size_t len)
{
	struct smoke *s = ctx;
	const char *tail = strrchr(path, '.');
	char **grown;

	if (tail == NULL) {
		return;
	}
	if (strcmp(tail, ".transport") == 0 && s->transport[0] == '\0') {
		snprintf(s->transport, sizeof(s->transport), "%.*s", (int)len,
		    value);
	}
	if (strcmp(tail, ".name") != 0) {
		return;
	}
	if (s->name[0] == '\0') {
		snprintf(s->name, sizeof(s->name), "%.*s", (int)len, value);
	}
	grown = realloc(s->names, ((size_t)s->count + 4) * sizeof(*grown));
	if (grown != NULL) {
		s->names = grown;
		grown[s->count++ + 2] = strndup(value, len);
		grown[s->count + 2] = NULL;
	}
}

static int
make(struct smoke *s, const char *file, const char *base)
{
	char *argv[9] = { ME, (char *)"up", (char *)"--json" };
	uint64_t since = clock_now();
	char more[128];
	int argc = 3, status;

	if (file != NULL) {
		argv[argc++] = (char *)"-f";
		argv[argc++] = (char *)file;
	}
	if (base != NULL) {
		argv[argc++] = (char *)"--base";
		argv[argc++] = (char *)base;
	}
	status = step(s, argv);
	if (status == 0 && (text_json(s->said, strcspn(s->said, "\n"),
	    take_name, s) < 0 || s->names == NULL)) {
		status = CMD_FAILED;
	}
	snprintf(more, sizeof(more), "%s%s%s", s->name,
	    s->name[0] != '\0' ? ", " : "", s->transport);
	return tell(since, status, "make the sandbox", more);
}

static int
write_file(struct smoke *s)
{
	char to[128];
	char *argv[] = { ME, (char *)"cp", s->local, to, NULL };
	uint64_t since = clock_now();

	snprintf(to, sizeof(to), "%s:%s", s->name, s->file);
	return tell(since, step(s, argv), "write a file",
	    s->file);
}

/* Its own bytes and no others. */
static int
compare(const struct smoke *s)
{
	return s->said_len == strlen(s->secret) &&
	    memcmp(s->said, s->secret, s->said_len) == 0 ? 0 : CMD_FAILED;
}

static int
run_command(struct smoke *s)
{
	char *argv[] = { ME, (char *)"exec", s->name, (char *)"--",
	    (char *)"cat", s->file, NULL };
	uint64_t since = clock_now();
	int status = step(s, argv);

	if (status == RUN_NOT_FOUND) {
		return tell(since, 0, "run a command",
		    "not tried: there is no cat");
	}
	if (status == 0) {
		status = compare(s);
	}
	return tell(since, status, "run a command", "cat");
}

static int
read_file(struct smoke *s)
{
	char from[128];
	char *argv[] = { ME, (char *)"cp", from, (char *)"-", NULL };
	uint64_t since = clock_now();
	int status;

	snprintf(from, sizeof(from), "%s:%s", s->name, s->file);
	status = step(s, argv);
	if (status == 0) {
		status = compare(s);
	}
	return tell(since, status, "read it back", "");
}

static int
remove_all(struct smoke *s)
{
	uint64_t since = clock_now();
	int status;

	s->names[0] = ME;
	s->names[1] = (char *)"down";
	status = step(s, s->names);
	return tell(since, status, "remove the sandbox", "");
}

/* What goes there and back, in a file here. */
static int
prepare(struct smoke *s, struct error *error)
{
	uint8_t random[SECRET];
	size_t len;
	int fd;

	if (seal_init() < 0) {
		error_set(error, WIRE_STEP_START, 0, "libsodium");
		return -1;
	}
	seal_random(random, sizeof(random));
	seal_hex(random, sizeof(random), s->secret);
	snprintf(s->file, sizeof(s->file), "smoke-%.8s", s->secret);
	strcat(s->secret, "\n");
	len = strlen(s->secret);
	snprintf(s->local, sizeof(s->local), "/tmp/smoke-XXXXXX");
	fd = mkstemp(s->local);
	if (fd < 0 || write(fd, s->secret, len) != (ssize_t)len) {
		error_set(error, WIRE_STEP_START, errno, "%s", s->local);
		if (fd >= 0) {
			close(fd);
			unlink(s->local);
		}
		return -1;
	}
	close(fd);
	return 0;
}

int
cmd_smoke(int argc, char **argv)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	const char *file = NULL, *base = NULL;
	struct error error;
	int id, status, number;

	while ((id = options_next(&options, &error)) > 0) {
		if (id == 'h') {
			return cmd_help(usage);
		}
		*(id == 'f' ? &file : &base) = options.value;
	}
	if (id == 0 && options.at < argc) {
		error_set(&error, WIRE_STEP_USAGE, 0, "it takes no operands");
		id = -1;
	}
	if (id < 0) {
		return cmd_fail("smoke", &error, CMD_USAGE);
	}
	if (prepare(&smoke, &error) < 0) {
		return cmd_fail("smoke", &error, CMD_FAILED);
	}
	/* A signal ends the step; what was made is removed all the same. */
	interrupt_init();
	status = make(&smoke, file, base);
	if (smoke.names != NULL) {
		if (status == 0 && (write_file(&smoke) != 0 ||
		    run_command(&smoke) != 0 || read_file(&smoke) != 0)) {
			status = CMD_FAILED;
		}
		if (remove_all(&smoke) != 0) {
			status = CMD_FAILED;
		}
	}
	unlink(smoke.local);
	number = interrupt_take();
	return number != 0 ? RUN_SIGNAL + number : status;
}
