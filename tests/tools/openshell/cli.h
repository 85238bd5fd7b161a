/* SPDX-License-Identifier: MIT */
/*
 * cli.h - what the files of the stand-in's command line share.
 *
 * Every command takes the arguments after its own name and returns the
 * exit status of the program.
 */
#ifndef CLI_H
#define CLI_H

#include "wire.h"

#include <stddef.h>
#include <stdint.h>

enum cli_help {
	CLI_HELP_ROOT,
	CLI_HELP_SANDBOX,
	CLI_HELP_EXEC,
	CLI_HELP_CREATE,
	CLI_HELP_LEAF,
	CLI_HELP_STANDIN
};

int cli_exec(int argc, char **argv);
int cli_create(int argc, char **argv);
int cli_delete(int argc, char **argv);
int cli_list(int argc, char **argv);
int cli_get(int argc, char **argv);
int cli_standin(int argc, char **argv);

/* Prints to stdout; 0. */
int cli_print_help(enum cli_help which);
/* "1" in STANDIN_NO_LOGIN_SHELL, anything but "0" in STANDIN_DETACH. */
int cli_has_no_login(void);
int cli_has_detach(void);

/* Prints a usage error; 2. */
int cli_usage(const char *what, const char *arg);
/* Prints an error; 1.  code may be "". */
int cli_error(const char *code, const char *message);
/* The same from a FAIL frame. */
int cli_fail(const struct wire_buf *b);

/*
 * Matches argv[*i] with a flag that takes a value (short form or ""): 1
 * with the value and *i moved past it, 0 no match, -1 the value is missing.
 */
int cli_option(int argc, char **argv, int *i, const char *const names[2],
    const char **value);
/* 1 for a flag every command has (with its value skipped), else 0. */
int cli_global(int argc, char **argv, int *i);

/* cli_gateway.c: connected, the gateway started when needed; -1 + message. */
int cli_connect(void);
/* One request, one answer.  0, 1 printed error; b is replaced. */
int cli_ask(enum wire_type t, struct wire_buf *b);
/* The name used when none is given. */
void cli_save_last(const char *name);
int cli_load_last(char *name, size_t size);

/* cli_tty.c: a connected exec whose stdin is a terminal; the status. */
int cli_relay(int fd, int interactive);
void cli_size(uint32_t *cols, uint32_t *rows);

#endif
