/* SPDX-License-Identifier: MIT */
/* test_config.c - configurations: what keys mean, and every error's text. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char base[] = "/tmp/test-config-XXXXXX";

static void
make_file(const char *name)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", base, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

static int
set_up(void **state)
{
	char path[128];

	(void)state;
	assert_non_null(mkdtemp(base));
	snprintf(path, sizeof(path), "%s/img", base);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/empty", base);
	assert_int_equal(mkdir(path, 0700), 0);
	make_file("img/Dockerfile");
	make_file("policy.yaml");
	setenv("FROM_HERE", "here", 1);
	unsetenv("NOT_HERE");
	return 0;
}

static int
tear_down(void **state)
{
	char command[160];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", base);
	return system(command);
}

static int
parse(struct config *config, enum config_kind kind, const char *text,
    struct error *error)
{
	return config_parse(config, kind, "f.yaml", base, text, strlen(text),
	    error);
}

/* The sandbox of a text that must be good. */
static struct sandbox *
one(struct config *config, enum config_kind kind, const char *text)
{
	struct error error = { .text = "" };

	if (parse(config, kind, text, &error) != 0) {
		fail_msg("%s: %s", text, error.text);
	}
	assert_int_equal(config->count, 1);
	return config->sandboxes[0];
}

static void
assert_items(const struct items *items, const char *joined)
{
	struct wire_list list = items_list(items);
	struct wire_bytes item;
	char text[1024] = "";

	while (wire_next(&list, &item)) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
		    "%.*s|", (int)item.len, (const char *)item.at);
	}
	assert_string_equal(text, joined);
}

static void
test_defaults(void **state)
{
	static const char *const nothing[] = {
		"", "\n", "# only this\n", "---\n", "{}", "null", "~",
		"policy:\nimage: null\nenv: ~\n"
	};
	struct config config;
	struct sandbox *s;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
		s = one(&config, CONFIG_SANDMUX, nothing[i]);
		assert_string_equal(s->key, "default");
		assert_string_equal(s->transport, "openshell");
		assert_string_equal(s->image, "python:3.12-slim");
		assert_string_equal(s->workdir, "/sandbox");
		assert_null(s->policy);
		assert_null(s->build);
		assert_null(s->user);
		assert_false(s->has_command);
		assert_items(&s->hide, "OPENSHELL_SANDBOX|");
		assert_items(&s->env, "");
		assert_int_equal(s->create_ms, 600000);
		assert_int_equal(s->build_ms, 1800000);
		assert_int_equal(s->delete_ms, 300000);
		assert_int_equal(s->exec_ms, 0);
		config_free(&config);
	}
}

static void
test_openshell(void **state)
{
	char want[128];
	struct config config;
	struct sandbox *s = one(&config, CONFIG_OPENSHELL,
	    "image: spec:python\nbuild: img\nworkdir: /space\n"
	    "policy: policy.yaml\ncreate_args: [--label, a=b]\n"
	    "exec_args:\n- --no-login-shell\n- --env\n- A=1 2\n"
	    "- --env=B=\n- --env\n- FROM_HERE\n- --env\n- NOT_HERE\n"
	    "hide_env: []\n");

	(void)state;
	assert_string_equal(s->image, "spec:python");
	snprintf(want, sizeof(want), "%s/img", base);
	assert_string_equal(s->build, want);
	snprintf(want, sizeof(want), "%s/policy.yaml", base);
	assert_string_equal(s->policy, want);
	assert_string_equal(s->base, base);
	assert_string_equal(s->workdir, "/space");
	assert_items(&s->create_args, "--label|a=b|");
	assert_items(&s->exec_args, "--no-login-shell|");
	assert_items(&s->env, "A=1 2|B=|FROM_HERE=here|");
	assert_items(&s->hide, "");
	config_free(&config);
	/* A command as users of newer versions had to write it. */
	s = one(&config, CONFIG_OPENSHELL, "create_args: [--detach, '--', "
	    "sleep, '9', --name]");
	assert_items(&s->create_args, "--detach|");
	assert_true(s->has_command);
	assert_items(&s->command, "sleep|9|--name|");
	config_free(&config);
}

static void
test_all_keys(void **state)
{
	struct config config;
	struct sandbox *s = one(&config, CONFIG_SANDMUX,
	    "transport: docker\nimage: &i x:1\nuser: 1000\nworkdir: /w\n"
	    "agent_name: helper\nagent: inject\ncommand: [serve, 80, *i]\n"
	    "agent_user: image\n"
	    "env:\n  A: 1\n  B: 'two words'\n  C: ''\n  FROM_HERE:\n"
	    "  NOT_HERE: null\n"
	    "exec_args: [--env, A=0, --privileged]\n"
	    "limits: {nofile: '64:128', nproc: 50, core: unlimited}\n"
	    "timeouts: {exec: 1.5s, create: 2m, delete: 30, build: 1h}\n");

	(void)state;
	assert_string_equal(s->transport, "docker");
	assert_string_equal(s->user, "1000");
	assert_string_equal(s->agent_name, "helper");
	assert_string_equal(s->agent_user, "image");
	assert_int_equal(s->agent_mode, SANDBOX_AGENT_INJECT);
	assert_items(&s->command, "serve|80|x:1|");
	/* exec_args' come first, so that env's count. */
	assert_items(&s->env, "A=0|A=1|B=two words|C=|FROM_HERE=here|");
	assert_items(&s->exec_args, "--privileged|");
	assert_int_equal(s->limits.of[7].soft, 64);
	assert_int_equal(s->limits.of[7].hard, 128);
	assert_int_equal(s->limits.of[6].hard, 50);
	assert_int_equal(s->limits.of[4].hard, UINT64_MAX);
	assert_int_equal(s->exec_ms, 1500);
	assert_int_equal(s->create_ms, 120000);
	assert_int_equal(s->delete_ms, 30000);
	assert_int_equal(s->build_ms, 3600000);
	config_free(&config);
	s = one(&config, CONFIG_SANDMUX, "agent: /opt/x\ntransport: docker");
	assert_string_equal(s->agent, "/opt/x");
	assert_int_equal(s->agent_mode, SANDBOX_AGENT_NEVER);
	assert_null(s->workdir);
	config_free(&config);
	s = one(&config, CONFIG_SANDMUX, "{\"transport\":\"local\","
	    "\"workdir\":\"a/b\",\"env\":[\"X=\\u00e9\\n\"]}");
	assert_string_equal(s->workdir, "a/b");
	assert_null(s->image);
	assert_items(&s->env, "X=\xc3\xa9\n|");
	config_free(&config);
	s = one(&config, CONFIG_SANDMUX, "build: img");
	assert_int_equal(strncmp(s->image, "smx-build-", 10), 0);
	config_free(&config);
}

/* Keys at the top count for each; env and limits are joined. */
static void
test_several(void **state)
{
	struct config config;
	struct error error;

	(void)state;
	assert_int_equal(parse(&config, CONFIG_SANDMUX,
	    "transport: docker\nimage: x\nenv: {A: 1, B: 2}\n"
	    "limits: {nproc: 5, core: 0}\nhide_env: [X]\n"
	    "sandboxes:\n  web:\n    image: y\n    env: {B: 3, C: 4}\n"
	    "    limits: {nproc: 6}\n    hide_env: [Y]\n"
	    "  default:\n  third: {transport: local, image: null, "
	    "workdir: w}\n", &error), -1);
	assert_non_null(strstr(error.text, "f.yaml:2:8: image means nothing "
	    "with transport local"));
	config_free(&config);
	assert_int_equal(parse(&config, CONFIG_SANDMUX,
	    "transport: docker\nimage: x\nenv: {A: 1, B: 2}\n"
	    "limits: {nproc: 5, core: 0}\nhide_env: [X]\n"
	    "sandboxes:\n  web:\n    image: y\n    env: {B: 3, C: 4}\n"
	    "    limits: {nproc: 6}\n    hide_env: [Y]\n"
	    "  default:\n", &error), 0);
	assert_int_equal(config.count, 2);
	assert_string_equal(config.sandboxes[0]->key, "web");
	assert_string_equal(config.sandboxes[0]->image, "y");
	assert_items(&config.sandboxes[0]->env, "A=1|B=2|B=3|C=4|");
	assert_items(&config.sandboxes[0]->hide, "Y|");
	assert_int_equal(config.sandboxes[0]->limits.of[6].hard, 6);
	assert_true(config.sandboxes[0]->limits.of[4].given);
	assert_string_equal(config.sandboxes[1]->key, "default");
	assert_string_equal(config.sandboxes[1]->image, "x");
	assert_items(&config.sandboxes[1]->env, "A=1|B=2|");
	config_free(&config);
}

/* What a record holds comes back as it was. */
static void
test_record(void **state)
{
	struct config config, again;
	struct json json = { 0 }, twice = { 0 };
	struct sandbox *s = one(&config, CONFIG_SANDMUX,
	    "transport: docker\nimage: 'x\"\\y:1'\nuser: a:b\n"
	    "env: {A: \"\\a\\e[2J\\u2028 \\\" \\\\ \\x85\", B: '\xc3\xa9'}\n"
	    "exec_args: [--x, 'a b']\nagent: /opt/y\nhide_env: [P, Q]\n"
	    "agent_user: root\n"
	    "limits: {nofile: 1:2, core: unlimited}\n"
	    "timeouts: {exec: 3}\nworkdir: '/w w'\n");
	struct sandbox *t;
	struct error error;

	(void)state;
	s->name = strdup("smx-x");
	s->container = strdup("abc");
	s->directory = strdup("/tmp/d");
	s->created = 1234567890123;
	s->state = SANDBOX_REMOVING;
	items_text(&s->select, "DOCKER_HOST=unix:///x");
	config_write(&json, s);
	assert_non_null(json_text(&json));
	assert_int_equal(config_parse(&again, CONFIG_RECORD, "r", "/",
	    json_text(&json), json.len, &error), 0);
	t = again.sandboxes[0];
	assert_string_equal(t->image, s->image);
	assert_string_equal(t->name, "smx-x");
	assert_int_equal(t->state, SANDBOX_REMOVING);
	assert_int_equal(t->created, 1234567890123);
	assert_int_equal(t->exec_ms, 3000);
	assert_int_equal(t->limits.of[7].hard, 2);
	assert_items(&t->env, "A=\a\033[2J\xe2\x80\xa8 \" \\ \xc2\x85|"
	    "B=\xc3\xa9|");
	assert_items(&t->select, "DOCKER_HOST=unix:///x|");
	config_write(&twice, t);
	assert_string_equal(json_text(&twice), json_text(&json));
	json_free(&json);
	json_free(&twice);
	config_free(&config);
	config_free(&again);
}

/* ---- errors ----------------------------------------------------------- */

static const struct {
	enum config_kind kind;
	const char *text, *error;
} bad[] = {
	/* keys */
	{ CONFIG_SANDMUX, "imag: x",
	    "f.yaml:1:1: unknown key \"imag\"; did you mean image?" },
	{ CONFIG_SANDMUX, "image: x\ncreate-args: []",
	    "f.yaml:2:1: unknown key \"create-args\"; did you mean "
	    "create_args?" },
	{ CONFIG_SANDMUX, "Image: x",
	    "f.yaml:1:1: unknown key \"Image\"; did you mean image?" },
	{ CONFIG_SANDMUX, "services: {}",
	    "f.yaml:1:1: unknown key \"services\"; there are image, build, "
	    "workdir, policy, create_args, exec_args, hide_env, transport, "
	    "agent, agent_name, agent_user, env, user, limits, timeouts, command, "
	    "sandboxes" },
	{ CONFIG_OPENSHELL, "hide-env: [A]",
	    "f.yaml:1:1: unknown key \"hide-env\"; did you mean hide_env?" },
	{ CONFIG_OPENSHELL, "transport: docker",
	    "f.yaml:1:1: openshell.yaml has no key \"transport\"; name the "
	    "file sandmux.yaml to use it" },
	{ CONFIG_SANDMUX, "container: x",
	    "f.yaml:1:1: unknown key \"container\"; there are " },
	{ CONFIG_SANDMUX, "sandboxes: {a: {sandboxes: {}}}",
	    "f.yaml:1:17: unknown key \"sandboxes\"; there are " },
	{ CONFIG_SANDMUX, "a: &a {image: x}\nsandboxes: {b: {<<: *a}}",
	    "f.yaml:1:1: unknown key \"a\"; there are " },
	{ CONFIG_SANDMUX, "sandboxes: {b: {<<: {image: x}}}",
	    "f.yaml:1:17: there are no merge keys here; a key at the top "
	    "counts for each of sandboxes" },
	{ CONFIG_SANDMUX, "image: x\nuser: a\nimage: y",
	    "f.yaml:3:1: the key \"image\" is there twice, first on line 1" },
	{ CONFIG_SANDMUX, "env: {A: 1, \"A\": 2}",
	    "f.yaml:1:13: the key \"A\" is there twice, first on line 1" },
	{ CONFIG_SANDMUX, "? [a]\n: b", "f.yaml:1:3: a key must be text" },
	/* types */
	{ CONFIG_SANDMUX, "[]",
	    "f.yaml:1:1: the file takes a mapping, not a list" },
	{ CONFIG_SANDMUX, "just text",
	    "f.yaml:1:1: the file takes a mapping, not text" },
	{ CONFIG_SANDMUX, "image: [x]",
	    "f.yaml:1:8: image takes text, not a list" },
	{ CONFIG_SANDMUX, "image: {a: b}",
	    "f.yaml:1:8: image takes text, not a mapping" },
	{ CONFIG_SANDMUX, "image: ''", "f.yaml:1:8: image is empty" },
	{ CONFIG_SANDMUX, "image: --rm",
	    "f.yaml:1:8: image begins with -, as an option does" },
	{ CONFIG_SANDMUX, "workdir: yes",
	    "f.yaml:1:10: workdir takes text, and yes is true or false; "
	    "write \"yes\" if you mean the text" },
	{ CONFIG_SANDMUX, "create_args: --x",
	    "f.yaml:1:14: create_args takes a list, not text" },
	{ CONFIG_SANDMUX, "create_args:\n  - --x\n  - [y]",
	    "f.yaml:3:5: create_args takes text, not a list" },
	{ CONFIG_SANDMUX, "hide_env: OPENSHELL_SANDBOX",
	    "f.yaml:1:11: hide_env takes a list, not text" },
	{ CONFIG_SANDMUX, "hide_env: [A=B]",
	    "f.yaml:1:12: hide_env takes names of variables" },
	{ CONFIG_SANDMUX, "env: A=1",
	    "f.yaml:1:6: env takes a mapping or a list, not text" },
	{ CONFIG_SANDMUX, "env: {DEBUG: on}",
	    "f.yaml:1:14: env takes text, and on is true or false; write "
	    "\"on\" if you mean the text" },
	{ CONFIG_SANDMUX, "env: ['=x']",
	    "f.yaml:1:7: env: e \"=x\": the name of a variable is empty" },
	{ CONFIG_SANDMUX, "env: {A=B: c}",
	    "f.yaml:1:7: env: the name of a variable has no =" },
	{ CONFIG_SANDMUX, "limits: [nproc]",
	    "f.yaml:1:9: limits takes a mapping, not a list" },
	{ CONFIG_SANDMUX, "limits: {nprocs: 5}",
	    "f.yaml:1:10: limits: limit: \"nprocs\" is no limit; write one "
	    "of nofile, " },
	{ CONFIG_SANDMUX, "limits: {nproc: many}",
	    "f.yaml:1:10: limits: limit nproc takes SOFT[:HARD]" },
	{ CONFIG_SANDMUX, "timeouts: 5",
	    "f.yaml:1:11: timeouts takes a mapping, not a number" },
	{ CONFIG_SANDMUX, "timeouts: {creat: 5}",
	    "f.yaml:1:12: unknown key \"creat\"; did you mean create?" },
	{ CONFIG_SANDMUX, "timeouts: {exec: soon}",
	    "f.yaml:1:18: timeouts: exec: \"soon\" is not a time" },
	{ CONFIG_SANDMUX, "timeouts: {exec: 0}",
	    "f.yaml:1:18: timeouts: exec is 0; leave it out for none" },
	{ CONFIG_SANDMUX, "sandboxes: [a]",
	    "f.yaml:1:12: sandboxes takes a mapping, not a list" },
	{ CONFIG_SANDMUX, "sandboxes: {}",
	    "f.yaml:1:12: sandboxes is empty" },
	{ CONFIG_SANDMUX, "sandboxes: {a: x}",
	    "f.yaml:1:16: a sandbox takes a mapping, not text" },
	{ CONFIG_SANDMUX, "sandboxes: {'': {}}",
	    "f.yaml:1:13: a name in sandboxes has 1 to 63 bytes" },
	{ CONFIG_RECORD, "{\"state\": \"well\"}",
	    "f.yaml:1:11: state takes a state, not text" },
	{ CONFIG_RECORD, "{\"created\": -5}",
	    "f.yaml:1:13: created takes a whole number, not a number" },
	/* meaning */
	{ CONFIG_SANDMUX, "transport: dokcer",
	    "f.yaml:1:12: transport \"dokcer\" is none by which this version "
	    "makes sandboxes; there are local, docker, podman, openshell" },
	{ CONFIG_SANDMUX, "transport: kubectl",
	    "f.yaml:1:12: transport \"kubectl\" is none by which this version "
	    "makes sandboxes; there are local, docker, podman, openshell" },
	{ CONFIG_SANDMUX, "transport: local\nimage: x",
	    "f.yaml:2:8: image means nothing with transport local" },
	{ CONFIG_SANDMUX, "transport: docker\npolicy: policy.yaml",
	    "f.yaml:2:9: policy means nothing with transport docker" },
	{ CONFIG_SANDMUX, "policy: none.yaml",
	    "f.yaml:1:9: policy: there is no file /tmp/" },
	{ CONFIG_SANDMUX, "policy: img",
	    "f.yaml:1:9: policy: there is no file /tmp/" },
	{ CONFIG_SANDMUX, "build: empty",
	    "f.yaml:1:8: build: there is no file /tmp/" },
	{ CONFIG_SANDMUX, "build: nowhere",
	    "f.yaml:1:8: build: there is no file /tmp/" },
	{ CONFIG_SANDMUX, "workdir: space",
	    "f.yaml:1:10: workdir is an absolute path" },
	{ CONFIG_SANDMUX, "transport: local\nworkdir: /tmp",
	    "f.yaml:2:10: workdir is a path inside the sandbox's own "
	    "directory with transport local, like src" },
	{ CONFIG_SANDMUX, "transport: local\nworkdir: a/../../b",
	    "f.yaml:2:10: workdir is a path inside the sandbox's own "
	    "directory with transport local, like src" },
	{ CONFIG_SANDMUX, "agent: somewhere",
	    "f.yaml:1:8: agent is inject, never or the absolute path that it "
	    "has in the image" },
	{ CONFIG_SANDMUX, "agent_name: a/b",
	    "f.yaml:1:13: agent_name is a file's name of letters, digits and "
	    ". _ -, at most 64" },
	{ CONFIG_SANDMUX, "transport: docker\nagent_user: Root",
	    "f.yaml:2:13: agent_user is root or image" },
	{ CONFIG_RECORD, "transport: docker\nname: smx-x\nagent_user: 0",
	    "f.yaml:3:13: agent_user is root or image" },
	{ CONFIG_SANDMUX, "transport: openshell\nagent_user: root",
	    "f.yaml:2:13: agent_user means nothing with transport openshell" },
	{ CONFIG_SANDMUX, "transport: local\nagent_user: root",
	    "f.yaml:2:13: agent_user means nothing with transport local" },
	{ CONFIG_OPENSHELL, "agent_user: root",
	    "f.yaml:1:1: openshell.yaml has no key \"agent_user\"; name the "
	    "file sandmux.yaml to use it" },
	{ CONFIG_SANDMUX, "agent: never\nagent_name: x",
	    "f.yaml:2:13: agent_name names an agent that is put there, and "
	    "agent says that none is" },
	{ CONFIG_SANDMUX, "create_args: [--name=x]",
	    "f.yaml:1:15: create_args cannot have --name=x: sandmux has a "
	    "use of its own for it" },
	{ CONFIG_SANDMUX, "create_args: [--from, x]",
	    "f.yaml:1:15: create_args cannot have --from: " },
	{ CONFIG_SANDMUX, "create_args: ['--', a]\ncommand: [b]",
	    "f.yaml:2:10: create_args has a command behind --, and so has "
	    "command" },
	{ CONFIG_SANDMUX, "transport: docker\ncreate_args: [-it]",
	    "f.yaml:2:15: create_args cannot have -it: " },
	{ CONFIG_OPENSHELL, "exec_args: [--timeout, '5']",
	    "f.yaml:1:13: exec_args cannot have --timeout: " },
	{ CONFIG_OPENSHELL, "exec_args: [--timeout=5]",
	    "f.yaml:1:13: exec_args cannot have --timeout=5: " },
	{ CONFIG_OPENSHELL, "exec_args: [--tty]",
	    "f.yaml:1:13: exec_args cannot have --tty: " },
	{ CONFIG_OPENSHELL, "exec_args: [-n, x]",
	    "f.yaml:1:13: exec_args cannot have -n: " },
	{ CONFIG_OPENSHELL, "exec_args: ['--']",
	    "f.yaml:1:13: exec_args cannot have --: the agent's own command "
	    "follows them" },
	{ CONFIG_OPENSHELL, "exec_args: [--env]",
	    "f.yaml:1:12: exec_args: --env needs a value" },
	/* not YAML, or more of it than there may be */
	{ CONFIG_SANDMUX, "image: [x", "f.yaml:2:1: not YAML: " },
	{ CONFIG_SANDMUX, "a: b: c", "f.yaml:1:5: not YAML: " },
	{ CONFIG_SANDMUX, "\timage: x", "f.yaml:1:1: not YAML: " },
	{ CONFIG_SANDMUX, "image: \"a\\0b\"",
	    "f.yaml:1:8: a NUL character, which nothing here can have" },
	{ CONFIG_SANDMUX, "image: x\nuser: \xff",
	    "f.yaml:2:7: a byte that is not UTF-8" },
	{ CONFIG_SANDMUX, "image: *x",
	    "f.yaml:1:8: no anchor &x before this" },
	{ CONFIG_SANDMUX, "env: &e\n  A: *e",
	    "f.yaml:2:6: an alias of what it is itself a part of" },
	{ CONFIG_SANDMUX, "image: !!binary eA==",
	    "f.yaml:1:8: tags are not understood here" },
	{ CONFIG_SANDMUX, "env: !x {}",
	    "f.yaml:1:6: tags are not understood here" },
	{ CONFIG_SANDMUX, "image: x\n---\nimage: y",
	    "f.yaml:2:1: a second document; one is all there can be" },
	{ CONFIG_SANDMUX, "command: [[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]",
	    "f.yaml:1:25: nested deeper than 16" },
};

static void
test_bad(void **state)
{
	struct config config;
	struct error error;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		error.text[0] = '\0';
		if (parse(&config, bad[i].kind, bad[i].text, &error) == 0) {
			fail_msg("taken: %s", bad[i].text);
		}
		if (strncmp(error.text, bad[i].error,
		    strlen(bad[i].error)) != 0) {
			fail_msg("%s\n    is:     %s\n    wanted: %s",
			    bad[i].text, error.text, bad[i].error);
		}
		assert_int_equal(error.step, WIRE_STEP_USAGE);
		config_free(&config);
	}
}

/* text[count] times, between head and tail; the error's beginning. */
static void
repeated(const char *head, const char *text, unsigned count,
    const char *want)
{
	size_t len = strlen(head), each = strlen(text);
	char *all = malloc(len + each * count + 1);
	struct config config;
	struct error error;
	unsigned i;

	assert_non_null(all);
	memcpy(all, head, len + 1);
	for (i = 0; i < count; i++) {
		memcpy(all + len + each * i, text, each + 1);
	}
	assert_int_equal(parse(&config, CONFIG_SANDMUX, all, &error), -1);
	if (strstr(error.text, want) == NULL) {
		fail_msg("%s: %s", want, error.text);
	}
	config_free(&config);
	free(all);
}

static void
test_bounds(void **state)
{
	char bomb[2048], *at = bomb;
	struct config config;
	struct error error;
	unsigned i;

	(void)state;
	repeated("command:\n- &a x\n", "- *a\n", 65,
	    "f.yaml:67:3: more than 64 aliases");
	repeated("command:\n", "- &a x\n", 65, "more than 64 anchors");
	repeated("command:\n", "- x\n", 9000, "more than 8192 values");
	repeated("# ", "x", 262145, "longer than 262144 bytes");
	repeated("image: ", "x", 4097,
	    "f.yaml:1:8: image is longer than 4096 bytes");
	repeated("user: ", "x", 257,
	    "f.yaml:1:7: user is longer than 256 bytes");
	/* A bomb: each of 30 is two of the one before, 2^30 in all. */
	at += sprintf(bomb, "command:\n- &a0 [x]\n");
	for (i = 1; i <= 30; i++) {
		at += sprintf(at, "- &a%u [*a%u, *a%u]\n", i, i - 1, i - 1);
	}
	assert_int_equal(parse(&config, CONFIG_SANDMUX, bomb, &error), -1);
	assert_string_equal(error.text,
	    "f.yaml:2:3: command takes text, not a list");
	config_free(&config);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_openshell),
		cmocka_unit_test(test_all_keys),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
