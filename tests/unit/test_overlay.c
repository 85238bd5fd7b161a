/* SPDX-License-Identifier: MIT */
/* test_overlay.c - what a sandbox's settings make of requests. */
#include "overlay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct sandbox *
make(void)
{
	struct sandbox *s = sandbox_new();
	struct error error;

	assert_non_null(s);
	s->name = strdup("smx-x");
	s->workdir = strdup("/w");
	s->user = strdup("app");
	items_text(&s->env, "A=1");
	items_text(&s->hide, "H");
	s->exec_ms = 5000;
	assert_int_equal(limits_add(&s->limits, "nofile=10:20", &error), 0);
	return s;
}

/* The request laid over, decoded; *body is the caller's to free. */
static struct wire
lay(const struct sandbox *s, const struct wire *msg, uint8_t **body)
{
	struct wire out = { 0 };
	struct error error;
	uint32_t len = 0;

	assert_int_equal(overlay_request(s, msg, body, &len, &error), 0);
	assert_non_null(*body);
	assert_int_equal(wire_decode(*body, len, &out), WIRE_OK);
	return out;
}

static void
assert_bytes(struct wire_bytes have, const char *want)
{
	assert_int_equal(have.len, strlen(want));
	assert_memory_equal(have.at, want, have.len);
}

static void
assert_list(struct wire_list list, const char *joined)
{
	struct wire_bytes item;
	char text[512] = "";

	while (wire_next(&list, &item)) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
		    "%.*s|", (int)item.len, (const char *)item.at);
	}
	assert_string_equal(text, joined);
}

static uint64_t
get64(const uint8_t *at)
{
	uint64_t v = 0;
	int i;

	for (i = 0; i < 8; i++) {
		v = v << 8 | at[i];
	}
	return v;
}

static void
assert_limit(struct wire_list list, unsigned number, uint64_t soft,
    uint64_t hard)
{
	struct wire_bytes item;
	unsigned found = 0;

	while (wire_next(&list, &item)) {
		assert_int_equal(item.len, WIRE_LIMIT_BYTES);
		if (item.at[0] == number) {
			found++;
			assert_int_equal(get64(item.at + 1), soft);
			assert_int_equal(get64(item.at + 9), hard);
		}
	}
	assert_int_equal(found, 1);
}

static void
test_exec(void **state)
{
	static const struct {
		const char *cwd, *becomes;
		uint64_t timeout, longest;
		const char *limit;
		uint64_t soft, hard;
	} some[] = {
		{ "", "/w", 0, 5000, NULL, 10, 20 },
		{ "a/b", "/w/a/b", 4999, 4999, "nofile=5", 5, 5 },
		{ "/x", "/x", 5001, 5000, "nofile=11:99", 10, 20 },
		{ "..", "/w/..", 1, 1, "nofile=unlimited", 10, 20 },
	};
	struct sandbox *s = make();
	struct wire msg, out;
	struct items argv = { 0 }, env = { 0 }, unset = { 0 };
	struct items limits;
	struct limits asked;
	struct error error;
	uint8_t *body;
	size_t i;

	(void)state;
	items_text(&argv, "x");
	items_text(&env, "A=2");
	items_text(&unset, "U");
	for (i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		memset(&asked, 0, sizeof(asked));
		limits = (struct items){ 0 };
		assert_int_equal(limits_add(&asked, "core=0", &error), 0);
		if (some[i].limit != NULL) {
			assert_int_equal(limits_add(&asked, some[i].limit,
			    &error), 0);
		}
		limits_items(&asked, &limits);
		msg = (struct wire){ .type = WIRE_EXEC, .u.exec = {
			.cwd = wire_string(some[i].cwd),
			.timeout_ms = some[i].timeout,
			.argv = items_list(&argv), .env = items_list(&env),
			.unset = items_list(&unset),
			.limits = items_list(&limits)
		} };
		out = lay(s, &msg, &body);
		assert_bytes(out.u.exec.cwd, some[i].becomes);
		assert_bytes(out.u.exec.user, "app");
		assert_int_equal(out.u.exec.timeout_ms, some[i].longest);
		/* The last one of a name counts. */
		assert_list(out.u.exec.env, "A=1|A=2|");
		assert_list(out.u.exec.unset, "H|SANDMUX_AGENT_USER|U|");
		assert_list(out.u.exec.argv, "x|");
		assert_limit(out.u.exec.limits, 7, some[i].soft,
		    some[i].hard);
		assert_limit(out.u.exec.limits, 4, 0, 0);
		free(body);
		items_free(&limits);
	}
	msg.u.exec.user = wire_string("0");
	msg.u.exec.limits = (struct wire_list){ 0 };
	out = lay(s, &msg, &body);
	assert_bytes(out.u.exec.user, "0");
	assert_limit(out.u.exec.limits, 7, 10, 20);
	free(body);
	items_free(&argv);
	items_free(&env);
	items_free(&unset);
	sandbox_release(s);
}

static void
test_files(void **state)
{
	struct sandbox *s = make();
	struct wire_bytes path = wire_string("f");
	struct wire msg, out;
	uint8_t *body;

	(void)state;
	msg = (struct wire){ .type = WIRE_PUT, .u.put = { .path = path } };
	out = lay(s, &msg, &body);
	assert_bytes(out.u.put.path, "/w/f");
	assert_bytes(out.u.put.user, "app");
	free(body);
	msg = (struct wire){ .type = WIRE_GET, .u.get = { .path = path,
	    .user = wire_string("me") } };
	out = lay(s, &msg, &body);
	assert_bytes(out.u.get.path, "/w/f");
	assert_bytes(out.u.get.user, "me");
	free(body);
	msg = (struct wire){ .type = WIRE_FS, .u.fs = { .op = WIRE_FS_RENAME,
	    .path = path, .second = wire_string("g") } };
	out = lay(s, &msg, &body);
	assert_bytes(out.u.fs.path, "/w/f");
	assert_bytes(out.u.fs.second, "/w/g");
	free(body);
	/* What a link says and whose a file is are no paths of ours. */
	msg.u.fs.op = WIRE_FS_SYMLINK;
	out = lay(s, &msg, &body);
	assert_bytes(out.u.fs.second, "g");
	free(body);
	msg.u.fs.op = WIRE_FS_CHOWN;
	out = lay(s, &msg, &body);
	assert_bytes(out.u.fs.second, "g");
	free(body);
	msg = (struct wire){ .type = WIRE_TREE_PUT, .u.tree_put = {
	    .path = path } };
	out = lay(s, &msg, &body);
	assert_bytes(out.u.tree_put.path, "/w/f");
	assert_bytes(out.u.tree_put.user, "app");
	free(body);
	msg = (struct wire){ .type = WIRE_TREE_GET, .u.tree_get = {
	    .path = wire_string("/abs") } };
	out = lay(s, &msg, &body);
	assert_bytes(out.u.tree_get.path, "/abs");
	free(body);
	sandbox_release(s);
}

static void
test_others(void **state)
{
	static const uint8_t kinds[] = { WIRE_JOBS, WIRE_KILL, WIRE_ATTACH,
	    WIRE_PROBE, WIRE_ECHO, WIRE_STATUS, WIRE_STOP, WIRE_LINKINFO };
	struct sandbox *s = make();
	struct error error;
	uint8_t *body;
	uint32_t len;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(kinds); i++) {
		const struct wire msg = { .type = kinds[i] };

		assert_int_equal(overlay_request(s, &msg, &body, &len,
		    &error), 0);
		assert_null(body);
	}
	sandbox_release(s);
}

/* What does not fit any more is an error, not something cut. */
static void
test_too_long(void **state)
{
	static char path[WIRE_PATH_MAX];
	struct sandbox *s = make();
	struct wire msg = { .type = WIRE_GET };
	struct error error;
	uint8_t *body;
	uint32_t len;

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	msg.u.get.path = wire_string(path);
	assert_int_equal(overlay_request(s, &msg, &body, &len, &error), -1);
	assert_null(body);
	assert_int_equal(error.step, WIRE_STEP_USAGE);
	path[WIRE_PATH_MAX - 3] = '\0';
	msg.u.get.path = wire_string(path);
	assert_int_equal(overlay_request(s, &msg, &body, &len, &error), 0);
	free(body);
	sandbox_release(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
