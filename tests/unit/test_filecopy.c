/* SPDX-License-Identifier: MIT */
/* test_filecopy.c - holes, START from a liar, heads in pieces, names. */
#include "filecopy.h"

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

#define BLOCK 4096u
#define MIB (1u << 20)

static struct filecopy copy, other;

/* A nameless file on a file system that knows holes. */
static int
new_file(void)
{
	char path[] = "/tmp/sandmux-filecopy-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	return fd;
}

static void
data(int fd, off_t at, size_t len)
{
	char *buf = malloc(len);

	memset(buf, 'x', len);
	assert_int_equal(pwrite(fd, buf, len, at), (ssize_t)len);
	free(buf);
}

/* ---- scan and START --------------------------------------------------- */

/*
 * What one end scans the other one takes, and both walk the same offsets:
 * outside them the file has zeros alone.
 */
static void
walk(int fd, uint64_t from)
{
	struct wire_start start = filecopy_start(&copy);
	uint64_t done = from, n;
	struct stat st;
	char byte;

	assert_int_equal(filecopy_accept(&other, &start), 0);
	assert_int_equal(fstat(fd, &st), 0);
	while (copy.at < (uint64_t)st.st_size) {
		assert_int_equal(other.at, copy.at);
		assert_int_equal(other.left, copy.left);
		for (; done < copy.at; done += BLOCK) {
			assert_int_equal(pread(fd, &byte, 1, (off_t)done), 1);
			assert_int_equal(byte, 0);
		}
		/* Not in one step, as the bytes come. */
		n = copy.left != WIRE_TO_END ? copy.left :
		    (uint64_t)st.st_size - copy.at;
		n = n < 1000 ? n : 1000;
		done = copy.at + n;
		filecopy_moved(&other, n);
		filecopy_moved(&copy, n);
	}
	assert_int_equal(copy.at, other.at);
	assert_int_equal(copy.left, WIRE_TO_END);
	assert_int_equal(copy.at, (uint64_t)st.st_size);
}

static void
test_holes_are_found(void **state)
{
	int fd = new_file();

	(void)state;
	data(fd, MIB, BLOCK);
	data(fd, 3 * MIB, 2 * BLOCK);
	assert_int_equal(ftruncate(fd, 5 * MIB), 0);
	filecopy_scan(&copy, fd, 0, false);
	if (copy.count == 0) {
		close(fd);
		skip();			/* it does not know its holes */
	}
	assert_int_equal(copy.at, MIB);
	assert_int_equal(copy.left, BLOCK);
	assert_int_equal(copy.count, 3);	/* and the end */
	walk(fd, 0);
	/* From the middle of what is data. */
	filecopy_scan(&copy, fd, 3 * MIB + 5, false);
	assert_int_equal(copy.at, 3 * MIB + 5);
	walk(fd, 3 * MIB + 5);
	filecopy_scan(&copy, fd, 0, true);
	assert_int_equal(copy.count, 0);
	assert_int_equal(copy.at, 0);
	assert_int_equal(copy.left, WIRE_TO_END);
	close(fd);
}

/* What lies behind the last extent there is room for is sent as it is. */
static void
test_more_holes_than_extents(void **state)
{
	int fd = new_file();
	unsigned i;

	(void)state;
	for (i = 0; i < WIRE_EXTENTS_MAX + 100; i++) {
		data(fd, (off_t)i * 4 * BLOCK, BLOCK);
	}
	assert_int_equal(ftruncate(fd, (off_t)i * 4 * BLOCK), 0);
	filecopy_scan(&copy, fd, 0, false);
	if (copy.count < 2) {
		close(fd);
		skip();
	}
	assert_int_equal(copy.count, WIRE_EXTENTS_MAX);
	walk(fd, 0);
	close(fd);
}

static void
test_a_whole_file_and_none(void **state)
{
	int fd = new_file();
	struct wire_start start;

	(void)state;
	data(fd, 0, 10000);
	filecopy_scan(&copy, fd, 0, false);
	start = filecopy_start(&copy);
	assert_int_equal(start.flags, 0);
	assert_int_equal(start.size, 10000);
	assert_int_equal(start.extents.len, 0);
	/* A pipe has no size and no holes. */
	close(fd);
	fd = open("/dev/null", O_RDONLY);
	filecopy_scan(&copy, fd, 7, false);
	start = filecopy_start(&copy);
	assert_int_equal(start.size, 0);
	assert_int_equal(start.from, 7);
	assert_int_equal(start.flags, 0);
	close(fd);
}

/* ---- a liar's START --------------------------------------------------- */

#define MAX ((uint64_t)INT64_MAX)
#define END WIRE_TO_END

static const struct lie {
	const char *what;
	bool good;
	uint64_t from, size;
	unsigned count;
	uint64_t extents[6];		/* offset, length */
	uint32_t cut;			/* bytes off their end */
} lies[] = {
	{ "none", false, 0, 9, 0, { 0 }, 0 },
	{ "the end alone", true, 0, 9, 1, { 9, END }, 0 },
	{ "data, end", true, 0, 9, 2, { 0, 5, 8, END }, 0 },
	{ "side by side", true, 0, 9, 2, { 0, 8, 8, END }, 0 },
	{ "no end", false, 0, 9, 1, { 0, 5 }, 0 },
	{ "an end within", false, 0, 9, 2, { 0, END, 8, END }, 0 },
	{ "overlap", false, 0, 9, 2, { 0, 9, 8, END }, 0 },
	{ "backwards", false, 0, 9, 2, { 8, 1, 0, END }, 0 },
	{ "before from", false, 5, 9, 1, { 4, END }, 0 },
	{ "at from", true, 5, 9, 1, { 5, END }, 0 },
	{ "length 0", false, 0, 9, 2, { 0, 0, 8, END }, 0 },
	{ "half an extent", false, 0, 9, 2, { 0, 5, 8, END }, 8 },
	{ "a byte less", false, 0, 9, 1, { 8, END }, 1 },
	{ "the largest offset", true, 0, MAX, 1, { MAX, END }, 0 },
	{ "one more", false, 0, MAX, 1, { MAX + 1, END }, 0 },
	{ "2^64-1", false, 0, 9, 1, { UINT64_MAX, END }, 0 },
	{ "up to the largest", true, 0, 9, 2, { 1, MAX - 1, MAX, END }, 0 },
	{ "beyond it", false, 0, 9, 2, { 1, MAX, MAX, END }, 0 },
	{ "round to 0", false, 0, 9, 2, { 8, UINT64_MAX - 8, 9, END }, 0 },
	{ "size", false, 0, MAX + 1, 1, { 8, END }, 0 },
	{ "from", false, MAX + 1, 9, 1, { MAX + 1, END }, 0 },
};

static void
test_lies(void **state)
{
	uint8_t extents[3 * WIRE_EXTENT_BYTES];
	const struct lie *lie;
	struct wire_start start;
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		lie = &lies[i];
		for (j = 0; j < 2 * lie->count; j++) {
			wire_number_put(extents + 8 * j, lie->extents[j], 8);
		}
		start = (struct wire_start){ .flags = WIRE_START_SPARSE,
		    .from = lie->from, .size = lie->size, .extents = {
		    extents, lie->count * WIRE_EXTENT_BYTES - lie->cut } };
		if ((filecopy_accept(&copy, &start) == 0) != lie->good) {
			fail_msg("%s", lie->what);
		}
	}
}

static void
test_too_many_extents(void **state)
{
	static uint8_t extents[(WIRE_EXTENTS_MAX + 1) * WIRE_EXTENT_BYTES];
	struct wire_start start = { .flags = WIRE_START_SPARSE };
	unsigned i;

	(void)state;
	for (i = 0; i <= WIRE_EXTENTS_MAX; i++) {
		wire_number_put(extents + i * WIRE_EXTENT_BYTES, 10 * i, 8);
		wire_number_put(extents + i * WIRE_EXTENT_BYTES + 8, i >=
		    WIRE_EXTENTS_MAX - 1 ? WIRE_TO_END : 5, 8);
	}
	start.extents = (struct wire_bytes){ extents, sizeof(extents) };
	assert_int_equal(filecopy_accept(&copy, &start), -1);
	start.extents.len -= WIRE_EXTENT_BYTES;
	assert_int_equal(filecopy_accept(&copy, &start), 0);
}

/* Without holes only `from` counts: no offset may pass what a file has. */
static void
test_from(void **state)
{
	struct wire_start start = { .from = MAX, .size = UINT64_MAX };

	(void)state;
	assert_int_equal(filecopy_accept(&copy, &start), 0);
	assert_int_equal(copy.at, MAX);
	start.from++;
	assert_int_equal(filecopy_accept(&copy, &start), -1);
}

/* ---- zeros ------------------------------------------------------------ */

static void
runs(uint64_t at, const uint8_t *bytes, size_t len, const size_t *want,
    bool first_hole)
{
	bool hole, expected = first_hole;
	size_t n;

	copy = (struct filecopy){ .at = at, .left = END, .zeros = true };
	for (; *want > 0; want++, expected = !expected) {
		n = filecopy_run(&copy, bytes, len, &hole);
		assert_int_equal(n, *want);
		assert_int_equal(hole, expected);
		filecopy_moved(&copy, n);
		bytes += n;
		len -= n;
	}
	assert_int_equal(len, 0);
}

static void
test_zeros_by_blocks(void **state)
{
	static uint8_t bytes[4 * BLOCK];
	bool hole = true;

	(void)state;
	memset(bytes + BLOCK, 'x', BLOCK);
	runs(0, bytes, sizeof(bytes), (const size_t[]){ BLOCK, BLOCK,
	    2 * BLOCK, 0 }, true);
	/* Blocks are the file's, wherever the bytes begin. */
	runs(10, bytes + 10, 2 * BLOCK, (const size_t[]){ BLOCK - 10, BLOCK,
	    10, 0 }, true);
	/* One byte makes a block: the zeros around it are written. */
	memset(bytes, 0, sizeof(bytes));
	bytes[2 * BLOCK - 1] = 'x';
	runs(0, bytes, sizeof(bytes), (const size_t[]){ BLOCK, BLOCK,
	    2 * BLOCK, 0 }, true);
	bytes[0] = 'x';
	runs(0, bytes, 3 * BLOCK, (const size_t[]){ 2 * BLOCK, BLOCK, 0 },
	    false);
	/* Nobody looks where it was not asked for. */
	copy = (struct filecopy){ .left = END };
	assert_int_equal(filecopy_run(&copy, bytes + 2 * BLOCK, BLOCK, &hole),
	    BLOCK);
	assert_false(hole);
}

/* ---- f(message) ------------------------------------------------------- */

static void
test_a_head_in_any_pieces(void **state)
{
	struct wire msg = { .type = WIRE_PARTIAL }, got;
	static struct filecopy_head head;
	uint8_t hash[WIRE_HASH], buf[64];
	size_t len, piece, at, n;
	ssize_t want;

	(void)state;
	memset(hash, 7, sizeof(hash));
	msg.u.partial.size = 0x0102030405060708;
	msg.u.partial.hash = (struct wire_bytes){ hash, sizeof(hash) };
	len = filecopy_head_put(&msg, buf, sizeof(buf));
	assert_int_equal(len, 4 + 1 + 8 + 4 + sizeof(hash));
	for (n = 0; n < len; n++) {
		assert_int_equal(filecopy_head_put(&msg, buf, n), 0);
	}
	filecopy_head_put(&msg, buf, sizeof(buf));
	for (piece = 1; piece <= len; piece++) {
		head.have = at = 0;
		while ((want = filecopy_head_wants(&head)) > 0) {
			n = (size_t)want < piece ? (size_t)want : piece;
			assert_true(at + n <= len);
			memcpy(head.buf + head.have, buf + at, n);
			head.have += n;
			at += n;
		}
		assert_int_equal(want, 0);
		assert_int_equal(at, len);
		assert_int_equal(filecopy_head_get(&head, WIRE_PARTIAL, &got),
		    0);
		assert_int_equal(got.u.partial.size, msg.u.partial.size);
		assert_memory_equal(got.u.partial.hash.at, hash,
		    sizeof(hash));
		assert_int_equal(filecopy_head_get(&head, WIRE_START, &got),
		    -1);
	}
}

/* Its length is the other end's word: more than the buffer is none. */
static void
test_a_head_that_is_too_long(void **state)
{
	static struct filecopy_head head;
	uint64_t max = sizeof(head.buf) - 4;

	(void)state;
	head.have = 4;
	wire_number_put(head.buf, max, 4);
	assert_int_equal(filecopy_head_wants(&head), (ssize_t)max);
	wire_number_put(head.buf, max + 1, 4);
	assert_int_equal(filecopy_head_wants(&head), -1);
	wire_number_put(head.buf, UINT32_MAX, 4);
	assert_int_equal(filecopy_head_wants(&head), -1);
}

/* ---- partial files, hashes -------------------------------------------- */

static void
test_partial_names(void **state)
{
	char name[256], out[256], twin[256];
	size_t len;

	(void)state;
	memset(name, 'n', sizeof(name));
	for (len = 1; len < 256; len++) {
		name[len] = '\0';
		filecopy_partial(name, out);
		assert_true(strlen(out) <= WIRE_NAME_MAX);
		assert_int_equal(strncmp(out, FILECOPY_PARTIAL,
		    strlen(FILECOPY_PARTIAL)), 0);
		if (len <= 238) {
			assert_string_equal(out + strlen(FILECOPY_PARTIAL),
			    name);
		}
		/* What differs at its end alone has another. */
		name[len - 1] = 'm';
		filecopy_partial(name, twin);
		assert_string_not_equal(out, twin);
		name[len - 1] = name[len] = 'n';
	}
}

static void
digest_of(int fd, uint64_t max, int rc, uint64_t at, uint8_t *out)
{
	struct seal_digest digest;
	uint64_t got = 0;

	seal_digest_init(&digest);
	assert_int_equal(filecopy_hash(&digest, fd, &got, max), rc);
	assert_int_equal(got, at);
	seal_digest_get(&digest, out);
}

static void
test_hashes(void **state)
{
	uint8_t a[SEAL_KEY], b[SEAL_KEY];
	struct seal_digest digest;
	int fd = new_file();

	(void)state;
	data(fd, 70000, 3);		/* 70,000 zeros, "xxx" */
	digest_of(fd, WIRE_TO_END, 0, 70003, a);
	digest_of(fd, 70003, 1, 70003, b);
	assert_memory_equal(a, b, sizeof(a));
	digest_of(fd, 70002, 1, 70002, b);
	assert_memory_not_equal(a, b, sizeof(a));
	digest_of(fd, 70004, 0, 70003, b);
	assert_memory_equal(a, b, sizeof(a));
	digest_of(fd, 0, 1, 0, b);
	seal_digest_init(&digest);
	filecopy_hash_hole(&digest, 69999);
	filecopy_hash_hole(&digest, 0);
	filecopy_hash_hole(&digest, 1);
	seal_digest_add(&digest, (const uint8_t *)"xxx", 3);
	seal_digest_get(&digest, b);
	assert_memory_equal(a, b, sizeof(a));
	close(fd);
	digest_of(-1, 1, -1, 0, b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holes_are_found),
		cmocka_unit_test(test_more_holes_than_extents),
		cmocka_unit_test(test_a_whole_file_and_none),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_too_many_extents),
		cmocka_unit_test(test_from),
		cmocka_unit_test(test_zeros_by_blocks),
		cmocka_unit_test(test_a_head_in_any_pieces),
		cmocka_unit_test(test_a_head_that_is_too_long),
		cmocka_unit_test(test_partial_names),
		cmocka_unit_test(test_hashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
