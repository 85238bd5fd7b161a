/* SPDX-License-Identifier: MIT */
/*
 * test_host_swap.c - somebody swaps what we work on for links to elsewhere.
 *
 * The very call before which it happens is chosen: each in turn, so that no
 * moment is missed.  Nothing outside may change, and nothing of it be read.
 */
#include "beneath.h"
#include "bundle.h"
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

#define NEVER 1000000u
#define ALIVE "alive-and-secret"
#define LONG_AGO 1000000000

/* ---- the other process -------------------------------------------------- */

static const char *victim;		/* "DIR/": its temporary name */
static const char *lure;		/* what the link says */
static unsigned calls, at = NEVER;	/* it strikes before this call */
static bool struck;

static void
strike(void)
{
	char path[300];
	struct dirent *e;
	DIR *d;

	bool any = victim[strlen(victim) - 1] == '/';

	snprintf(path, sizeof(path), "%s", any ? "" : victim);
	if (any && (d = opendir(victim)) != NULL) {
		while ((e = readdir(d)) != NULL) {
			if (strncmp(e->d_name, ".part-", 6) == 0) {
				snprintf(path, sizeof(path), "%s%s", victim,
				    e->d_name);
			}
		}
		closedir(d);
	}
	if (rename(path, "aside") == 0) {
		assert_int_equal(symlink(lure, path), 0);
		struck = true;
	}
}

static void
tick(void)
{
	int saved = errno;

	if (at != NEVER && calls++ == at) {
		strike();
	}
	errno = saved;
}

/* ---- the calls ----------------------------------------------------------- */

#define CALL(type, name, args, use) \
	type __real_##name args; \
	type __wrap_##name args; \
	type \
	__wrap_##name args \
	{ \
		tick(); \
		return __real_##name use; \
	}

CALL(int, fstatat, (int d, const char *n, struct stat *st, int f),
    (d, n, st, f))
CALL(int, faccessat, (int d, const char *n, int m, int f), (d, n, m, f))
CALL(int, mkdirat, (int d, const char *n, mode_t m), (d, n, m))
CALL(int, symlinkat, (const char *t, int d, const char *n), (t, d, n))
CALL(int, linkat, (int a, const char *n, int b, const char *m, int f),
    (a, n, b, m, f))
CALL(int, renameat, (int a, const char *n, int b, const char *m),
    (a, n, b, m))
CALL(int, unlinkat, (int d, const char *n, int f), (d, n, f))
CALL(int, utimensat, (int d, const char *n, const struct timespec *t, int f),
    (d, n, t, f))
CALL(int, fchownat, (int d, const char *n, uid_t u, gid_t g, int f),
    (d, n, u, g, f))
CALL(ssize_t, readlinkat, (int d, const char *n, char *b, size_t c),
    (d, n, b, c))
CALL(DIR *, fdopendir, (int d), (d))
CALL(int, fchmod, (int d, mode_t m), (d, m))
CALL(int, futimens, (int d, const struct timespec *t), (d, t))
CALL(int, ftruncate, (int d, off_t n), (d, n))

int __real_openat(int d, const char *n, int f, ...);
int __wrap_openat(int d, const char *n, int f, ...);

int
__wrap_openat(int d, const char *n, int f, ...)
{
	va_list ap;
	mode_t m;

	va_start(ap, f);
	m = (mode_t)va_arg(ap, unsigned);
	va_end(ap);
	tick();
	return __real_openat(d, n, f, m);
}

/* ---- the place ----------------------------------------------------------- */

static char top[64];

static void
make(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_int_not_equal(fd, -1);
	assert_int_equal(write(fd, text, strlen(text)),
	    (ssize_t)strlen(text));
	close(fd);
}

/* A tree of the same names as what is outside. */
static void
plant(const char *dir, const char *text)
{
	char path[100];

	assert_int_equal(mkdir(dir, 0755), 0);
	snprintf(path, sizeof(path), "%s/sub", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/canary", dir);
	make(path, text);
	snprintf(path, sizeof(path), "%s/sub/canary", dir);
	make(path, text);
}

static void
plant_source(void)
{
	assert_int_equal(mkdir("src", 0755), 0);
	plant("src/d", "new");
	assert_int_equal(symlink("canary", "src/d/link"), 0);
	assert_int_equal(link("src/d/canary", "src/d/sub/twin"), 0);
	make("src/f", "new");
}

static int
setup(void **state)
{
	static const struct timespec times[2] = { { .tv_sec = LONG_AGO },
	    { .tv_sec = LONG_AGO } };

	(void)state;
	umask(022);
	strcpy(top, "/tmp/sandmux-swap-XXXXXX");
	if (mkdtemp(top) == NULL || chdir(top) != 0) {
		return -1;
	}
	plant("outside", ALIVE);
	return utimensat(AT_FDCWD, "outside/canary", times, 0) |
	    utimensat(AT_FDCWD, "outside/sub/canary", times, 0);
}

static int
teardown(void **state)
{
	(void)state;
	at = NEVER;
	return beneath_remove(AT_FDCWD, top);
}

static void
expect(const char *path)
{
	char buf[100] = "";
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW);

	assert_int_not_equal(fd, -1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(st.st_mtime, LONG_AGO);
	assert_true(read(fd, buf, sizeof(buf) - 1) > 0);
	assert_string_equal(buf, ALIVE);
	close(fd);
}

static void
count(const char *dir, unsigned want)
{
	struct stat st;
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(dir);

	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
	}
	closedir(d);
	assert_int_equal(n, want);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
}

static void
check_outside(void)
{
	at = NEVER;
	expect("outside/canary");
	expect("outside/sub/canary");
	count("outside", 2);
	count("outside/sub", 1);
}

static void
clear(void)
{
	at = NEVER;
	assert_int_equal(beneath_remove(AT_FDCWD, "dst"), 0);
	assert_int_equal(beneath_remove(AT_FDCWD, "src"), 0);
	assert_int_equal(beneath_remove(AT_FDCWD, "aside"), 0);
}

/* ---- trees --------------------------------------------------------------- */

static int stream;

static int
send_tree(void)
{
	struct bundle_source source = { .out = stream, .path = "src",
	    .flags = WIRE_TREE_SKIP };
	struct wire_tree_info info;
	struct error error;

	assert_int_equal(ftruncate(stream, 0), 0);
	assert_int_equal(lseek(stream, 0, SEEK_SET), 0);
	calls = 0;
	return bundle_send(&source, &info, &error);
}

static int
receive_tree(const char *path)
{
	struct bundle_sink sink = { .in = stream, .path = path, .name = "" };
	struct wire_tree_info info;
	struct error error;

	assert_int_equal(lseek(stream, 0, SEEK_SET), 0);
	calls = 0;
	return bundle_receive(&sink, &info, &error);
}

/* One victim, every moment; in how many the copy went on, and did not. */
static void
receive_everywhere(const char *path, const char *name, const char *what)
{
	unsigned when, hits = 0, failures = 0;
	int rc;

	victim = name;
	lure = what;
	for (when = 0;; when++) {
		plant_source();
		assert_int_equal(mkdir("dst", 0755), 0);
		plant("dst/d", "old");
		at = NEVER;
		assert_int_equal(send_tree(), 0);
		at = when;
		struck = false;
		rc = receive_tree(path);
		check_outside();
		hits += struck;
		failures += rc == -1;
		assert_true(struck || rc == 0);
		clear();
		if (calls <= when) {
			break;		/* it was through before */
		}
	}
	/* A link in a link's place is as good as it was. */
	assert_true(hits > 1 && (failures > 0 || name[strlen(name) - 1] ==
	    '/'));
}

static void
test_receive(void **state)
{
	(void)state;
	stream = open("stream", O_RDWR | O_CREAT, 0600);
	receive_everywhere("dst", "dst/d", "../outside");
	receive_everywhere("dst", "dst/d/sub", "../../outside");
	receive_everywhere("dst", "dst/d/sub", "../../outside/sub");
	receive_everywhere("dst", "dst/d/canary", "../../outside/canary");
	receive_everywhere("dst/new", "dst/", "../outside");
	receive_everywhere("dst", "dst/d/", "../../outside/canary");
	receive_everywhere("dst", "dst/d/sub/", "../../../outside/canary");
	close(stream);
}

/* A link of a file in the way is replaced, so that only it is lost. */
static void
test_send(void **state)
{
	static const struct { const char *victim, *lure; } pairs[] = {
		{ "src/d", "../outside" }, { "src/d/sub", "../../outside" },
		{ "src/d/canary", "../../outside/canary" },
		{ "src/d/sub/canary", "../../../outside/canary" },
		{ "src/f", "../outside/canary" }
	};
	static char sent[65536];
	unsigned when, hits;
	ssize_t n;
	size_t i;

	(void)state;
	stream = open("stream", O_RDWR | O_CREAT, 0600);
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		victim = pairs[i].victim;
		lure = pairs[i].lure;
		hits = 0;
		for (when = 0;; when++) {
			plant_source();
			at = when;
			struck = false;
			send_tree();
			check_outside();
			hits += struck;
			n = pread(stream, sent, sizeof(sent), 0);
			assert_true(n > 0 && n < (ssize_t)sizeof(sent));
			assert_null(memmem(sent, (size_t)n, ALIVE,
			    strlen(ALIVE)));
			clear();
			if (calls <= when) {
				break;
			}
		}
		assert_true(hits > 3);
	}
	close(stream);
}

static void
test_remove(void **state)
{
	static const char *const victims[] = { "dst/d", "dst/d/sub",
	    "dst/d/canary" };
	unsigned when, hits;
	size_t i;

	(void)state;
	lure = "../../outside";
	for (i = 0; i < 3; i++) {
		victim = victims[i];
		hits = 0;
		for (when = 0;; when++) {
			assert_int_equal(mkdir("dst", 0755), 0);
			plant("dst/d", "old");
			/* It gets its permissions first. */
			assert_int_equal(chmod("dst/d/sub", 0500), 0);
			at = when;
			struck = false;
			calls = 0;
			beneath_remove(AT_FDCWD, "dst");
			check_outside();
			hits += struck;
			clear();
			if (calls <= when) {
				break;
			}
		}
		assert_true(hits > 1);
	}
}

/* ---- one file ------------------------------------------------------------ */

static int
write_file(unsigned flags)
{
	struct filecopy copy = { .at = 0, .left = WIRE_TO_END };
	struct sink_dress dress = { .mode = 0600, .exact = true };
	struct error error;
	struct sink sink;
	int rc;

	calls = 0;
	rc = sink_open(&sink, "dst/f", "", flags, &error);
	if (rc == 0) {
		rc = sink_put(&sink, &copy, "new", 3) == 3 &&
		    sink_end(&sink, &copy) == 0 ? 0 : -1;
	}
	if (rc == 0) {
		rc = sink_commit(&sink, &dress, &error);
	}
	sink_close(&sink);
	return rc;
}

static void
test_file(void **state)
{
	static const unsigned flags[] = { 0, SINK_APPEND, SINK_RESUME };
	unsigned when, hits, twin;
	size_t i;

	(void)state;
	lure = "../outside/canary";
	for (i = 0; i < 6; i++) {
		twin = i % 2;		/* in place */
		victim = "dst/f";
		hits = 0;
		for (when = 0;; when++) {
			assert_int_equal(mkdir("dst", 0755), 0);
			make("dst/f", "old");
			if (twin) {
				assert_int_equal(link("dst/f", "dst/g"), 0);
			}
			at = when;
			struck = false;
			assert_true(write_file(flags[i / 2]) == 0 || struck);
			check_outside();
			hits += struck;
			clear();
			if (calls <= when) {
				break;
			}
		}
		assert_true(hits > 2);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_receive), cmocka_unit_test(test_send),
		cmocka_unit_test(test_remove), cmocka_unit_test(test_file)
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
