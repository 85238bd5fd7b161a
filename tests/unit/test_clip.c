/* SPDX-License-Identifier: MIT */
/* test_clip.c - the head, the tail and both of a stream, in any pieces. */
#include "clip.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define TOTAL 300000u

static uint8_t text[TOTAL];

/* Push the text in pieces below most; what came out is in out[TOTAL]. */
static size_t
push(struct clip *clip, size_t most, uint8_t *out)
{
	struct stdfd fd;
	char path[] = "/tmp/clip-XXXXXX";
	int file = mkstemp(path);
	size_t at, n;
	ssize_t done, len;

	assert_true(file >= 0);
	unlink(path);
	stdfd_open(&fd, file, true);
	clip->fd = &fd;
	for (at = 0; at < TOTAL; at += (size_t)done) {
		n = (size_t)rand() % most + 1;
		n = n < TOTAL - at ? n : TOTAL - at;
		done = clip_move(clip, text + at, n);
		assert_true(done > 0);
	}
	assert_int_equal(clip_finish(clip), 1);
	len = pread(file, out, TOTAL, 0);
	assert_true(len >= 0);
	stdfd_close(&fd);
	close(file);
	return (size_t)len;
}

static void
one(enum clip_keep keep, uint64_t limit, size_t most)
{
	static uint8_t out[TOTAL];
	struct clip clip;
	size_t head, tail, len;

	clip_init(&clip, NULL, keep, limit);
	len = push(&clip, most, out);
	assert_int_equal(clip.seen, TOTAL);
	assert_int_equal(clip.shown, len);
	assert_true(clip.size <= limit);
	assert_int_equal(clip_cut(&clip), limit < TOTAL);
	if (limit >= TOTAL) {
		assert_int_equal(len, TOTAL);
		assert_memory_equal(out, text, TOTAL);
	} else {
		head = keep == CLIP_TAIL ? 0 : keep == CLIP_HEAD ? limit :
		    limit - limit / 2;
		tail = limit - head;
		assert_int_equal(len, limit);
		assert_memory_equal(out, text, head);
		assert_memory_equal(out + head, text + TOTAL - tail, tail);
	}
	clip_free(&clip);
}

static void
test_all(void **state)
{
	static const uint64_t limits[] = { 0, 1, 2, 3, 65535, 65536, 65537,
	    131071, 131072, 131073, TOTAL - 1, TOTAL, TOTAL + 1,
	    UINT64_C(1) << 29, UINT64_MAX };
	static const size_t most[] = { 7000, 65536, 140000, TOTAL };
	size_t i, j;
	int keep;

	(void)state;
	for (i = 0; i < TOTAL; i++) {
		text[i] = (uint8_t)rand();
	}
	for (keep = CLIP_HEAD; keep <= CLIP_BOTH; keep++) {
		for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
			for (j = 0; j < 4; j++) {
				one((enum clip_keep)keep, limits[i], most[j]);
			}
		}
	}
}

/* A pipe takes what it can; the rest is asked for again. */
static void
test_slow(void **state)
{
	static uint8_t got[200000];
	struct stdfd fd;
	struct clip clip;
	size_t have = 0;
	ssize_t n;
	int ends[2], rc;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	stdfd_open(&fd, ends[1], true);
	clip_init(&clip, &fd, CLIP_BOTH, 200000);
	n = clip_move(&clip, text, 150000);
	assert_true(n > 0 && n < 100000);
	errno = 0;
	assert_int_equal(clip_move(&clip, text + n, 10), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(clip.seen, n);
	have = (size_t)read(ends[0], got, sizeof(got));
	while (clip.seen < TOTAL) {
		n = clip_move(&clip, text + clip.seen, TOTAL - clip.seen);
		assert_true(n > 0 || errno == EAGAIN);
		if (n < 0) {
			n = read(ends[0], got + have, sizeof(got) - have);
			have += (size_t)n;
		}
	}
	do {
		rc = clip_finish(&clip);
		assert_true(rc >= 0);
		n = read(ends[0], got + have, sizeof(got) - have);
		have += (size_t)n;
	} while (rc == 0 || have < 200000);
	assert_memory_equal(got, text, 100000);
	assert_memory_equal(got + 100000, text + TOTAL - 100000, 100000);
	clip_free(&clip);
	stdfd_close(&fd);
	close(ends[0]);
	close(ends[1]);
}

/* No more is held than came. */
static void
test_memory(void **state)
{
	static uint8_t out[TOTAL];
	struct clip clip;

	(void)state;
	clip_init(&clip, NULL, CLIP_TAIL, CLIP_TAIL_MAX);
	assert_int_equal(push(&clip, 5000, out), TOTAL);
	assert_true(clip.size < 4 * TOTAL);
	clip_free(&clip);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
