/* SPDX-License-Identifier: MIT */
/* request.c - packing, limits and the shell string of an exec. */
#include "request.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_ENV_MAX 4096
#define REQUEST_UNPACK_MAX (1024 * 1024)

void
request_pack(struct wire_buf *b, const struct request *rq)
{
	uint32_t i;

	wire_put_str(b, rq->name);
	wire_put_u32(b, rq->flags);
	wire_put_u32(b, rq->cols);
	wire_put_u32(b, rq->rows);
	wire_put_u32(b, rq->timeout);
	wire_put_str(b, rq->workdir);
	wire_put_u32(b, rq->nenv);
	for (i = 0; i < rq->nenv; i++) {
		wire_put_str(b, rq->env[i]);
	}
	wire_put_u32(b, rq->argc);
	for (i = 0; i < rq->argc; i++) {
		wire_put_str(b, rq->argv[i]);
	}
	wire_put_bytes(b, rq->input, rq->input_len);
}

static const char **
unpack_list(struct wire_cur *c, uint32_t *n)
{
	const char **list;
	uint32_t i;

	*n = wire_get_u32(c);
	if (c->err != 0 || *n > REQUEST_UNPACK_MAX) {
		c->err = 1;
		*n = 0;
		return NULL;
	}
	list = calloc((size_t)*n + 1, sizeof(*list));
	if (list == NULL) {
		c->err = 1;
		*n = 0;
		return NULL;
	}
	for (i = 0; i < *n; i++) {
		list[i] = wire_get_str(c);
	}
	return list;
}

int
request_unpack(struct request *rq, const uint8_t *p, size_t n)
{
	struct wire_cur c = { p, n, 0 };

	memset(rq, 0, sizeof(*rq));
	rq->name = wire_get_str(&c);
	rq->flags = wire_get_u32(&c);
	rq->cols = wire_get_u32(&c);
	rq->rows = wire_get_u32(&c);
	rq->timeout = wire_get_u32(&c);
	rq->workdir = wire_get_str(&c);
	rq->env = unpack_list(&c, &rq->nenv);
	rq->argv = unpack_list(&c, &rq->argc);
	rq->input = wire_get_bytes(&c, &rq->input_len);
	if (c.err != 0) {
		request_free(rq);
		return -1;
	}
	return 0;
}

void
request_free(struct request *rq)
{
	free(rq->env);
	free(rq->argv);
	memset(rq, 0, sizeof(*rq));
}

static size_t
varint(size_t v)
{
	size_t n = 1;

	while (v >= 128) {
		v >>= 7;
		n++;
	}
	return n;
}

static size_t
field(size_t len)
{
	return 1 + varint(len) + len;
}

size_t
request_size(const struct request *rq)
{
	size_t n = field(36);	/* the sandbox id */
	uint32_t i;

	for (i = 0; i < rq->argc; i++) {
		n += field(strlen(rq->argv[i]));
	}
	for (i = 0; i < rq->nenv; i++) {
		const char *eq = strchr(rq->env[i], '=');
		size_t key = (size_t)(eq - rq->env[i]);

		n += field(field(key) + field(strlen(eq + 1)));
	}
	if (rq->workdir[0] != '\0') {
		n += field(strlen(rq->workdir));
	}
	if (rq->input_len > 0) {
		n += field(rq->input_len);
	}
	if (rq->timeout > 0) {
		n += 1 + varint(rq->timeout);
	}
	n += (rq->flags & WIRE_F_TTY) != 0 ? 2 : 0;
	return n;
}

const char *
request_check_key(const char *pair)
{
	static char why[256];
	const char *eq = strchr(pair, '=');
	const char *p;

	if (eq == NULL) {
		(void)snprintf(why, sizeof(why),
		    "--env must be in KEY=VALUE form; got '%.100s'", pair);
		return why;
	}
	for (p = pair; p < eq; p++) {
		if (!isalnum((unsigned char)*p) && *p != '_') {
			break;
		}
	}
	if (p != eq || eq == pair || isdigit((unsigned char)*pair)) {
		(void)snprintf(why, sizeof(why),
		    "--env key must match [A-Za-z_][A-Za-z0-9_]*; "
		    "got '%.*s'", (int)(eq - pair > 100 ? 100 : eq - pair),
		    pair);
		return why;
	}
	if (strncmp(pair, "OPENSHELL_", 10) == 0) {
		(void)snprintf(why, sizeof(why),
		    "--env keys starting with OPENSHELL_ are reserved; "
		    "got '%.*s'", (int)(eq - pair > 100 ? 100 : eq - pair),
		    pair);
		return why;
	}
	return NULL;
}

static const char *
check_env(const char *pair)
{
	static char why[256];
	const char *eq = strchr(pair, '=');
	const char *bad = request_check_key(pair);

	if (bad != NULL) {
		return bad;
	}
	if (strlen(eq + 1) > REQUEST_ARG_MAX) {
		bad = "exceeds 32768 byte limit";
	} else if (strpbrk(eq, "\r\n") != NULL) {
		bad = "contains newline or carriage return characters";
	}
	if (bad == NULL) {
		return NULL;
	}
	(void)snprintf(why, sizeof(why), "environment value for '%.*s' %s",
	    (int)(eq - pair > 100 ? 100 : eq - pair), pair, bad);
	return why;
}

const char *
request_check(const struct request *rq)
{
	static char why[256];
	const char *bad;
	uint32_t i;

	if (rq->argc == 0) {
		return "command is required";
	}
	if (rq->argc > REQUEST_ARGS) {
		return "command array exceeds 1024 argument limit";
	}
	for (i = 0; i < rq->argc; i++) {
		if (strlen(rq->argv[i]) > REQUEST_ARG_MAX) {
			(void)snprintf(why, sizeof(why), "command argument "
			    "%u exceeds %d byte limit", i, REQUEST_ARG_MAX);
			return why;
		}
	}
	if (rq->nenv > REQUEST_ENV_MAX) {
		return "environment has too many entries";
	}
	for (i = 0; i < rq->nenv; i++) {
		bad = check_env(rq->env[i]);
		if (bad != NULL) {
			return bad;
		}
	}
	if (strlen(rq->workdir) > REQUEST_WORKDIR_MAX) {
		return "workdir exceeds 4096 byte limit";
	}
	if (strpbrk(rq->workdir, "\r\n") != NULL) {
		return "workdir contains newline or carriage return "
		    "characters";
	}
	return NULL;
}

static void
put_text(struct wire_buf *b, const char *s)
{
	wire_put(b, s, strlen(s));
}

static void
put_escaped(struct wire_buf *b, const char *s)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./-_";

	if (*s != '\0' && s[strspn(s, safe)] == '\0') {
		put_text(b, s);
		return;
	}
	put_text(b, "'");
	for (; *s != '\0'; s++) {
		if (*s == '\'') {
			put_text(b, "'\"'\"'");
		} else {
			wire_put(b, s, 1);
		}
	}
	put_text(b, "'");
}

static int
by_key(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int
request_command(struct wire_buf *b, const struct request *rq)
{
	uint32_t i;

	if (rq->workdir[0] != '\0') {
		put_text(b, "cd ");
		put_escaped(b, rq->workdir);
		put_text(b, " && ");
	}
	qsort(rq->env, rq->nenv, sizeof(*rq->env), by_key);
	for (i = 0; i < rq->nenv; i++) {
		const char *eq = strchr(rq->env[i], '=');

		wire_put(b, rq->env[i], (size_t)(eq - rq->env[i]) + 1);
		put_escaped(b, eq + 1);
		put_text(b, " ");
	}
	for (i = 0; i < rq->argc; i++) {
		if (i > 0) {
			put_text(b, " ");
		}
		put_escaped(b, rq->argv[i]);
	}
	return b->len <= REQUEST_COMMAND_MAX ? 0 : -1;
}
