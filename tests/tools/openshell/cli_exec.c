/* SPDX-License-Identifier: MIT */
/* cli_exec.c - `openshell sandbox exec`, up to the running command. */
#include "cli.h"

#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum tty_choice { TTY_AUTO, TTY_YES, TTY_NO };

struct options {
	struct request rq;
	enum tty_choice tty;
	int no_login;
	int help;
};

static int
is_utf8(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	while (*p != '\0') {
		int n = *p < 0x80 ? 0 : *p >= 0xc2 && *p < 0xe0 ? 1 :
		    *p >= 0xe0 && *p < 0xf0 ? 2 :
		    *p >= 0xf0 && *p < 0xf5 ? 3 : -1;

		if (n < 0) {
			return 0;
		}
		for (p++; n > 0; n--, p++) {
			if ((*p & 0xc0) != 0x80) {
				return 0;
			}
		}
	}
	return 1;
}

static int
parse_timeout(const char *v, uint32_t *out)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(v, &end, 10);
	if (*v < '0' || *v > '9' || *end != '\0' || errno != 0 ||
	    n > UINT32_MAX) {
		return -1;
	}
	*out = (uint32_t)n;
	return 0;
}

/* 1 taken, 0 not a flag with a value, 2 a usage error was printed. */
static int
parse_valued(struct options *o, int argc, char **argv, int *i)
{
	static const char *const names[][2] = {
		{ "--name", "-n" }, { "--workdir", "" }, { "--timeout", "" },
		{ "--env", "" },
	};
	const char *flag = argv[*i];
	const char *v = NULL;
	size_t k;
	int r = 0;

	for (k = 0; k < sizeof(names) / sizeof(names[0]) && r == 0; k++) {
		r = cli_option(argc, argv, i, names[k], &v);
	}
	if (r == 0) {
		return 0;
	}
	if (r == -1) {
		return cli_usage("a value is required for", flag);
	}
	switch (k - 1) {
	case 0:
		o->rq.name = v;
		break;
	case 1:
		o->rq.workdir = v;
		break;
	case 2:
		if (parse_timeout(v, &o->rq.timeout) == -1) {
			return cli_usage("invalid value for '--timeout "
			    "<TIMEOUT>': not a number:", v);
		}
		break;
	default:
		o->rq.env[o->rq.nenv++] = v;
		break;
	}
	return 1;
}

static int
parse_plain(struct options *o, const char *a)
{
	if (strcmp(a, "--tty") == 0) {
		o->tty = TTY_YES;
	} else if (strcmp(a, "--no-tty") == 0) {
		o->tty = TTY_NO;
	} else if (strcmp(a, "--no-login-shell") == 0 && cli_has_no_login()) {
		o->no_login = 1;
	} else if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
		o->help = 1;
	} else {
		return 0;
	}
	return 1;
}

/*
 * Whatever is not a known flag begins the command, hyphens or not: the real
 * one takes a flag that it does not know as the program.
 */
static int
parse(struct options *o, int argc, char **argv)
{
	int i, r;

	for (i = 0; i < argc; i++) {
		if (!is_utf8(argv[i])) {
			return cli_usage("invalid UTF-8 was detected in one "
			    "or more arguments", NULL);
		}
	}
	for (i = 0; i < argc && !o->help; i++) {
		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		r = parse_valued(o, argc, argv, &i);
		if (r == 2) {
			return 2;
		}
		if (r == 0 && !parse_plain(o, argv[i]) &&
		    !cli_global(argc, argv, &i)) {
			break;
		}
	}
	o->rq.argv = (const char **)(uintptr_t)(argv + i);
	o->rq.argc = (uint32_t)(argc - i);
	if (o->rq.argc == 0 && !o->help) {
		return cli_usage("the following required arguments were not "
		    "provided:\n  <COMMAND>...", NULL);
	}
	return 0;
}

/* All of stdin, up to one byte more than the limit. */
static int
read_input(struct wire_buf *in)
{
	uint8_t block[65536];

	while (in->len <= REQUEST_STDIN_MAX) {
		ssize_t r = read(0, block, sizeof(block));

		if (r < 0 && errno == EINTR) {
			continue;
		}
		if (r < 0) {
			return cli_error("", strerror(errno));
		}
		if (r == 0) {
			return 0;
		}
		wire_put(in, block, (size_t)r);
	}
	return cli_error("", "stdin payload exceeds 4194304 byte limit; pipe "
	    "smaller inputs or use `sandbox upload`");
}

/* Before stdin is touched: an unknown sandbox is an error at once. */
static int
look_up(int fd, const char *name)
{
	struct wire_buf b = {0};
	enum wire_type t = WIRE_OK;
	int r;

	wire_put_str(&b, name);
	r = wire_send(fd, WIRE_LOOKUP, b.p, b.len);
	if (r == -1 || wire_recv(fd, &t, &b) != 1) {
		r = cli_error("", "transport error");
	} else if (t != WIRE_OK) {
		r = cli_fail(&b);
	}
	wire_free(&b);
	return r;
}

static int
env_flag(const char *name, const char *value)
{
	const char *s = getenv(name);

	return s != NULL && strcmp(s, value) == 0;
}

static void
set_flags(struct options *o)
{
	int in = isatty(0);
	int tty = o->tty == TTY_YES ||
	    (o->tty == TTY_AUTO && in && isatty(1));

	o->rq.flags = tty ? WIRE_F_TTY : 0;
	if (o->tty == TTY_YES && in) {
		o->rq.flags |= WIRE_F_INTERACTIVE;
		cli_size(&o->rq.cols, &o->rq.rows);
	}
	if (o->no_login) {
		o->rq.flags |= WIRE_F_NO_LOGIN;
	}
	if (env_flag("STANDIN_ORPHAN", "stop")) {
		o->rq.flags |= WIRE_F_STOP;
	}
	if (env_flag("STANDIN_BACKGROUND", "at-once")) {
		o->rq.flags |= WIRE_F_AT_ONCE;
	}
	if (env_flag("STANDIN_STALLED", "bounded")) {
		o->rq.flags |= WIRE_F_BOUNDED;
	}
}

static int
run(struct options *o)
{
	struct wire_buf in = {0};
	struct wire_buf b = {0};
	uint32_t i;
	int r;
	int fd;

	for (i = 0; i < o->rq.nenv; i++) {
		const char *bad = request_check_key(o->rq.env[i]);

		if (bad != NULL) {
			return cli_error("", bad);
		}
	}
	fd = cli_connect();
	if (fd == -1 || look_up(fd, o->rq.name) != 0) {
		return 1;
	}
	set_flags(o);
	r = isatty(0) ? 0 : read_input(&in);
	if (r != 0) {
		return r;
	}
	o->rq.input = in.p;
	o->rq.input_len = in.len;
	request_pack(&b, &o->rq);
	(void)wire_send(fd, WIRE_EXEC, b.p, b.len);
	wire_free(&b);
	wire_free(&in);
	r = cli_relay(fd, (o->rq.flags & WIRE_F_INTERACTIVE) != 0);
	cli_save_last(o->rq.name);
	return r;
}

int
cli_exec(int argc, char **argv)
{
	struct options o;
	static char last[64];
	int r;

	memset(&o, 0, sizeof(o));
	o.rq.name = "";
	o.rq.workdir = "";
	o.rq.env = calloc((size_t)argc + 1, sizeof(*o.rq.env));
	if (o.rq.env == NULL) {
		return cli_error("", "out of memory");
	}
	r = parse(&o, argc, argv);
	if (r != 0) {
		return r;
	}
	if (o.help) {
		return cli_print_help(CLI_HELP_EXEC);
	}
	if (o.rq.name[0] == '\0') {
		if (cli_load_last(last, sizeof(last)) == -1) {
			return cli_error("", "No sandbox name provided and "
			    "no last-used sandbox.");
		}
		(void)fprintf(stderr, "\xe2\x86\x92 Using sandbox '%s' "
		    "(last used)\n", last);
		o.rq.name = last;
	}
	return run(&o);
}
