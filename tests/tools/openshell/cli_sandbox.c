/* SPDX-License-Identifier: MIT */
/* cli_sandbox.c - `openshell sandbox create`, `delete`, `list` and `get`. */
#include "cli.h"

#include "docker.h"
#include "policy.h"
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMUNITY "ghcr.io/nvidia/openshell-community/sandboxes/"

/* The real one colours its tables even into a pipe. */
#define BOLD "\033[1m"
#define GREEN "\033[32m"
#define PLAIN "\033[0m"
#define DEFAULT_COLOUR "\033[39m"

struct row {
	const char *name;
	const char *id;
	const char *image;
	const char *created;
	const char *phase;
	const char *labels;	/* "K=V\n" each */
};

struct create_options {
	struct docker_create cr;
	const char *policy;
	char labels[1024];	/* "K=V\n" each */
	int json;
	int help;
};

static int
cli_unexpected(const char *arg)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "unexpected argument '%.200s' "
	    "found", arg);
	return cli_usage(text, NULL);
}

static int
parse_output(const char *v, int *json)
{
	*json = strcmp(v, "json") == 0;
	if (!*json && strcmp(v, "table") != 0) {
		return cli_usage("invalid value for '--output':", v);
	}
	return 0;
}

/* As the real gateway has it: letters, digits, inside also - _ . */
static int
good_value(const char *v)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t n = strlen(v);

	return n <= 63 && (n == 0 || (strchr(ends, v[0]) != NULL &&
	    strchr(ends, v[n - 1]) != NULL)) &&
	    strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "0123456789-_.") == n;
}

static int
add_label(struct create_options *o, const char *v)
{
	size_t used = strlen(o->labels);

	if (strchr(v, '=') != NULL && !good_value(strchr(v, '=') + 1)) {
		(void)cli_error("InvalidArgument", "label value contains "
		    "invalid characters (must be alphanumeric, '-', '_', or "
		    "'.')");
		return 2;
	}
	if (strchr(v, '=') == NULL || strchr(v, '\n') != NULL ||
	    used + strlen(v) + 2 > sizeof(o->labels)) {
		(void)cli_error("", "invalid label format, expected "
		    "key=value");
		return 2;
	}
	(void)snprintf(o->labels + used, sizeof(o->labels) - used, "%s\n", v);
	return 0;
}

/* 0 taken, 1 not known, 2 a usage error was printed. */
static int
create_flag(struct create_options *o, int argc, char **argv, int *i)
{
	static const char *const names[][2] = {
		{ "--name", "" }, { "--from", "" }, { "--policy", "" },
		{ "--env", "" }, { "--output", "-o" }, { "--label", "" },
		{ "--provider", "" }, { "--cpu", "" }, { "--memory", "" },
		{ "--approval-mode", "" },
	};
	static const char *const plain[] = {
		"--tty", "--no-tty", "--keep", "--auto-providers",
		"--no-auto-providers", "--no-credential-warnings",
	};
	const char *flag = argv[*i];
	const char *v = NULL;
	size_t k;
	int r = 0;

	for (k = 0; k < sizeof(plain) / sizeof(plain[0]); k++) {
		if (strcmp(flag, plain[k]) == 0) {
			return 0;
		}
	}
	for (k = 0; k < sizeof(names) / sizeof(names[0]) && r == 0; k++) {
		r = cli_option(argc, argv, i, names[k], &v);
	}
	if (r == 0) {
		return 1;
	}
	if (r == -1) {
		return cli_usage("a value is required for", flag);
	}
	switch (k - 1) {
	case 0:
		o->cr.name = v;
		break;
	case 1:
		o->cr.image = v;
		break;
	case 2:
		o->policy = v;
		break;
	case 3:
		o->cr.env[o->cr.nenv++] = v;
		break;
	case 4:
		return parse_output(v, &o->json);
	case 5:
		return add_label(o, v);
	default:
		break;
	}
	return 0;
}

static int
create_parse(struct create_options *o, int argc, char **argv)
{
	int i, r;

	for (i = 0; i < argc && !o->help; i++) {
		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		if (strcmp(argv[i], "--help") == 0 ||
		    strcmp(argv[i], "-h") == 0) {
			o->help = 1;
			continue;
		}
		if (strcmp(argv[i], "--detach") == 0 && cli_has_detach()) {
			continue;
		}
		r = create_flag(o, argc, argv, &i);
		if (r == 2) {
			return 2;
		}
		if (r == 1 && !cli_global(argc, argv, &i)) {
			return cli_unexpected(argv[i]);
		}
	}
	o->cr.argv = (const char **)(uintptr_t)(argv + i);
	o->cr.argc = (uint32_t)(argc - i);
	return 0;
}

/* A bare word is a community image of the real one's registry. */
static const char *
resolve_image(const char *from)
{
	static char full[512];
	const char *standard = getenv("STANDIN_IMAGE");

	if (from == NULL) {
		return standard != NULL ? standard : "osbox:1";
	}
	if (strpbrk(from, "/:.") != NULL) {
		return from;
	}
	(void)snprintf(full, sizeof(full), COMMUNITY "%s:latest", from);
	return full;
}

static const char *
format_time(const char *seconds)
{
	static char text[32];
	time_t t = (time_t)atoll(seconds);
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	return text;
}

static void
print_labels(const char *labels)
{
	const char *sep = "";
	size_t key, value;

	for (; *labels != '\0'; labels += value + 1, sep = ", ") {
		key = strcspn(labels, "=");
		(void)printf("%s\"%.*s\": ", sep, (int)key, labels);
		labels += key + 1;
		value = strcspn(labels, "\n");
		(void)printf("\"%.*s\"", (int)value, labels);
	}
}

static void
print_json(const struct row *r, const char *indent, const char *tail)
{
	(void)printf("%s{\n%s  \"annotations\": {},\n"
	    "%s  \"created_at\": \"%s\",\n"
	    "%s  \"current_policy_version\": 1,\n"
	    "%s  \"id\": \"%s\",\n%s  \"labels\": {", indent, indent,
	    indent, format_time(r->created), indent, indent, r->id, indent);
	print_labels(r->labels);
	(void)printf("},\n"
	    "%s  \"name\": \"%s\",\n%s  \"phase\": \"%s\",\n"
	    "%s  \"resource_version\": 1,\n"
	    "%s  \"workspace\": \"default\"\n%s}%s\n", indent,
	    r->name, indent, r->phase, indent, indent, indent, tail);
}

static int
next_row(struct wire_cur *c, struct row *r)
{
	if (c->left == 0) {
		return 0;
	}
	r->name = wire_get_str(c);
	r->id = wire_get_str(c);
	r->image = wire_get_str(c);
	r->created = wire_get_str(c);
	r->phase = wire_get_str(c);
	r->labels = wire_get_str(c);
	return c->err == 0;
}

/* One row by name; b keeps the bytes.  0, or the exit status. */
static int
fetch(const char *name, struct wire_buf *b, struct row *row)
{
	struct wire_cur c;
	int r;

	b->len = 0;
	wire_put_str(b, name);
	r = cli_ask(WIRE_LIST, b);
	if (r != 0) {
		return r;
	}
	c.p = b->p;
	c.left = b->len;
	c.err = 0;
	if (*name == '\0' || !next_row(&c, row)) {
		return cli_error("NotFound", "sandbox not found");
	}
	return 0;
}

/* In versions without --detach a sandbox outlives its main command. */
static void
outlive(struct create_options *o)
{
	static const char *const head[] = {
		"/bin/bash", "-c", "\"$@\" </dev/null; exec sleep infinity",
		"bash"
	};
	const size_t n = sizeof(head) / sizeof(head[0]);
	const char **argv = calloc(n + o->cr.argc + 1, sizeof(*argv));

	if (argv != NULL) {
		memcpy(argv, head, sizeof(head));
		memcpy(argv + n, o->cr.argv, o->cr.argc * sizeof(*argv));
		o->cr.argv = argv;
		o->cr.argc += (uint32_t)n;
	}
}

static int
create_run(struct create_options *o)
{
	static const char *const shell[] = { "/bin/bash", "-l" };
	struct wire_buf b = {0};
	char name[64];
	struct wire_cur c;
	struct row row;
	int r;

	if (o->cr.argc == 0) {
		o->cr.argv = (const char **)(uintptr_t)shell;
		o->cr.argc = 2;
	}
	if (!cli_has_detach()) {
		outlive(o);
	}
	o->cr.image = resolve_image(o->cr.image);
	o->cr.labels = o->labels;
	docker_pack(&b, &o->cr);
	r = cli_ask(WIRE_CREATE, &b);
	if (r != 0) {
		return r;
	}
	c.p = b.p;
	c.left = b.len;
	c.err = 0;
	(void)snprintf(name, sizeof(name), "%s", wire_get_str(&c));
	cli_save_last(name);
	if (!o->json) {
		(void)printf("\n\033[36m" BOLD "Created sandbox:" PLAIN " "
		    BOLD "%s" PLAIN "\n\n  [0.0s] Requesting compute...\n"
		    "  Sandbox is ready\n", name);
	} else if ((r = fetch(name, &b, &row)) == 0) {
		print_json(&row, "", "");
	}
	wire_free(&b);
	return r;
}

/* Its text stays as long as the program. */
static char policy_text[POLICY_MAX];

static int
read_policy(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t n;

	if (file == NULL) {
		return -1;
	}
	n = fread(policy_text, 1, sizeof(policy_text) - 1, file);
	policy_text[n] = '\0';
	n = ferror(file) != 0 || strlen(policy_text) != n;
	(void)fclose(file);
	return n != 0 ? -1 : 0;
}

int
cli_create(int argc, char **argv)
{
	struct create_options o;
	uint32_t i;
	int r;

	memset(&o, 0, sizeof(o));
	o.cr.name = "";
	o.cr.env = calloc((size_t)argc + 1, sizeof(*o.cr.env));
	if (o.cr.env == NULL) {
		return cli_error("", "out of memory");
	}
	r = create_parse(&o, argc, argv);
	if (r != 0) {
		return r;
	}
	if (o.help) {
		return cli_print_help(CLI_HELP_CREATE);
	}
	for (i = 0; i < o.cr.nenv; i++) {
		const char *bad = request_check_key(o.cr.env[i]);

		if (bad != NULL) {
			return cli_error("", bad);
		}
	}
	if (o.policy != NULL && read_policy(o.policy) == -1) {
		return cli_error("", "failed to read sandbox policy");
	}
	o.cr.policy = policy_text;
	return create_run(&o);
}

static int
delete_one(const char *name)
{
	struct wire_buf b = {0};
	int r;

	wire_put_str(&b, name);
	r = cli_ask(WIRE_DELETE, &b);
	wire_free(&b);
	if (r == 0) {
		(void)printf(GREEN BOLD "\xe2\x9c\x93" PLAIN
		    " Deleted sandbox %s\n", name);
	}
	return r;
}

static int
delete_all(void)
{
	struct wire_buf b = {0};
	struct wire_cur c;
	struct row row;
	int n = 0;
	int r;

	wire_put_str(&b, "");
	r = cli_ask(WIRE_LIST, &b);
	c.p = b.p;
	c.left = b.len;
	c.err = 0;
	while (r == 0 && next_row(&c, &row)) {
		r = delete_one(row.name);
		n++;
	}
	if (r == 0 && n == 0) {
		(void)puts("No sandboxes to delete.");
	}
	wire_free(&b);
	return r;
}

int
cli_delete(int argc, char **argv)
{
	int i, r;

	if (argc < 1) {
		return cli_usage("the following required arguments were not "
		    "provided:\n  <NAME>...", NULL);
	}
	for (i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			return cli_print_help(CLI_HELP_LEAF);
		}
		if (strcmp(argv[i], "--all") == 0) {
			return delete_all();
		}
		if (argv[i][0] == '-') {
			return cli_unexpected(argv[i]);
		}
	}
	for (i = 0, r = 0; i < argc && r == 0; i++) {
		r = delete_one(argv[i]);
	}
	return r;
}

/* n: names, i: ids, j: json, t: table. */
static int
list_mode(int argc, char **argv, int *mode)
{
	static const char *const output[2] = { "--output", "-o" };
	const char *v;
	int i, json, r;

	*mode = 't';
	for (i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--names") == 0) {
			*mode = 'n';
		} else if (strcmp(argv[i], "--ids") == 0) {
			*mode = 'i';
		} else if ((r = cli_option(argc, argv, &i, output, &v)) == 1) {
			r = parse_output(v, &json);
			if (r != 0) {
				return r;
			}
			*mode = json ? 'j' : 't';
		} else if (!cli_global(argc, argv, &i)) {
			return cli_unexpected(argv[i]);
		}
	}
	return 0;
}

static void
print_row(const struct row *r, int mode, int more)
{
	const char *colour = strcmp(r->phase, "Ready") == 0 ? GREEN :
	    "\033[31m";

	if (mode == 'n') {
		(void)puts(r->name);
	} else if (mode == 'i') {
		(void)puts(r->id);
	} else if (mode == 'j') {
		print_json(r, "  ", more ? "," : "");
	} else {
		(void)printf("%-19s  %-19s  %s%s" DEFAULT_COLOUR "\n",
		    r->name, format_time(r->created), colour, r->phase);
	}
}

int
cli_list(int argc, char **argv)
{
	struct wire_buf b = {0};
	struct wire_cur c;
	struct row row;
	int mode, r;

	if (argc > 0 && strcmp(argv[0], "--help") == 0) {
		return cli_print_help(CLI_HELP_LEAF);
	}
	r = list_mode(argc, argv, &mode);
	if (r != 0) {
		return r;
	}
	wire_put_str(&b, "");
	r = cli_ask(WIRE_LIST, &b);
	if (r != 0) {
		return r;
	}
	c.p = b.p;
	c.left = b.len;
	c.err = 0;
	if (mode == 'j') {
		(void)puts("[");
	} else if (mode == 't' && c.left == 0) {
		(void)puts("No sandboxes found.");
	} else if (mode == 't') {
		(void)printf(BOLD "%-19s" PLAIN "  " BOLD "%-19s" PLAIN "  "
		    BOLD "%s" PLAIN "\n", "NAME", "CREATED", "PHASE");
	}
	while (next_row(&c, &row)) {
		print_row(&row, mode, c.left > 0);
	}
	if (mode == 'j') {
		(void)puts("]");
	}
	wire_free(&b);
	return 0;
}

int
cli_get(int argc, char **argv)
{
	static const char *const output[2] = { "--output", "-o" };
	const char *name = NULL;
	const char *v;
	struct wire_buf b = {0};
	struct row row;
	char last[64];
	int json = 0;
	int i, r;

	for (i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			return cli_print_help(CLI_HELP_LEAF);
		}
		if (cli_option(argc, argv, &i, output, &v) == 1) {
			r = parse_output(v, &json);
			if (r != 0) {
				return r;
			}
		} else if (argv[i][0] == '-' || name != NULL) {
			return cli_unexpected(argv[i]);
		} else {
			name = argv[i];
		}
	}
	if (name == NULL && cli_load_last(last, sizeof(last)) == 0) {
		name = last;
	}
	r = fetch(name != NULL ? name : "", &b, &row);
	if (r == 0 && json) {
		print_json(&row, "", "");
	} else if (r == 0) {
		(void)printf(BOLD "Sandbox:" PLAIN "\n\n  Id: %s\n  Name: %s\n"
		    "  Phase: %s\n", row.id, row.name, row.phase);
	}
	wire_free(&b);
	return r;
}
