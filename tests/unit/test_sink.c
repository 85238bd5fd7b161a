/* SPDX-License-Identifier: MIT */
/* test_sink.c - a local file appears whole, or its directory is untouched. */
#include "sink.h"

#include <dirent.h>
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

static char dir[] = "/tmp/sandmux-sink-XXXXXX";

static int
setup(void **state)
{
	(void)state;
	umask(022);
	strcpy(dir, "/tmp/sandmux-sink-XXXXXX");
	return mkdtemp(dir) != NULL && chdir(dir) == 0 ? 0 : -1;
}

/* Remove and count what is in the directory. */
static unsigned
empty(void)
{
	DIR *d = opendir(".");
	struct dirent *e;
	unsigned n = 0;

	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0) {
			n++;
			if (unlink(e->d_name) != 0) {
				rmdir(e->d_name);
			}
		}
	}
	closedir(d);
	return n;
}

static int
teardown(void **state)
{
	(void)state;
	empty();
	return chdir("/") == 0 ? rmdir(dir) : -1;
}

static void
put(const char *name, const char *text, mode_t mode)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, text, strlen(text)),
	    (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void
expect(const char *name, const char *text, mode_t mode)
{
	char buf[64] = "";
	struct stat st;
	int fd = open(name, O_RDONLY);

	assert_true(fd >= 0);
	assert_true(read(fd, buf, sizeof(buf) - 1) >= 0);
	assert_string_equal(buf, text);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
	close(fd);
}

static void
write_new(struct sink *sink)
{
	struct filecopy copy = { .at = 0, .left = WIRE_TO_END };

	assert_int_equal(sink_put(sink, &copy, "new", 3), 3);
	assert_int_equal(sink_end(sink, &copy), 0);
}

static void
write_to(struct sink *sink, const char *path, const char *base)
{
	struct error error;

	assert_int_equal(sink_open(sink, path, base, 0, &error), 0);
	write_new(sink);
}

static void
commit(struct sink *sink, mode_t mode)
{
	struct sink_dress dress = { .mode = mode };
	struct error error;

	assert_int_equal(sink_commit(sink, &dress, &error), 0);
	sink_close(sink);
}

static void
test_new(void **state)
{
	struct sink sink;

	(void)state;
	write_to(&sink, "a", "");
	assert_int_equal(access("a", F_OK), -1);
	commit(&sink, 0666);
	expect("a", "new", 0644);
	assert_int_equal(empty(), 1);
	write_to(&sink, "b", "");
	commit(&sink, 07777);
	expect("b", "new", 0755);
	assert_int_equal(empty(), 1);
}

static void
test_existing(void **state)
{
	struct sink sink;

	(void)state;
	put("a", "old", 0751);
	write_to(&sink, "a", "");
	expect("a", "old", 0751);
	commit(&sink, 0600);
	expect("a", "new", 0751);
	assert_int_equal(empty(), 1);
}

static void
test_dropped(void **state)
{
	struct sink sink;

	(void)state;
	put("a", "old", 0644);
	write_to(&sink, "a", "");
	sink_close(&sink);
	sink_close(&sink);
	expect("a", "old", 0644);
	assert_int_equal(empty(), 1);
}

static void
test_file_that_came_meanwhile(void **state)
{
	struct sink sink;

	(void)state;
	write_to(&sink, "a", "");
	put("a", "other", 0600);
	commit(&sink, 0644);
	expect("a", "new", 0644);
	assert_int_equal(empty(), 1);
}

static void
test_directory(void **state)
{
	struct sink sink;
	struct error error;

	(void)state;
	assert_int_equal(mkdir("d", 0755), 0);
	write_to(&sink, "d", "base");
	commit(&sink, 0644);
	expect("d/base", "new", 0644);
	write_to(&sink, "d/", "base2");
	commit(&sink, 0644);
	expect("d/base2", "new", 0644);
	assert_int_equal(mkdir("d/base3", 0755), 0);
	assert_int_equal(sink_open(&sink, "d", "base3", 0, &error), -1);
	assert_int_equal(error.number, EISDIR);
	sink_close(&sink);
	assert_int_equal(sink_open(&sink, "no/", "x", 0, &error), -1);
	sink_close(&sink);
	assert_int_equal(sink_open(&sink, "d", "", 0, &error), -1);
	sink_close(&sink);
	unlink("d/base");
	unlink("d/base2");
	rmdir("d/base3");
	assert_int_equal(empty(), 1);
}

static void
test_link(void **state)
{
	struct sink sink;
	struct error error;
	struct stat st;

	(void)state;
	put("real", "old", 0640);
	assert_int_equal(symlink("real", "link"), 0);
	write_to(&sink, "link", "");
	commit(&sink, 0644);
	expect("real", "new", 0640);
	assert_int_equal(lstat("link", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(symlink("nowhere", "dangling"), 0);
	assert_int_equal(sink_open(&sink, "dangling", "", 0, &error), -1);
	sink_close(&sink);
	assert_int_equal(empty(), 3);
}

static void
test_device(void **state)
{
	struct sink sink;

	(void)state;
	write_to(&sink, "/dev/null", "");
	assert_true(sink.direct);
	commit(&sink, 0644);
	assert_int_equal(empty(), 0);
}

static void
test_base(void **state)
{
	char out[NAME_MAX + 1], name[NAME_MAX + 3];

	(void)state;
	assert_int_equal(sink_base("/a/b", out), 0);
	assert_string_equal(out, "b");
	assert_int_equal(sink_base("b//", out), 0);
	assert_string_equal(out, "b");
	assert_int_equal(sink_base("...", out), 0);
	assert_int_equal(sink_base("", out), -1);
	assert_int_equal(sink_base("/", out), -1);
	assert_int_equal(sink_base("//", out), -1);
	assert_int_equal(sink_base("a/..", out), -1);
	assert_int_equal(sink_base(".", out), -1);
	assert_int_equal(sink_base("a/./", out), -1);
	memset(name, 'x', sizeof(name));
	name[NAME_MAX + 1] = '\0';
	assert_int_equal(sink_base(name, out), -1);
	name[NAME_MAX] = '\0';
	assert_int_equal(sink_base(name, out), 0);
}

static void
test_discard(void **state)
{
	static const struct { const char *path, *base, *part; } at[] = {
		{ "f", "", ".partial-f" }, { "./f", "x", ".partial-f" },
		{ "d", "f", "d/.partial-f" }, { "d/", "f", "d/.partial-f" },
		{ "link", "", "d/.partial-g" }
	};
	struct error error;
	struct sink sink;
	size_t i;

	(void)state;
	assert_int_equal(mkdir("d", 0755), 0);
	put("d/g", "old", 0644);
	assert_int_equal(symlink("d/g", "link"), 0);
	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		assert_int_equal(sink_discard(at[i].path, at[i].base,
		    &error), 1);
		/* It is the one that a copy to there makes and keeps. */
		assert_int_equal(sink_open(&sink, at[i].path, at[i].base,
		    SINK_RESUME, &error), 0);
		assert_int_equal(sink_discard(at[i].path, at[i].base,
		    &error), -1);
		assert_int_equal(error.step, WIRE_STEP_PARTIAL);
		assert_int_equal(error.number, EAGAIN);
		sink_close(&sink);
		assert_int_equal(access(at[i].part, F_OK), 0);
		assert_int_equal(sink_discard(at[i].path, at[i].base,
		    &error), 0);
		assert_int_equal(access(at[i].part, F_OK), -1);
	}
	expect("d/g", "old", 0644);
	assert_int_equal(sink_discard("no/f", "", &error), 1);
	assert_int_equal(sink_discard("d/g/f", "", &error), 1);
	assert_int_equal(sink_discard("d", "", &error), -1);
	assert_int_equal(error.number, EISDIR);
	assert_int_equal(unlink("d/g"), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new),
		cmocka_unit_test(test_existing),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_file_that_came_meanwhile),
		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_link),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_discard),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
