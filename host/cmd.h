/* SPDX-License-Identifier: MIT */
/*
 * cmd.h - the subcommands, one file each, and what they share.
 *
 * Each takes its own argc and argv (argv[0] is its name) and returns the
 * program's exit status; only main() exits.
 */
#ifndef CMD_H
#define CMD_H

#include "error.h"

/* Exit statuses; exec has more of its own (run.h). */
enum cmd_status {
	CMD_OK = 0,
	CMD_FAILED = 1,
	CMD_USAGE = 2
};

int cmd_exec(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_fs(int argc, char **argv);
int cmd_up(int argc, char **argv);
int cmd_down(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_cleanup(int argc, char **argv);
int cmd_smoke(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_version(int argc, char **argv);

/* One line "sandmux: WHAT: ..." on stderr; returns status. */
int cmd_fail(const char *what, const struct error *error, int status);

/* Print a usage text on stdout; returns CMD_OK, or CMD_FAILED. */
int cmd_help(const char *text);

/*
 * For a command without operands or options but --help: 0 to go on, else
 * 1 + the exit status.
 */
int cmd_plain(int argc, char **argv, const char *usage);

#endif
