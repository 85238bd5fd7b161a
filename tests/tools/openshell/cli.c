/* SPDX-License-Identifier: MIT */
/* cli.c - the stand-in `openshell` program; picks the command. */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLI_WIDTH 75

int
cli_usage(const char *what, const char *arg)
{
	(void)fprintf(stderr, "error: %s%s%s%s\n\nFor more information, try "
	    "'--help'.\n", what, arg != NULL ? " '" : "",
	    arg != NULL ? arg : "", arg != NULL ? "'" : "");
	return 2;
}

/* The words of the real one for a status. */
static const char *
describe(const char *code)
{
	static const char *const table[][2] = {
		{ "InvalidArgument", "Client specified an invalid argument" },
		{ "NotFound", "Some requested entity was not found" },
		{ "OutOfRange",
		    "Operation was attempted past the valid range" },
		{ "FailedPrecondition", "The system is not in a state "
		    "required for the operation's execution" },
		{ "Unavailable", "The service is currently unavailable" },
		{ "Internal", "Internal error" },
	};
	size_t k;

	for (k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
		if (strcmp(code, table[k][0]) == 0) {
			return table[k][1];
		}
	}
	return "Unknown error";
}

/* Broken at blanks: nobody can match a whole message. */
static void
print_wrapped(const char *s)
{
	size_t column = 0;

	while (*s != '\0') {
		size_t n = strcspn(s, " \n");

		if (column > 0 && column + 1 + n > CLI_WIDTH) {
			(void)fputs("\n  \xe2\x94\x82 ", stderr);
			column = 0;
		} else if (column > 0) {
			(void)fputc(' ', stderr);
			column++;
		}
		(void)fprintf(stderr, "%.*s", (int)n, s);
		column += n;
		s += n;
		if (*s == '\n') {
			(void)fputs("\n  \xe2\x94\x82 ", stderr);
			column = 0;
			s++;
		}
		s += strspn(s, " ");
	}
}

int
cli_error(const char *code, const char *message)
{
	char text[8192];

	if (*code != '\0') {
		(void)snprintf(text, sizeof(text), "code: '%s', message: "
		    "\"%s\"", describe(code), message);
	} else {
		(void)snprintf(text, sizeof(text), "%s", message);
	}
	(void)fputs("Error:   \xc3\x97 ", stderr);
	print_wrapped(text);
	(void)fputs("\n\n", stderr);
	return 1;
}

int
cli_fail(const struct wire_buf *b)
{
	struct wire_cur c = { b->p, b->len, 0 };
	const char *code = wire_get_str(&c);
	const char *message = wire_get_str(&c);

	return cli_error(code, message);
}

int
cli_option(int argc, char **argv, int *i, const char *const names[2],
    const char **value)
{
	const char *a = argv[*i];
	size_t n;
	int k;

	for (k = 0; k < 2; k++) {
		n = strlen(names[k]);
		if (n == 0 || strncmp(a, names[k], n) != 0) {
			continue;
		}
		if (a[n] == '\0') {
			if (*i + 1 >= argc) {
				return -1;
			}
			*value = argv[++*i];
			return 1;
		}
		if (a[n] == '=') {
			*value = a + n + 1;
			return 1;
		}
		if (a[1] != '-') {	/* -nNAME */
			*value = a + n;
			return 1;
		}
	}
	return 0;
}

int
cli_global(int argc, char **argv, int *i)
{
	static const char *const valued[][2] = {
		{ "--gateway", "-g" }, { "--gateway-endpoint", "" },
		{ "--workspace", "" },
	};
	const char *v;
	size_t k;

	if (strcmp(argv[*i], "-v") == 0 ||
	    strcmp(argv[*i], "--verbose") == 0 ||
	    strcmp(argv[*i], "--gateway-insecure") == 0) {
		return 1;
	}
	for (k = 0; k < sizeof(valued) / sizeof(valued[0]); k++) {
		if (cli_option(argc, argv, i, valued[k], &v) == 1) {
			return 1;
		}
	}
	return 0;
}

static int
is_help(const char *s)
{
	return strcmp(s, "--help") == 0 || strcmp(s, "-h") == 0 ||
	    strcmp(s, "help") == 0;
}

static int
sandbox(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int, char **);
	} table[] = {
		{ "exec", cli_exec }, { "create", cli_create },
		{ "delete", cli_delete }, { "list", cli_list },
		{ "get", cli_get },
	};
	size_t k;

	if (argc < 1) {
		(void)cli_print_help(CLI_HELP_SANDBOX);
		return 2;
	}
	if (is_help(argv[0])) {
		return cli_print_help(CLI_HELP_SANDBOX);
	}
	for (k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
		if (strcmp(argv[0], table[k].name) == 0) {
			return table[k].run(argc - 1, argv + 1);
		}
	}
	return cli_usage("unrecognized subcommand", argv[0]);
}

int
main(int argc, char **argv)
{
	int i = 1;

	(void)signal(SIGPIPE, SIG_IGN);
	while (i < argc && cli_global(argc, argv, &i)) {
		i++;
	}
	if (i >= argc) {
		(void)cli_print_help(CLI_HELP_ROOT);
		return 2;
	}
	if (is_help(argv[i])) {
		return cli_print_help(CLI_HELP_ROOT);
	}
	if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0) {
		(void)puts("openshell 0.0.111-standin");
		return 0;
	}
	if (strcmp(argv[i], "sandbox") == 0 || strcmp(argv[i], "sb") == 0) {
		return sandbox(argc - i - 1, argv + i + 1);
	}
	if (strcmp(argv[i], "standin") == 0) {
		return cli_standin(argc - i - 1, argv + i + 1);
	}
	return cli_usage("unrecognized subcommand", argv[i]);
}
