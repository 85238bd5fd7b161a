/* SPDX-License-Identifier: MIT */
/*
 * test_host_parts.c - small parts of the controller: argument vectors, the
 * client's environment, children, records of sandboxes, the listener, the log.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "argv.h"
#include "child.h"
#include "clock.h"
#include "env.h"
#include "listener.h"
#include "log.h"
#include "runcmd.h"
#include "transport.h"
#include "trust.h"

static char dir[] = "/tmp/sandmux-parts-XXXXXX";

static void
argv_refuses_what_does_not_fit(void **state)
{
	struct argv argv;
	unsigned i;

	(void)state;
	argv_init(&argv);
	assert_null(argv_words(&argv)[0]);
	argv_add(&argv, "");
	argv_format(&argv, "%s=%d", "a", 7);
	assert_string_equal(argv_words(&argv)[0], "");
	assert_string_equal(argv_words(&argv)[1], "a=7");
	assert_null(argv_words(&argv)[2]);
	for (i = 2; i < ARGV_WORDS; i++) {
		argv_add(&argv, "x");
	}
	assert_non_null(argv_words(&argv));
	argv_add(&argv, "one too many");
	assert_null(argv_words(&argv));
	argv_init(&argv);
	argv_format(&argv, "%*s", ARGV_BYTES, "");
	assert_null(argv_words(&argv));
}

/* A wire list of C strings; n may hide NULs inside. */
static struct wire_list
list_of(const char *const *items, const size_t *n, uint8_t *buf)
{
	struct wire_list list = { 0, { buf, 0 } };
	size_t at = 0;

	for (; items[list.count] != NULL; list.count++) {
		size_t len = n != NULL ? n[list.count] :
		    strlen(items[list.count]);

		buf[at] = buf[at + 1] = buf[at + 2] = 0;
		buf[at + 3] = (uint8_t)len;
		memcpy(buf + at + 4, items[list.count], len);
		at += 4 + len;
	}
	list.raw.len = (uint32_t)at;
	return list;
}

static void
env_is_sorted_and_selected(void **state)
{
	static const char *const items[] = { "PATH=/bin", "SECRET=x",
	    "DOCKER_HOST=unix:///x", "KUBECONFIGX=no", "HOME=/h", "A=", NULL };
	uint8_t buf[512];
	struct error error;
	struct env *env = env_new(list_of(items, NULL, buf), &error);

	(void)state;
	assert_non_null(env);
	assert_string_equal(env->all[0], "A=");
	assert_string_equal(env->child[0], "DOCKER_HOST=unix:///x");
	assert_string_equal(env->child[1], "HOME=/h");
	assert_string_equal(env->child[2], "PATH=/bin");
	assert_null(env->child[3]);
	assert_string_equal(transport_getenv(env->all, "A"), "");
	assert_null(transport_getenv(env->all, "KUBECONFIG"));
	env_release(env);
}

static void
env_refuses_bad_entries(void **state)
{
	static const char *const bad[] = { "=x", "x", "" };
	static const char *const nul[] = { "A=b\0c", NULL };
	static const size_t five[] = { 5 };
	uint8_t buf[64];
	struct error error;
	unsigned i;

	(void)state;
	for (i = 0; i < 3; i++) {
		const char *one[] = { bad[i], NULL };

		assert_null(env_new(list_of(one, NULL, buf), &error));
		assert_int_equal(error.step, WIRE_STEP_PROTOCOL);
	}
	assert_null(env_new(list_of(nul, five, buf), &error));
}

static void
programs_are_found_on_absolute_paths_only(void **state)
{
	char path[256];
	char *env[] = { path, NULL };
	static struct transport_place place;
	struct error error;

	(void)state;
	place.env = env;
	snprintf(path, sizeof(path), "PATH=:.:%s:/bin", dir);
	assert_int_equal(transport_program(&place, "sh", "cure", &error), 0);
	assert_int_equal(place.facts.program[0], '/');
	assert_int_equal(transport_program(&place, "no-such-prog", "cure it",
	    &error), -1);
	assert_non_null(strstr(error.text, "cure it"));
	assert_non_null(strstr(error.text, "no-such-prog"));
}

static int
run(const char *script, const void *input, size_t len, struct runcmd *cmd)
{
	static char *env[] = { "PATH=/bin:/usr/bin", NULL };
	struct argv argv;
	struct error error;

	argv_init(&argv);
	argv_add(&argv, "sh");
	argv_add(&argv, "-c");
	argv_add(&argv, script);
	memset(cmd, 0, sizeof(*cmd));
	cmd->path = "/bin/sh";
	cmd->argv = &argv;
	cmd->env = env;
	cmd->input = input;
	cmd->input_len = len;
	cmd->deadline = clock_now() + 5000 * (uint64_t)CLOCK_MS;
	return runcmd_run(cmd, &error);
}

static void
runcmd_feeds_and_keeps_the_end(void **state)
{
	static struct runcmd cmd;
	static char big[300000];

	(void)state;
	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = 'y';
	assert_int_equal(run("cat; echo err >&2; exit 7", big, sizeof(big),
	    &cmd), 0);
	assert_int_equal(cmd.status, 7);
	assert_int_equal(cmd.out_len, RUNCMD_OUT);
	assert_int_equal(cmd.out[RUNCMD_OUT - 1], 'y');
	assert_string_equal(cmd.err, "err\n");
	assert_int_equal(run("exec <&-; kill -9 $$", big, sizeof(big), &cmd),
	    0);
	assert_int_equal(cmd.status, 128 + SIGKILL);
}

static void
runcmd_does_not_wait_for_leftovers(void **state)
{
	static struct runcmd cmd;
	uint64_t began = clock_now();

	(void)state;
	assert_int_equal(run("sleep 30 & echo done", NULL, 0, &cmd), 0);
	assert_string_equal(cmd.out, "done\n");
	assert_true(clock_now() - began < 2000 * (uint64_t)CLOCK_MS);
}

static void
a_missing_program_is_said_on_stderr(void **state)
{
	static struct runcmd cmd;
	struct argv argv;
	struct error error;
	char *env[] = { NULL };

	(void)state;
	argv_init(&argv);
	argv_add(&argv, "x");
	cmd = (struct runcmd){ .path = "/no/such/x", .argv = &argv,
	    .env = env, .deadline = clock_now() + 5000 * (uint64_t)CLOCK_MS };
	assert_int_equal(runcmd_run(&cmd, &error), 0);
	assert_int_equal(cmd.status, 127);
	assert_non_null(strstr(cmd.err, "/no/such/x"));
}

static void
unknown_history_counts_as_used(void **state)
{
	struct error error;

	(void)state;
	setenv("XDG_STATE_HOME", dir, 1);
	assert_int_equal(trust_open(&error), 0);
	assert_false(trust_is_fresh("docker", "abc"));
	assert_int_equal(trust_make("docker", "abc"), 0);
	assert_true(trust_is_fresh("docker", "abc"));
	assert_false(trust_is_fresh("openshell", "abc"));
	assert_false(trust_is_fresh("docker", "abd"));
	assert_int_equal(trust_use("docker", "abc"), 0);
	assert_false(trust_is_fresh("docker", "abc"));
	assert_int_equal(trust_use("docker", "abc"), 0);
	assert_int_equal(trust_use("docker", "never seen/../x"), 0);
	assert_false(trust_is_fresh("docker", "never seen/../x"));
}

static int
reach(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), rc;

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	rc = connect(fd, (struct sockaddr *)&un, sizeof(un));
	close(fd);
	return rc;
}

static void
one_listener_a_directory(void **state)
{
	struct listener a, b;
	struct error error;
	char path[256];

	(void)state;
	assert_int_equal(listener_open(&a, dir, &error), 1);
	assert_true(listener_there(&a));
	assert_int_equal(listener_open(&b, dir, &error), 0);
	/* As if it had been killed: the name stays, nobody answers. */
	close(a.fd);
	close(a.lock);
	snprintf(path, sizeof(path), "%s/socket", dir);
	assert_int_equal(reach(path), -1);
	assert_int_equal(listener_open(&b, dir, &error), 1);
	assert_int_equal(reach(path), 0);
	assert_false(listener_there(&a));
	listener_close(&b);
	assert_int_equal(access(path, F_OK), -1);
}

static void
the_log_is_one_safe_line_each(void **state)
{
	char path[256], text[512];
	struct stat st;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/log", dir);
	assert_int_equal(log_open(path, LOG_NOTE), 0);
	log_write(LOG_NOTE, "a\nb\x1b[2J %s", "\xff");
	log_write(LOG_DEBUG, "not this");
	log_close();
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	assert_non_null(strstr(text, " note a\\nb\\x1b[2J \\xff\n"));
	assert_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(log_open(path, LOG_NOTE), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(argv_refuses_what_does_not_fit),
		cmocka_unit_test(env_is_sorted_and_selected),
		cmocka_unit_test(env_refuses_bad_entries),
		cmocka_unit_test(programs_are_found_on_absolute_paths_only),
		cmocka_unit_test(runcmd_feeds_and_keeps_the_end),
		cmocka_unit_test(runcmd_does_not_wait_for_leftovers),
		cmocka_unit_test(a_missing_program_is_said_on_stderr),
		cmocka_unit_test(unknown_history_counts_as_used),
		cmocka_unit_test(one_listener_a_directory),
		cmocka_unit_test(the_log_is_one_safe_line_each),
	};
	char command[300];
	int rc;

	if (seal_init() < 0 || mkdtemp(dir) == NULL) {
		return 1;
	}
	child_init();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command) == 0 ? rc : 1;
}
