/* SPDX-License-Identifier: MIT */
/* test_paths.c - the runtime directory is ours alone, or it is refused. */
#include "paths.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char top[] = "/tmp/sandmux-paths-XXXXXX";

static int
setup(void **state)
{
	(void)state;
	unsetenv("SANDMUX_DIR");
	unsetenv("XDG_RUNTIME_DIR");
	strcpy(top, "/tmp/sandmux-paths-XXXXXX");
	return mkdtemp(top) != NULL && chdir(top) == 0 ? 0 : -1;
}

static int
teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static mode_t
mode(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static void
test_order(void **state)
{
	char buf[PATHS_MAX], want[PATHS_MAX];
	struct error error;

	(void)state;
	umask(0);
	snprintf(want, sizeof(want), "%s/own", top);
	setenv("SANDMUX_DIR", want, 1);
	setenv("XDG_RUNTIME_DIR", top, 1);
	assert_int_equal(paths_runtime(buf, sizeof(buf), &error), 0);
	assert_string_equal(buf, want);
	assert_int_equal(mode(buf), 0700);
	assert_int_equal(paths_runtime(buf, sizeof(buf), &error), 0);
	setenv("SANDMUX_DIR", "", 1);
	snprintf(want, sizeof(want), "%s/sandmux", top);
	assert_int_equal(paths_runtime(buf, sizeof(buf), &error), 0);
	assert_string_equal(buf, want);
	/* A base that is not there, or not absolute, does not count. */
	snprintf(want, sizeof(want), "/tmp/sandmux-%u",
	    (unsigned)geteuid());
	setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
	if (paths_runtime(buf, sizeof(buf), &error) == 0) {
		assert_string_equal(buf, want);
	}
	unsetenv("SANDMUX_DIR");
	unsetenv("XDG_RUNTIME_DIR");
}

static void
test_relative(void **state)
{
	char buf[PATHS_MAX], want[PATHS_MAX];
	struct error error;

	(void)state;
	snprintf(want, sizeof(want), "%s/rel", top);
	assert_int_equal(paths_private("rel//", buf, sizeof(buf), &error), 0);
	assert_string_equal(buf, want);
}

static void
test_refused(void **state)
{
	char buf[PATHS_MAX], longer[300];
	struct error error;

	(void)state;
	assert_int_equal(mkdir("open", 0755), 0);
	assert_int_equal(chmod("open", 0755), 0);
	assert_int_equal(paths_private("open", buf, sizeof(buf), &error), -1);
	assert_non_null(strstr(error.text, "0755"));
	assert_int_equal(mkdir("real", 0700), 0);
	assert_int_equal(symlink("real", "link"), 0);
	assert_int_equal(paths_private("link", buf, sizeof(buf), &error), -1);
	assert_int_equal(paths_private("link/", buf, sizeof(buf), &error),
	    -1);
	assert_int_equal(paths_private("no/such", buf, sizeof(buf), &error),
	    -1);
	assert_int_equal(paths_private("/dev/null", buf, sizeof(buf), &error),
	    -1);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(paths_private(longer, buf, sizeof(buf), &error), -1);
	assert_int_equal(paths_private("/tmp", buf, 3, &error), -1);
}

static void
test_foreign(void **state)
{
	char buf[PATHS_MAX];
	struct error error;

	(void)state;
	if (geteuid() != 0) {
		skip();
	}
	assert_int_equal(mkdir("foreign", 0700), 0);
	assert_int_equal(chown("foreign", 4711, 4711), 0);
	assert_int_equal(paths_private("foreign", buf, sizeof(buf), &error),
	    -1);
	assert_non_null(strstr(error.text, "4711"));
}

static void
test_state(void **state)
{
	char buf[PATHS_MAX], want[PATHS_MAX];
	struct error error;

	(void)state;
	snprintf(want, sizeof(want), "%s/home", top);
	setenv("HOME", want, 1);
	unsetenv("XDG_STATE_HOME");
	assert_int_equal(paths_state(buf, sizeof(buf), &error), 0);
	strcat(want, "/.local/state/sandmux");
	assert_string_equal(buf, want);
	assert_int_equal(mode(buf), 0700);
	assert_int_equal(paths_state(buf, sizeof(buf), &error), 0);
	snprintf(want, sizeof(want), "%s/state", top);
	setenv("XDG_STATE_HOME", want, 1);
	assert_int_equal(paths_state(buf, sizeof(buf), &error), 0);
	strcat(want, "/sandmux");
	assert_string_equal(buf, want);
	setenv("XDG_STATE_HOME", "/dev/null/x", 1);
	assert_int_equal(paths_state(buf, sizeof(buf), &error), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_relative),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_state),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
