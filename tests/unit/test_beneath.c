/* SPDX-License-Identifier: MIT */
/* test_beneath.c - nothing below a directory leads out of it. */
#include "beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char top[64];

static int
setup(void **state)
{
	(void)state;
	umask(022);
	strcpy(top, "/tmp/sandmux-beneath-XXXXXX");
	return mkdtemp(top) != NULL && chdir(top) == 0 ? 0 : -1;
}

static int
teardown(void **state)
{
	(void)state;
	return beneath_remove(AT_FDCWD, top);
}

static void
make(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);

	assert_int_not_equal(fd, -1);
	close(fd);
}

static void
test_names(void **state)
{
	static const struct { const char *name; size_t len; bool good; } n[] = {
		{ "a", 1, true }, { "a\nb", 3, true }, { "\xff", 1, true },
		{ "...", 3, true }, { "..a", 3, true }, { ".a", 2, true },
		{ "", 0, false }, { ".", 1, false }, { "..", 2, false },
		{ "/", 1, false }, { "a/b", 3, false }, { "/a", 2, false },
		{ "a/", 2, false }, { "a\0b", 3, false }, { "\0", 1, false },
		{ "..\0", 3, false }
	};
	char longest[300];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		assert_int_equal(beneath_name(n[i].name, n[i].len), n[i].good);
	}
	memset(longest, 'n', sizeof(longest));
	assert_true(beneath_name(longest, 255));
	assert_false(beneath_name(longest, 256));
}

static void
test_temporary_names_differ(void **state)
{
	char a[BENEATH_TEMP], b[BENEATH_TEMP];

	(void)state;
	beneath_temp(a);
	beneath_temp(b);
	assert_string_not_equal(a, b);
	assert_true(beneath_name(a, strlen(a)));
	assert_memory_equal(a, ".part-", 6);
}

static void
test_directories_only(void **state)
{
	int fd, listed;

	(void)state;
	make("file");
	assert_int_equal(mkdir("dir", 0700), 0);
	assert_int_equal(symlink("dir", "link"), 0);
	for (listed = 0; listed < 2; listed++) {
		fd = beneath_dir(AT_FDCWD, "dir", listed);
		assert_int_not_equal(fd, -1);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
		assert_int_equal(beneath_dir(AT_FDCWD, "link", listed), -1);
		assert_int_equal(beneath_dir(AT_FDCWD, "file", listed), -1);
		assert_int_equal(beneath_dir(AT_FDCWD, "none", listed), -1);
		assert_int_equal(errno, ENOENT);
	}
}

static void
test_remove_stays_inside(void **state)
{
	(void)state;
	assert_int_equal(mkdir("outside", 0755), 0);
	make("outside/kept");
	assert_int_equal(mkdir("tree", 0755), 0);
	assert_int_equal(mkdir("tree/sub", 0755), 0);
	assert_int_equal(symlink("../outside", "tree/link"), 0);
	assert_int_equal(symlink("../../outside/kept", "tree/sub/link"), 0);
	assert_int_equal(mkfifo("tree/fifo", 0600), 0);
	assert_int_equal(link("outside/kept", "tree/twin"), 0);
	assert_int_equal(beneath_remove(AT_FDCWD, "tree"), 0);
	assert_int_equal(access("tree", F_OK), -1);
	assert_int_equal(access("outside/kept", F_OK), 0);
	/* A link itself, not what it leads to. */
	assert_int_equal(symlink("outside", "link"), 0);
	assert_int_equal(beneath_remove(AT_FDCWD, "link"), 0);
	assert_int_equal(access("outside/kept", F_OK), 0);
	/* A file, and what is not there. */
	assert_int_equal(beneath_remove(AT_FDCWD, "outside/kept"), 0);
	assert_int_equal(beneath_remove(AT_FDCWD, "outside/kept"), 0);
}

static void
test_remove_what_is_closed(void **state)
{
	(void)state;
	assert_int_equal(mkdir("tree", 0755), 0);
	assert_int_equal(mkdir("tree/closed", 0755), 0);
	make("tree/closed/file");
	assert_int_equal(mkdir("tree/none", 0755), 0);
	make("tree/none/file");
	assert_int_equal(chmod("tree/closed", 0500), 0);
	assert_int_equal(chmod("tree/none", 0), 0);
	/* root would not be stopped by these modes */
	if (geteuid() == 0) {
		assert_int_equal(chmod(".", 0777), 0);
		assert_int_equal(chown("tree", 4242, 4242), 0);
		assert_int_equal(chown("tree/closed", 4242, 4242), 0);
		assert_int_equal(chown("tree/none", 4242, 4242), 0);
		assert_int_equal(seteuid(4242), 0);
	}
	assert_int_equal(beneath_remove(AT_FDCWD, "tree"), 0);
	assert_int_equal(access("tree", F_OK), -1);
	assert_int_equal(seteuid(getuid()), 0);
}

static void
test_remove_deep(void **state)
{
	int fd = open(".", O_RDONLY | O_DIRECTORY), next, i;

	(void)state;
	for (i = 0; i < 300; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
		assert_int_not_equal(next, -1);
		close(fd);
		fd = next;
	}
	close(fd);
	assert_int_equal(beneath_remove(AT_FDCWD, "d"), 0);
	assert_int_equal(access("d", F_OK), -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_temporary_names_differ),
		cmocka_unit_test_setup_teardown(test_directories_only, setup,
		    teardown),
		cmocka_unit_test_setup_teardown(test_remove_stays_inside,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(test_remove_what_is_closed,
		    setup, teardown),
		cmocka_unit_test_setup_teardown(test_remove_deep, setup,
		    teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
