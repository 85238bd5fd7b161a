/* SPDX-License-Identifier: MIT */
/* cli_help.c - the help texts; which flags they list can be chosen. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char root[] =
    "Stand-in for the OpenShell command line\n\n"
    "USAGE\n  openshell <command> <subcommand> [flags]\n\n"
    "COMMANDS\n"
    "  sandbox:  exec, create, delete, list, get\n"
    "  standin:  commands of the stand-in itself\n";

static const char sandbox[] =
    "Sandboxes\n\n"
    "USAGE\n  openshell sandbox <COMMAND>\n\n"
    "COMMANDS\n"
    "  create  Make a sandbox\n"
    "  get     Show one sandbox\n"
    "  list    Show all sandboxes\n"
    "  delete  Remove sandboxes\n"
    "  exec    Run a command in a sandbox\n\n"
    "FLAGS\n  -h, --help  Print help\n";

static const char exec_head[] =
    "Run a command in a sandbox that is ready\n\n"
    "USAGE\n  openshell sandbox exec [OPTIONS] <COMMAND>...\n\n"
    "ARGUMENTS\n"
    "  <COMMAND>...           The command and its arguments\n\n"
    "FLAGS\n"
    "  -n, --name <NAME>      Sandbox (the last one used when missing)\n"
    "      --workdir <DIR>    Directory to run in\n"
    "      --timeout <SECS>   Seconds, 0 for no limit [default: 0]\n"
    "      --tty              Give the command a terminal\n"
    "      --no-tty           Give it none\n"
    "      --env <KEY=VALUE>  Set a variable, repeatable\n";

static const char no_login[] =
    "      --no-login-shell   Do not read the login files\n";

static const char create_head[] =
    "Make a sandbox\n\n"
    "USAGE\n  openshell sandbox create [OPTIONS] [-- <COMMAND>...]\n\n"
    "FLAGS\n"
    "      --name <NAME>      Name, made up when missing\n"
    "      --from <IMAGE>     Image to start from\n"
    "      --policy <FILE>    Policy (its file system lists count here)\n"
    "      --env <KEY=VALUE>  Set a variable, repeatable\n"
    "      --label <K=V>      Attach a label, repeatable\n"
    "      --tty, --no-tty    Accepted\n"
    "  -o, --output <FORMAT>  table or json\n";

static const char detach[] =
    "      --detach           Do not attach to the main command\n";

static const char leaf[] =
    "USAGE\n"
    "  openshell sandbox list [--names|--ids] [-o table|json]\n"
    "  openshell sandbox get [NAME] [-o table|json]\n"
    "  openshell sandbox delete NAME...|--all\n\n"
    "FLAGS\n";

static const char standin[] =
    "Commands of the stand-in, for tests\n\n"
    "USAGE\n"
    "  openshell standin cut NAME [BYTES]  cut its links (after BYTES)\n"
    "  openshell standin freeze NAME       its links move nothing more\n"
    "  openshell standin thaw NAME         until this\n"
    "  openshell standin start             start the gateway\n"
    "  openshell standin kill-gateway      SIGKILL, no restart\n"
    "  openshell standin restart-gateway   SIGKILL and a new one\n"
    "  openshell standin stop              remove all, end the gateway\n"
    "  openshell standin dir               print the state directory\n";

static const char last[] = "  -h, --help             Print help\n";

int
cli_has_no_login(void)
{
	const char *s = getenv("STANDIN_NO_LOGIN_SHELL");

	return s != NULL && strcmp(s, "1") == 0;
}

int
cli_has_detach(void)
{
	const char *s = getenv("STANDIN_DETACH");

	return s == NULL || strcmp(s, "0") != 0;
}

int
cli_print_help(enum cli_help which)
{
	switch (which) {
	case CLI_HELP_ROOT:
		(void)fputs(root, stdout);
		break;
	case CLI_HELP_SANDBOX:
		(void)fputs(sandbox, stdout);
		break;
	case CLI_HELP_STANDIN:
		(void)fputs(standin, stdout);
		break;
	case CLI_HELP_EXEC:
		(void)printf("%s%s%s", exec_head,
		    cli_has_no_login() ? no_login : "", last);
		break;
	case CLI_HELP_CREATE:
		(void)printf("%s%s%s", create_head,
		    cli_has_detach() ? detach : "", last);
		break;
	case CLI_HELP_LEAF:
		(void)printf("%s%s", leaf, last);
		break;
	}
	return 0;
}
