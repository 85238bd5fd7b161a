/* SPDX-License-Identifier: MIT */
/* test_bundle.c - trees through a stream; streams that lie change nothing. */
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "beneath.h"

/* The test's directory: place/ is received into, canary lies beside it. */
static char top[64];
static int stream = -1;
static struct wire_tree_info sent, got;
static struct error error;

static void
make(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_int_not_equal(fd, -1);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void
holds(const char *path, const char *text)
{
	char buf[64];
	int fd = open(path, O_RDONLY | O_NOFOLLOW);
	ssize_t n;

	if (fd == -1) {
		fail_msg("%s is not there", path);
	}
	n = read(fd, buf, sizeof(buf));
	close(fd);
	assert_int_equal(n, strlen(text));
	assert_memory_equal(buf, text, (size_t)n);
}

static int
setup(void **state)
{
	(void)state;
	umask(022);
	strcpy(top, "/tmp/sandmux-bundle-XXXXXX");
	if (mkdtemp(top) == NULL || chdir(top) == -1 ||
	    mkdir("place", 0755) == -1) {
		return -1;
	}
	make("canary", "alive");
	stream = memfd_create("stream", MFD_CLOEXEC);
	return stream == -1;
}

static int
teardown(void **state)
{
	(void)state;
	close(stream);
	return beneath_remove(AT_FDCWD, top);
}

/* ---- writing streams --------------------------------------------------- */

static void
raw(const void *data, size_t len)
{
	assert_int_equal(write(stream, data, len), len);
}

static void
tell(const struct wire *msg)
{
	static uint8_t buf[WIRE_CHUNK_MAX + 64];
	uint8_t head[4];
	size_t len;

	assert_int_equal(wire_encode(msg, buf, sizeof(buf), &len), WIRE_OK);
	head[0] = (uint8_t)(len >> 24);
	head[1] = (uint8_t)(len >> 16);
	head[2] = (uint8_t)(len >> 8);
	head[3] = (uint8_t)len;
	raw(head, 4);
	raw(buf, len);
}

static struct wire
entry(uint8_t kind, const char *name, const char *target)
{
	struct wire msg = { .type = WIRE_ENTRY };

	msg.u.entry.kind = kind;
	msg.u.entry.mode = kind == WIRE_ENTRY_DIR ? 0755 : 0644;
	msg.u.entry.seconds = 1000000000;
	msg.u.entry.name = wire_string(name);
	msg.u.entry.target = wire_string(target);
	return msg;
}

/* One letter a message, its words behind it: see the cases. */
static void
write_stream(const char *script)
{
	char words[512], *word, *save = NULL, *target;
	struct wire msg;

	snprintf(words, sizeof(words), "%s", script);
	for (word = strtok_r(words, " ", &save); word != NULL;
	    word = strtok_r(NULL, " ", &save)) {
		target = strchr(word, '=');
		if (target != NULL) {
			*target++ = '\0';
		} else {
			target = word + strlen(word);
		}
		memset(&msg, 0, sizeof(msg));
		switch (word[0]) {
		case 'd':
			msg = entry(WIRE_ENTRY_DIR, word + 1, target);
			break;
		case 'f':
			msg = entry(WIRE_ENTRY_FILE, word + 1, target);
			break;
		case 's':
			msg = entry(WIRE_ENTRY_SYMLINK, word + 1, target);
			break;
		case 'h':
			msg = entry(WIRE_ENTRY_LINK, word + 1, target);
			break;
		case '0':
			msg = entry(0, word + 1, "");
			break;
		case '9':
			msg = entry(9, word + 1, "");	/* a device, say */
			break;
		case 'c':
			msg.type = WIRE_CHUNK;
			msg.u.chunk.bytes = wire_string(word + 1);
			break;
		case 'o':		/* two to the power of so many */
			msg.type = WIRE_HOLE;
			msg.u.hole.bytes = word[1] == '-' ? 0 :
			    UINT64_C(1) << atoi(word + 1);
			break;
		case '.':
			msg.type = WIRE_ENTRY_END;
			break;
		case 'x':
			msg.type = WIRE_SKIPPED;
			msg.u.skipped.error = EACCES;
			msg.u.skipped.path = wire_string(word + 1);
			break;
		case 'e':		/* its counts by its digits */
			msg.type = WIRE_TREE_INFO;
			msg.u.tree_info = (struct wire_tree_info){
			    (uint64_t)(word[1] - '0'),
			    (uint64_t)(word[2] - '0'),
			    (uint64_t)(word[3] - '0'),
			    (uint64_t)(word[4] - '0'),
			    (uint64_t)(word[5] - '0') };
			break;
		case 'p':
			msg.type = WIRE_PROBE;	/* no message of a tree's */
			break;
		default:
			fail_msg("script: %s", script);
		}
		tell(&msg);
	}
}

static unsigned settled;

static int
settle(void *ctx, const struct wire_tree_info *info, uint64_t bytes,
    struct error *e)
{
	(void)info;
	assert_int_equal(bytes, lseek(stream, 0, SEEK_END));
	settled++;
	if (ctx != NULL) {
		error_set(e, WIRE_STEP_WRITE, ECANCELED, "no");
		return -1;
	}
	return 0;
}

static int
receive(const char *path, const char *name, unsigned flags, uint64_t max)
{
	const struct bundle_sink sink = { .in = stream, .path = path,
	    .name = name, .flags = flags, .max_entries = max,
	    .settle = settle };

	assert_int_equal(lseek(stream, 0, SEEK_SET), 0);
	settled = 0;
	return bundle_receive(&sink, &got, &error);
}

static void
reset(void)
{
	assert_int_equal(ftruncate(stream, 0), 0);
	assert_int_equal(lseek(stream, 0, SEEK_SET), 0);
}

static bool
is_empty(const char *path)
{
	/* rmdir() of what has content fails. */
	return rmdir(path) == 0 && mkdir(path, 0755) == 0;
}

/* ---- both ways ----------------------------------------------------------- */

static int
send(const char *path, unsigned flags)
{
	const struct bundle_source source = { .out = stream, .path = path,
	    .flags = flags };

	reset();
	return bundle_send(&source, &sent, &error);
}

static void
test_round_trip(void **state)
{
	struct stat a, b;

	(void)state;
	assert_int_equal(mkdir("src", 0755), 0);
	assert_int_equal(mkdir("src/sub", 0755), 0);
	assert_int_equal(mkdir("src/empty", 0711), 0);
	make("src/file", "text");
	make("src/sub/none", "");
	assert_int_equal(link("src/file", "src/sub/twin"), 0);
	assert_int_equal(symlink("/nowhere", "src/link"), 0);
	assert_int_equal(chmod("src/sub", 0555), 0);
	assert_int_equal(send("src", 0), 0);
	assert_int_equal(sent.entries, 7);
	assert_int_equal(sent.files, 2);
	assert_int_equal(sent.links, 1);
	assert_int_equal(sent.bytes, 4);
	assert_int_equal(receive("place/new", "x", 0, 0), 0);
	assert_memory_equal(&sent, &got, sizeof(sent));
	assert_int_equal(settled, 1);
	holds("place/new/file", "text");
	holds("place/new/sub/none", "");
	assert_int_equal(stat("place/new/file", &a), 0);
	assert_int_equal(stat("place/new/sub/twin", &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(stat("place/new/sub", &b), 0);
	assert_int_equal(b.st_mode & 07777, 0555);
	assert_int_equal(stat("src/sub", &a), 0);
	assert_int_equal(a.st_mtim.tv_sec, b.st_mtim.tv_sec);
	assert_int_equal(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
}

static void
test_once_more_over_it(void **state)
{
	struct stat a, b;

	(void)state;
	assert_int_equal(mkdir("src", 0755), 0);
	make("src/file", "text");
	assert_int_equal(link("src/file", "src/twin"), 0);
	/* Of two names of one file a rename would keep both. */
	assert_int_equal(mkdir("place/src", 0755), 0);
	make("place/src/file", "old");
	assert_int_equal(link("place/src/file", "place/src/twin"), 0);
	assert_int_equal(send("src", 0), 0);
	assert_int_equal(receive("place", "src", 0, 0), 0);
	assert_int_equal(receive("place", "src", 0, 0), 0);
	holds("place/src/file", "text");
	assert_int_equal(stat("place/src/file", &a), 0);
	assert_int_equal(stat("place/src/twin", &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(unlink("place/src/file"), 0);
	assert_int_equal(unlink("place/src/twin"), 0);
	assert_true(is_empty("place/src"));
}

/* Data in the middle, at the end, at the beginning, nowhere. */
static void
test_holes(void **state)
{
	static const struct { off_t data, size; } files[] = {
		{ 1 << 20, 1 << 30 }, { (1 << 30) - 3, 1 << 30 },
		{ 0, 1 << 30 }, { -1, 1 << 30 }, { -1, 1 }
	};
	char a[64], b[64], text[4];
	struct stat st;
	size_t i;
	int fd;

	(void)state;
	assert_int_equal(mkdir("src", 0755), 0);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(a, sizeof(a), "src/%zu", i);
		make(a, "");
		assert_int_equal(truncate(a, files[i].size), 0);
		fd = open(a, O_WRONLY);
		if (files[i].data >= 0) {
			assert_int_equal(pwrite(fd, "abc", 3, files[i].data),
			    3);
		}
		close(fd);
	}
	assert_int_equal(send("src", 0), 0);
	assert_in_range(lseek(stream, 0, SEEK_END), 0, 1 << 20);
	assert_int_equal(receive("place/new", "", 0, 0), 0);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(b, sizeof(b), "place/new/%zu", i);
		fd = open(b, O_RDONLY);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, files[i].size);
		assert_in_range(st.st_blocks, 0, 2048);
		if (files[i].data >= 0) {
			assert_int_equal(pread(fd, text, 3, files[i].data), 3);
			assert_memory_equal(text, "abc", 3);
		}
		close(fd);
	}
}

/* More hard-linked files than are remembered: they come as files. */
static void
test_many_links(void **state)
{
	unsigned i, pairs = BUNDLE_LINKS + 10;
	char a[64], b[64];

	(void)state;
	assert_int_equal(mkdir("src", 0755), 0);
	for (i = 0; i < pairs; i++) {
		snprintf(a, sizeof(a), "src/%u-a", i);
		snprintf(b, sizeof(b), "src/%u-b", i);
		make(a, "x");
		assert_int_equal(link(a, b), 0);
	}
	assert_int_equal(send("src", 0), 0);
	assert_int_equal(sent.entries, 1 + 2 * pairs);
	assert_int_equal(sent.links, BUNDLE_LINKS);
	assert_int_equal(sent.files, BUNDLE_LINKS + 20);
	assert_int_equal(receive("place/new", "", 0, 0), 0);
}

static void
test_unreadable(void **state)
{
	(void)state;
	assert_int_equal(mkdir("src", 0755), 0);
	make("src/file", "text");
	assert_int_equal(mkfifo("src/fifo", 0644), 0);
	assert_int_equal(send("src", 0), -1);
	assert_int_equal(error.number, EOPNOTSUPP);
	assert_non_null(strstr(error.text, "src/fifo"));
	assert_int_equal(receive("place/new", "", 0, 0), -1);
	assert_true(is_empty("place"));
	assert_int_equal(send("src", WIRE_TREE_SKIP), 0);
	assert_int_equal(sent.skipped, 1);
	assert_int_equal(receive("place/new", "", 0, 0), 0);
	holds("place/new/file", "text");
	/* A link that is all of it is sent as one, or followed. */
	assert_int_equal(symlink("src", "link"), 0);
	assert_int_equal(send("link", 0), 0);
	assert_int_equal(sent.entries, 1);
	assert_int_equal(send("link/", WIRE_TREE_SKIP), 0);
	assert_int_equal(sent.entries, 2);
	assert_int_equal(send("link", WIRE_TREE_SKIP | WIRE_TREE_FOLLOW), 0);
	assert_int_equal(sent.entries, 2);
	/* The whole of it cannot be skipped. */
	assert_int_equal(send("src/fifo", WIRE_TREE_SKIP), -1);
	assert_int_equal(send("nowhere", WIRE_TREE_SKIP), -1);
	assert_int_equal(error.number, ENOENT);
	assert_int_equal(send("nowhere", WIRE_TREE_FOLLOW), -1);
	assert_int_equal(error.number, ENOENT);
}

static void
test_too_deep(void **state)
{
	char path[4 * BUNDLE_DEPTH] = "src";
	unsigned i;

	(void)state;
	assert_int_equal(mkdir(path, 0755), 0);
	for (i = 1; i < BUNDLE_DEPTH; i++) {
		strcat(path, "/d");
		assert_int_equal(mkdir(path, 0755), 0);
	}
	assert_int_equal(send("src", 0), 0);
	assert_int_equal(receive("place/new", "", 0, 0), 0);
	strcat(path, "/d");
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(send("src", WIRE_TREE_SKIP), -1);
}

/* ---- streams that are right ---------------------------------------------- */

static void
test_places(void **state)
{
	(void)state;
	write_stream("d fa chi . . e21200");
	/* Under its own name, inside a directory, as a directory's content. */
	assert_int_equal(receive("place/x", "n", 0, 0), 0);
	holds("place/x/a", "hi");
	assert_int_equal(receive("place/y/", "", 0, 0), 0);
	holds("place/y/a", "hi");
	assert_int_equal(receive("place", "n", 0, 0), 0);
	holds("place/n/a", "hi");
	assert_int_equal(receive("place", "", 0, 0), 0);
	holds("place/a", "hi");
	assert_int_equal(symlink("place/x", "to"), 0);
	assert_int_equal(receive("to", "n", 0, 0), 0);
	holds("place/x/n/a", "hi");
	/* None of these. */
	assert_int_equal(receive("place/a", "n", 0, 0), -1);
	assert_int_equal(error.number, ENOTDIR);
	assert_int_equal(receive("place/none/x", "n", 0, 0), -1);
	assert_int_equal(error.number, ENOENT);
	assert_int_equal(receive("place/none/or/x", "n", WIRE_TREE_PARENTS,
	    0), 0);
	holds("place/none/or/x/a", "hi");
	assert_int_equal(receive("place/a/x", "n", WIRE_TREE_PARENTS, 0), -1);
	assert_int_equal(symlink("nowhere", "dangling"), 0);
	assert_int_equal(receive("dangling", "n", 0, 0), -1);
	assert_int_equal(receive("place", "..", 0, 0), -1);
	assert_int_equal(receive("place", "a/b", 0, 0), -1);
	assert_int_equal(receive("", "n", 0, 0), -1);
	holds("place/a", "hi");
	/* A file. */
	reset();
	write_stream("f chi . e11200");
	assert_int_equal(receive("place/f", "n", 0, 0), 0);
	holds("place/f", "hi");
	assert_int_equal(receive("place/f/", "n", 0, 0), -1);
	assert_int_equal(receive("place/g/", "n", 0, 0), -1);
	assert_int_equal(receive("place", "", 0, 0), -1);
	assert_int_equal(error.number, EISDIR);
	assert_int_equal(receive("place", "x", 0, 0), -1);
	assert_int_equal(error.number, EISDIR);
	assert_int_equal(symlink("canary", "to-file"), 0);
	assert_int_equal(receive("to-file", "n", 0, 0), 0);
	holds("canary", "hi");
}

static void
test_links_between_open_directories(void **state)
{
	struct stat a, b;

	(void)state;
	/* dir d is under a temporary name when its files are linked */
	write_stream("d dd fa chi . de hb=d/a . hc=d/e/b . . e61220");
	assert_int_equal(receive("place", "", 0, 0), 0);
	assert_int_equal(stat("place/d/a", &a), 0);
	assert_int_equal(stat("place/d/c", &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(a.st_nlink, 3);
}

static void
test_skipped_files_do_not_count(void **state)
{
	(void)state;
	write_stream("d fa chi xa fb cho . xc . e31202");
	assert_int_equal(receive("place/x", "", 0, 0), 0);
	assert_int_equal(access("place/x/a", F_OK), -1);
	holds("place/x/b", "ho");
	make("place/a", "old");
	assert_int_equal(receive("place", "", 0, 0), 0);
	holds("place/a", "old");
	holds("place/b", "ho");
}

static void
test_last_of_two_wins_where_it_existed(void **state)
{
	(void)state;
	write_stream("d fa c1 . fa c2 . . e32200");
	assert_int_equal(receive("place", "", 0, 0), 0);
	holds("place/a", "2");
	assert_int_equal(receive("place/new", "", 0, 0), -1);
	assert_int_equal(error.number, EEXIST);
	assert_int_equal(access("place/new", F_OK), -1);
}

/* ---- streams that lie ------------------------------------------------------ */

static const char *const lies[] = {
	/* names; %s could not be told from the word's end */
	"d f.. . . e21000", "d f. . . e21000", "d fa/b . . e21000",
	"d f/etc/x . . e21000", "d f . . e21000", "dx . e10000",
	"f../x . e11000", "d d.. fx . . . e41000", "d d/tmp . . e20000",
	/* a link, then something through it */
	"d sa=/tmp da fx . . . e41000", "d sa=.. da fcanary cX . . . e41100",
	"d sa=../.. fa cX . . e31100", "d sa=../canary fa cX . . e31100",
	"d sa=../../canary hb=a . e30010",
	/* hard links to elsewhere */
	"d ha=../canary . e20010", "d ha=/etc/passwd . e20010",
	"d ha=canary . e20010", "d ha=. . e20010", "d ha=.. . e20010",
	"d sa=../.. hb=a/canary . e30010", "d da . hb=a . e30010",
	"d fx . ha=x/ . e31010", "d fx . ha=/x . e31010", "h=x e10010",
	"d fa . ha=a . e31010",
	/* twice, and two kinds of one name */
	"d fa . fa . . e32000", "d da . da . . e30000", "d fa . da . . e31000",
	"d da . fa . . e31000", "d sa=x sa=y . e30000", "d fa . sa=x . e31000",
	/* kinds that are none */
	"d 0a . . e20000", "d 9a . . e20000", "9 . e10000",
	/* what does not fit */
	"d fa fb . . . e32000", "d fa db . . . e31000", "d ca . e10100",
	"d o9 . e10000", "d fa o- . . e21000", "d fa o63 . . e21000",
	"d fa o62 o62 . . e21000", "d fa o62 . . e21000",
	"d . . e10000", "d . d . e20000", "d . cx e10100", ". e00000",
	"cx e00100", "x e00001", "e00000", "d e10000", "d fa e21000",
	"d fa . . e20000", "d fa . . e31000", "d fa chi . . e21300",
	"d fa . . e21010", "d fa . . e21001", "d xa . e10000",
	"d fa . . e21000 . e21000", "d fa . . e21000 e21000", "d p . e10000",
	"d sa= . e20000", "d fa=x . . e21000", "d da=x . . e20000",
	"d fa ha=a . . e31010", "f cx xa e11101", "", "d", "d fa", "d fa cx",
	"d fa cx .", "d fa cx . ."
};

static void
test_lies(void **state)
{
	struct wire msg;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		reset();
		write_stream(lies[i]);
		if (receive("place/new", "n", 0, 0) != -1 ||
		    !is_empty("place")) {
			fail_msg("\"%s\" was taken, or left something",
			    lies[i]);
		}
		holds("canary", "alive");
	}
	/* What the scripts cannot say. */
	for (i = 0; i < 6; i++) {
		reset();
		write_stream("d");
		msg = entry(WIRE_ENTRY_FILE, "a", "");
		switch (i) {
		case 0:
			msg.u.entry.nanoseconds = 1000000000;
			break;
		case 1:
			msg.u.entry.nanoseconds = (1u << 30) - 1;
			break;
		case 2:
			msg.u.entry.name = (struct wire_bytes){
			    (const uint8_t *)"a\0b", 3 };
			break;
		case 3:
			msg = entry(WIRE_ENTRY_SYMLINK, "a", "x");
			msg.u.entry.target = (struct wire_bytes){
			    (const uint8_t *)"a\0b", 3 };
			break;
		case 4:
			raw("\xff\xff\xff\xff", 4);	/* 4 GiB to come */
			break;
		default:
			raw("\0\0\0\0", 4);		/* no message at all */
			break;
		}
		tell(&msg);
		write_stream(i == 3 ? ". e20000" : ". . e21000");
		assert_int_equal(receive("place/new", "n", 0, 0), -1);
		assert_true(is_empty("place"));
	}
}

/* The same where something is: it stays what it was. */
static void
test_lies_over_what_is_there(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		assert_int_equal(mkdir("place/n", 0750), 0);
		make("place/n/kept", "kept");
		assert_int_equal(symlink("../../canary", "place/n/out"), 0);
		reset();
		write_stream(lies[i]);
		receive("place", "n", 0, 0);
		holds("place/n/kept", "kept");
		holds("canary", "alive");
		/* Nothing but what may have come whole. */
		unlink("place/n/kept");
		unlink("place/n/out");
		unlink("place/n/a");
		rmdir("place/n/a");
		unlink("place/n/b");
		unlink("place/n/x");
		if (rmdir("place/n") == -1 || !is_empty("place")) {
			fail_msg("\"%s\" left something", lies[i]);
		}
	}
}

/* Wherever a good stream is cut. */
static void
test_cuts(void **state)
{
	off_t len;
	ssize_t n;
	uint8_t whole[4096];

	(void)state;
	write_stream("d dd fa chi . sl=x . hb=d/a . e51210");
	n = pread(stream, whole, sizeof(whole), 0);
	assert_int_equal(receive("place/new", "", 0, 0), 0);
	assert_int_equal(beneath_remove(AT_FDCWD, "place/new"), 0);
	for (len = 0; len < n; len++) {
		reset();
		raw(whole, (size_t)len);
		assert_int_equal(receive("place/new", "", 0, 0), -1);
		assert_int_equal(error.step, WIRE_STEP_PROTOCOL);
		assert_int_equal(settled, 0);
		assert_true(is_empty("place"));
	}
}

static void
test_limits(void **state)
{
	int before, after;
	unsigned i;

	(void)state;
	write_stream("d fa . fb . fc . . e43000");
	assert_int_equal(receive("place/new", "", 0, 3), -1);
	assert_true(is_empty("place"));
	assert_int_equal(receive("place/new", "", 0, 4), 0);
	assert_int_equal(beneath_remove(AT_FDCWD, "place/new"), 0);
	/* Without end deeper, and no descriptors left behind. */
	reset();
	write_stream("d");
	for (i = 0; i < 2 * BUNDLE_DEPTH; i++) {
		write_stream("dd");
	}
	for (i = 0; i < 3; i++) {
		before = dup(0);
		close(before);
		assert_int_equal(receive("place/new", "", 0, 0), -1);
		assert_true(is_empty("place"));
		after = dup(0);
		close(after);
		assert_int_equal(before, after);
	}
}

static void
test_settle_decides(void **state)
{
	struct bundle_sink sink = { .in = stream, .path = "place/new",
	    .name = "", .settle = settle, .ctx = &sink };

	(void)state;
	write_stream("d fa chi . . e21200");
	lseek(stream, 0, SEEK_SET);
	assert_int_equal(bundle_receive(&sink, &got, &error), -1);
	assert_int_equal(error.number, ECANCELED);
	assert_true(is_empty("place"));
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_round_trip), T(test_once_more_over_it),
		T(test_holes), T(test_many_links), T(test_unreadable), T(test_too_deep),
		T(test_places), T(test_links_between_open_directories),
		T(test_skipped_files_do_not_count),
		T(test_last_of_two_wins_where_it_existed), T(test_lies),
		T(test_lies_over_what_is_there), T(test_cuts), T(test_limits),
		T(test_settle_decides)
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
