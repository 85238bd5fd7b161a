/* SPDX-License-Identifier: MIT */
/* test_pool.c - slots: their number, their places, their memory. */
#include "pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define SLOTS 300

static void
check(const struct pool *pool, size_t used)
{
	assert_int_equal(pool->used, used);
	assert_int_equal(pool_left(pool), pool->count - used);
}

static void
test_all_slots(void **state)
{
	unsigned char *slots[SLOTS];
	struct pool pool;
	size_t i, k;

	(void)state;
	assert_int_equal(pool_init(&pool, 100, SLOTS), 0);
	check(&pool, 0);
	for (i = 0; i < SLOTS; i++) {
		slots[i] = pool_get(&pool);
		assert_non_null(slots[i]);
		assert_int_equal((uintptr_t)slots[i] % 64, 0);
		memset(slots[i], (int)i, 100);
		check(&pool, i + 1);
	}
	assert_null(pool_get(&pool));
	check(&pool, SLOTS);
	/* None overlaps another. */
	for (i = 0; i < SLOTS; i++) {
		for (k = 0; k < 100; k++) {
			assert_int_equal(slots[i][k], i % 256);
		}
	}
	for (i = 0; i < SLOTS; i++) {
		pool_put(&pool, slots[i]);
	}
	check(&pool, 0);
	for (i = 0; i < SLOTS; i++) {
		assert_non_null(pool_get(&pool));
	}
	assert_null(pool_get(&pool));
	pool_put(&pool, NULL);
	check(&pool, SLOTS);
	pool_free(&pool);
	pool_free(&pool);
}

/* Random gets, puts and trims: what is in use is never touched. */
static void
test_contents_stay(void **state)
{
	static unsigned char *slots[64];
	unsigned seed = 7, round, i, k, used = 0;
	struct pool pool;

	(void)state;
	assert_int_equal(pool_init(&pool, 20000, 64), 0);
	for (round = 0; round < 20000; round++) {
		i = (unsigned)rand_r(&seed) % 64;
		if (rand_r(&seed) % 100 == 0) {
			pool_trim(&pool);
		}
		if (slots[i] == NULL) {
			slots[i] = pool_get(&pool);
			assert_non_null(slots[i]);
			for (k = 0; k < 20000; k += 500) {
				slots[i][k] = (unsigned char)i;
			}
			slots[i][19999] = (unsigned char)i;
			used++;
		} else {
			for (k = 0; k < 20000; k += 500) {
				assert_int_equal(slots[i][k], i);
			}
			assert_int_equal(slots[i][19999], i);
			pool_put(&pool, slots[i]);
			slots[i] = NULL;
			used--;
		}
		check(&pool, used);
	}
	pool_free(&pool);
}

static size_t
resident(const struct pool *pool)
{
	size_t bytes = pool->slot * pool->count, pages = (bytes + 4095) / 4096;
	unsigned char *map = malloc(pages);
	size_t i, n = 0;

	assert_int_equal(mincore(pool->base, bytes, map), 0);
	for (i = 0; i < pages; i++) {
		n += map[i] & 1;
	}
	free(map);
	return n * 4096;
}

static void
test_memory_goes_back(void **state)
{
	void *slots[128];
	struct pool pool;
	size_t i;

	(void)state;
	assert_int_equal(pool_init(&pool, 32768, 128), 0);
	assert_int_equal(resident(&pool), 0);
	for (i = 0; i < 128; i++) {
		slots[i] = pool_get(&pool);
		memset(slots[i], 1, 32768);
	}
	assert_int_equal(resident(&pool), 128 * 32768);
	for (i = 1; i < 128; i++) {
		pool_put(&pool, slots[i]);
	}
	/* What is in use stays, and of each free slot its first page. */
	pool_trim(&pool);
	assert_true(resident(&pool) <= 32768 + 127 * 4096);
	for (i = 0; i < 32768; i++) {
		assert_int_equal(((char *)slots[0])[i], 1);
	}
	pool_put(&pool, slots[0]);
	pool_trim(&pool);
	assert_int_equal(resident(&pool), 0);
	check(&pool, 0);
	for (i = 0; i < 128; i++) {
		assert_non_null(pool_get(&pool));
	}
	assert_null(pool_get(&pool));
	pool_free(&pool);
}

/* A child has no mapping there at all. */
static void
test_not_in_children(void **state)
{
	unsigned char *slot, map[16];
	struct pool pool;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(pool_init(&pool, 4096, 16), 0);
	slot = pool_get(&pool);
	slot[0] = 'x';
	pid = fork();
	if (pid == 0) {
		_exit(mincore(pool.base, 4096, map) == -1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(slot[0], 'x');
	pool_free(&pool);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_slots),
		cmocka_unit_test(test_contents_stay),
		cmocka_unit_test(test_memory_goes_back),
		cmocka_unit_test(test_not_in_children),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
