/* SPDX-License-Identifier: MIT */
/* main.c - the program `sandmux`: finds the subcommand and runs it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "options.h"
#include "quote.h"

static int help(int argc, char **argv);

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);	/* NULL: a later version's */
	const char *summary;
} commands[] = {
	{ "up", cmd_up, "make the sandboxes of a file" },
	{ "down", cmd_down, "remove sandboxes" },
	{ "ls", cmd_ls, "list the sandboxes that up made" },
	{ "cleanup", cmd_cleanup, "remove all that up has left" },
	{ "smoke", cmd_smoke, "make, use and remove one, step by step" },
	{ "exec", cmd_exec, "run a command in a target" },
	{ "shell", cmd_shell, "a shell in a target, on this terminal" },
	{ "cp", cmd_cp, "copy files from or to a target" },
	{ "fs", cmd_fs, "look at and change a target's files by name" },
	{ "ps", cmd_ps, "list a target's jobs" },
	{ "kill", cmd_kill, "end a job, or send it a signal" },
	{ "wait", cmd_wait, "wait for a job's end and its exit status" },
	{ "logs", cmd_logs, "show what a detached job has written" },
	{ "attach", cmd_attach, "take up a job's stdin and output" },
	{ "status", cmd_status, "show the controller and its links" },
	{ "doctor", cmd_doctor, "check a target and say what it offers" },
	{ "stop", cmd_stop, "end the controller and all its links" },
	{ "serve", cmd_serve, "be the controller (starts by itself)" },
	{ "version", cmd_version, "say the version" },
	{ "help", help, "show this" },
	{ "bench", NULL, NULL }
};

#define COUNT (sizeof(commands) / sizeof(commands[0]))

static void
summary(FILE *to)
{
	size_t i;

	fputs("usage: sandmux COMMAND [OPTION]... [OPERAND]...\n"
	    "A target is local, docker:CONTAINER, podman:CONTAINER, "
	    "openshell:SANDBOX or a\nsandbox of up's.\n\n",
	    to);
	for (i = 0; i < COUNT; i++) {
		if (commands[i].run != NULL) {
			fprintf(to, "  %-10s%s\n", commands[i].name,
			    commands[i].summary);
		}
	}
	fputs("\n`sandmux COMMAND --help` shows a command's options.\n", to);
}

static int
help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	summary(stdout);
	return fflush(stdout) == 0 ? CMD_OK : CMD_FAILED;
}

/* A missing fd 0 to 2 would be given to a socket, which then gets output. */
static int
fill_stdio(void)
{
	int fd;

	for (fd = 0; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null",
		    fd == 0 ? O_RDONLY : O_WRONLY) != fd) {
			return -1;
		}
	}
	return 0;
}

static int
unknown(const char *name)
{
	const char *near = NULL;
	unsigned distance, best = 3;
	char shown[96];
	size_t i;

	quote_text(shown, sizeof(shown), name);
	for (i = 0; i < COUNT; i++) {
		distance = options_distance(name, commands[i].name);
		if (distance < best && commands[i].run != NULL) {
			best = distance;
			near = commands[i].name;
		}
	}
	if (near != NULL) {
		dprintf(STDERR_FILENO, "sandmux: unknown command \"%s\"; did "
		    "you mean %s?\n", shown, near);
	} else {
		dprintf(STDERR_FILENO, "sandmux: unknown command \"%s\"; "
		    "see sandmux help\n", shown);
	}
	return CMD_USAGE;
}

int
main(int argc, char **argv)
{
	static char version[] = "version";
	const char *name;
	size_t i;

	if (fill_stdio() < 0) {
		return CMD_FAILED;
	}
	if (argc < 2) {
		summary(stderr);
		return CMD_USAGE;
	}
	name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		return help(argc, argv);
	}
	if (strcmp(name, "--version") == 0) {
		argv[1] = version;
		name = version;
	}
	for (i = 0; i < COUNT; i++) {
		if (strcmp(name, commands[i].name) != 0) {
			continue;
		}
		if (commands[i].run == NULL) {
			dprintf(STDERR_FILENO, "sandmux: %s: not in this "
			    "version yet\n", name);
			return CMD_USAGE;
		}
		return commands[i].run(argc - 1, argv + 1);
	}
	return unknown(name);
}
