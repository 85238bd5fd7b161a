/* SPDX-License-Identifier: MIT */
/*
 * test_seal.c - the key schedule and sealing, against vectors that another
 * implementation made (tests/vectors/make_keys.py).
 *
 * It takes seal.c in as source: fixed key pairs are set from here, so that
 * the programs need no way to do so.
 */
#include "seal.c"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "vectors.h"

/* ---- the vectors ------------------------------------------------------ */

static const struct vector_line *
line(const struct vector_block *b, const char *word, unsigned nth)
{
	size_t i;

	for (i = 0; i < b->count; i++) {
		if (strcmp(b->lines[i].word, word) == 0 && nth-- == 0) {
			return &b->lines[i];
		}
	}
	fail_msg("no %s", word);
	return NULL;
}

static struct seal_binding
binding_of(const struct vector_block *b)
{
	return (struct seal_binding){
		.versions = line(b, "versions", 0)->text,
		.token = line(b, "token", 0)->text,
		.session = line(b, "session", 0)->text,
		.link = (uint32_t)strtoul(line(b, "link", 0)->text, NULL, 16),
		.host_key = line(b, "host_public", 0)->bytes,
		.hello = line(b, "hello", 0)->bytes,
		.hello_len = line(b, "hello", 0)->len
	};
}

/* Fix the pair; the public key must be the one of the other library. */
static struct seal *
fixed(enum seal_role role, const struct vector_block *b)
{
	const char *who = role == SEAL_HOST ? "host" : "core";
	struct seal *seal = seal_new(role);
	char word[32];

	assert_non_null(seal);
	snprintf(word, sizeof(word), "%s_secret", who);
	memcpy(seal->secret, line(b, word, 0)->bytes, SEAL_KEY);
	assert_int_equal(crypto_scalarmult_base(seal->public, seal->secret),
	    0);
	snprintf(word, sizeof(word), "%s_public", who);
	assert_memory_equal(seal->public, line(b, word, 0)->bytes, SEAL_KEY);
	return seal;
}

static void
one_end(enum seal_role role, const struct vector_block *b,
    struct seal_secret *secret)
{
	static const uint8_t zero[SEAL_KEY];
	struct seal *seal = fixed(role, b);
	struct seal_binding bind = binding_of(b);
	const char *way = role == SEAL_HOST ? "ah" : "ha";
	uint8_t header[SEAL_HEADER], plain[512];
	const struct vector_line *sealed, *text;
	char word[32];
	unsigned i;

	assert_int_equal(seal_derive(seal, secret, &bind,
	    line(b, role == SEAL_HOST ? "core_public" : "host_public", 0)
	    ->bytes, header), 0);
	assert_memory_equal(seal->t, line(b, "t", 0)->bytes, SEAL_KEY);
	assert_memory_equal(seal->open_key, line(b, role == SEAL_HOST ?
	    "k_ah" : "k_ha", 0)->bytes, SEAL_KEY);

	/* Records of the other implementation open, in order. */
	snprintf(word, sizeof(word), "%s_header", way);
	assert_int_equal(seal_accept(seal, line(b, word, 0)->bytes), 0);
	for (i = 0; i < 3; i++) {
		snprintf(word, sizeof(word), "%s_record", way);
		sealed = line(b, word, i);
		snprintf(word, sizeof(word), "%s_plain", way);
		text = line(b, word, i);
		assert_int_equal(seal_open(seal, plain, sealed->bytes + 4,
		    sealed->len - 4, sealed->bytes, 4), 0);
		assert_memory_equal(plain, text->bytes, text->len);
	}
	assert_int_equal(seal_settle(seal, secret, &bind), 0);
	assert_memory_equal(secret->s, line(b, "s", 0)->bytes, SEAL_KEY);
	assert_memory_equal(seal->secret, zero, SEAL_KEY);
	assert_memory_equal(seal->k_ha, zero, SEAL_KEY);
	assert_memory_equal(seal->k_ah, zero, SEAL_KEY);
	seal_free(seal);
}

static void
schedule(enum seal_role role)
{
	struct vector_file *file = vector_read("tests/vectors/keys.txt");
	struct seal_secret *secret = seal_secret_new();
	size_t i;

	assert_int_equal(file->count, 3);
	for (i = 0; i < file->count; i++) {
		one_end(role, &file->blocks[i], secret);
	}
	seal_secret_free(secret);
	vector_free(file);
}

static void
test_schedule_host(void **state)
{
	(void)state;
	schedule(SEAL_HOST);
}

static void
test_schedule_core(void **state)
{
	(void)state;
	schedule(SEAL_CORE);
}

/* ---- pairs of our own ------------------------------------------------- */

struct ends {
	struct seal *host, *core;
	struct seal_secret *hs, *cs;
	struct seal_binding hb, cb;
	uint8_t hh[SEAL_HEADER], ch[SEAL_HEADER];
};

static void
ends_make(struct ends *e, uint32_t link)
{
	static const uint8_t hello[3] = "hey";

	e->host = seal_new(SEAL_HOST);
	e->core = seal_new(SEAL_CORE);
	e->hb = (struct seal_binding){ "0001-0001", "token", "session", link,
	    seal_public(e->host), hello, sizeof(hello) };
	e->cb = e->hb;
}

static void
ends_drop(struct ends *e)
{
	seal_free(e->host);
	seal_free(e->core);
}

/* Whether a record each way opens at the other end. */
static bool
talk(struct ends *e)
{
	uint8_t ad[4] = { 0, 0, 0, 1 }, sealed[64], plain[64];

	if (seal_derive(e->host, e->hs, &e->hb, seal_public(e->core),
	    e->hh) == -1 || seal_derive(e->core, e->cs, &e->cb,
	    seal_public(e->host), e->ch) == -1 ||
	    seal_accept(e->host, e->ch) == -1 ||
	    seal_accept(e->core, e->hh) == -1) {
		return false;
	}
	return seal_push(e->core, sealed, (const uint8_t *)"up", 2, ad, 4) ==
	    0 && seal_open(e->host, plain, sealed, 2 + SEAL_OVERHEAD, ad,
	    4) == 0 && memcmp(plain, "up", 2) == 0 &&
	    seal_push(e->host, sealed, (const uint8_t *)"down", 4, ad, 4) ==
	    0 && seal_open(e->core, plain, sealed, 4 + SEAL_OVERHEAD, ad,
	    4) == 0 && memcmp(plain, "down", 4) == 0;
}

static void
settle(struct ends *e)
{
	assert_int_equal(seal_settle(e->host, e->hs, &e->hb), 0);
	assert_int_equal(seal_settle(e->core, e->cs, &e->cb), 0);
	assert_memory_equal(e->hs->s, e->cs->s, SEAL_KEY);
}

static void
test_two_links(void **state)
{
	struct ends e = { .hs = seal_secret_new(), .cs = seal_secret_new() };
	uint8_t first[SEAL_KEY];

	(void)state;
	ends_make(&e, 1);
	assert_true(talk(&e));
	assert_false(e.hs->set);
	settle(&e);
	ends_drop(&e);
	memcpy(first, e.hs->s, SEAL_KEY);
	ends_make(&e, 2);
	assert_true(talk(&e));
	settle(&e);
	assert_memory_equal(first, e.hs->s, SEAL_KEY);
	ends_drop(&e);
	seal_secret_free(e.hs);
	seal_secret_free(e.cs);
}

/* S belongs to every link but the first, and to none else. */
static void
test_secret_and_number(void **state)
{
	struct ends e = { .hs = seal_secret_new(), .cs = seal_secret_new() };

	(void)state;
	ends_make(&e, 2);
	assert_false(talk(&e));			/* none yet */
	assert_int_equal(seal_settle(e.host, e.hs, &e.hb), -1);
	ends_drop(&e);
	ends_make(&e, 1);
	assert_true(talk(&e));
	settle(&e);
	ends_drop(&e);
	ends_make(&e, 1);
	assert_false(talk(&e));			/* there already */
	ends_drop(&e);
	ends_make(&e, 3);
	e.cs->s[0] ^= 1;
	assert_false(talk(&e));			/* another session's */
	e.cs->s[0] ^= 1;
	ends_drop(&e);
	ends_make(&e, 3);
	assert_true(talk(&e));
	ends_drop(&e);
	seal_secret_free(e.hs);
	seal_secret_free(e.cs);
}

/* Each part of T counts, and so does its place. */
static void
test_binding(void **state)
{
	static const uint8_t other_hello[3] = "hex", other_key[SEAL_KEY];
	unsigned i;

	(void)state;
	for (i = 0; i < 8; i++) {
		struct ends e = { .hs = seal_secret_new(),
		    .cs = seal_secret_new() };

		ends_make(&e, 1);
		switch (i) {
		case 0:
			break;
		case 1:
			e.cb.versions = "0001-0002";
			break;
		case 2:
			e.cb.token = "tokem";
			break;
		case 3:
			/* the same bytes with another border */
			e.cb.token = "tokens";
			e.cb.session = "ession";
			break;
		case 4:
			e.cb.session = "sessiom";
			break;
		case 5:
			e.cb.host_key = other_key;
			break;
		case 6:
			e.cb.hello = other_hello;
			break;
		case 7:
			e.cb.hello_len = 2;
			break;
		}
		assert_int_equal(talk(&e), i == 0);
		ends_drop(&e);
		seal_secret_free(e.hs);
		seal_secret_free(e.cs);
	}
}

static void
test_link_number_bound(void **state)
{
	struct ends e = { .hs = seal_secret_new(), .cs = seal_secret_new() };

	(void)state;
	e.hs->set = e.cs->set = true;
	ends_make(&e, 7);
	e.cb.link = 8;
	assert_false(talk(&e));
	ends_drop(&e);
	ends_make(&e, 7);
	assert_true(talk(&e));
	ends_drop(&e);
	seal_secret_free(e.hs);
	seal_secret_free(e.cs);
}

/* Points of small order: X25519 gives zero, crypto_kx refuses. */
static void
test_weak_keys(void **state)
{
	uint8_t key[SEAL_KEY] = { 0 };
	struct ends e = { .hs = seal_secret_new(), .cs = seal_secret_new() };

	(void)state;
	ends_make(&e, 1);
	assert_int_equal(seal_derive(e.host, e.hs, &e.hb, key, e.hh), -1);
	key[0] = 1;
	assert_int_equal(seal_derive(e.host, e.hs, &e.hb, key, e.hh), -1);
	memset(key, 0xff, sizeof(key));
	key[0] = 0xed;
	key[31] = 0x7f;
	assert_int_equal(seal_derive(e.host, e.hs, &e.hb, key, e.hh), -1);
	/* Nothing can be sealed, opened or settled after that. */
	assert_int_equal(seal_push(e.host, key, e.hh, 1, NULL, 0), -1);
	assert_int_equal(seal_open(e.host, key, e.hh, SEAL_OVERHEAD + 1, NULL,
	    0), -1);
	assert_int_equal(seal_settle(e.host, e.hs, &e.hb), -1);
	/* The next candidate may still be the right one. */
	assert_true(talk(&e));
	ends_drop(&e);
	seal_secret_free(e.hs);
	seal_secret_free(e.cs);
}

static void
test_after_settle(void **state)
{
	struct ends e = { .hs = seal_secret_new(), .cs = seal_secret_new() };
	uint8_t header[SEAL_HEADER];

	(void)state;
	ends_make(&e, 1);
	assert_true(talk(&e));
	settle(&e);
	assert_int_equal(seal_derive(e.host, e.hs, &e.hb, seal_public(e.core),
	    header), -1);
	assert_int_equal(seal_settle(e.host, e.hs, &e.hb), -1);
	ends_drop(&e);
	seal_secret_free(e.hs);
	seal_secret_free(e.cs);
}

static void
test_forgery(void **state)
{
	struct ends e = { .hs = seal_secret_new(), .cs = seal_secret_new() };
	uint8_t ad[4] = { 0 }, a[24], b[24], plain[16];
	size_t i;

	(void)state;
	ends_make(&e, 1);
	assert_true(talk(&e));
	assert_int_equal(seal_push(e.core, a, (const uint8_t *)"first!!", 7,
	    ad, 4), 0);
	assert_int_equal(seal_push(e.core, b, (const uint8_t *)"second!", 7,
	    ad, 4), 0);
	assert_int_equal(seal_open(e.host, plain, b, 24, ad, 4), -1);
	for (i = 0; i < 24; i++) {
		a[i] ^= 0x80;
		assert_int_equal(seal_open(e.host, plain, a, 24, ad, 4), -1);
		a[i] ^= 0x80;
	}
	ad[3] ^= 1;
	assert_int_equal(seal_open(e.host, plain, a, 24, ad, 4), -1);
	ad[3] ^= 1;
	for (i = 0; i < 24; i++) {
		assert_int_equal(seal_open(e.host, plain, a, i, ad, 4), -1);
	}
	assert_int_equal(seal_open(e.host, plain, a, 24, ad, 4), 0);
	assert_memory_equal(plain, "first!!", 7);
	assert_int_equal(seal_open(e.host, plain, a, 24, ad, 4), -1);
	assert_int_equal(seal_open(e.host, plain, b, 24, ad, 4), 0);
	ends_drop(&e);
	seal_secret_free(e.hs);
	seal_secret_free(e.cs);
}

/* A record with another tag than MESSAGE is none of ours. */
static void
test_other_tag(void **state)
{
	struct ends e = { .hs = seal_secret_new(), .cs = seal_secret_new() };
	uint8_t sealed[24], plain[16];

	(void)state;
	ends_make(&e, 1);
	assert_true(talk(&e));
	assert_int_equal(crypto_secretstream_xchacha20poly1305_push(
	    &e.core->out, sealed, NULL, (const uint8_t *)"x", 1, NULL, 0,
	    crypto_secretstream_xchacha20poly1305_TAG_REKEY), 0);
	assert_int_equal(seal_open(e.host, plain, sealed, 18, NULL, 0), -1);
	ends_drop(&e);
	seal_secret_free(e.hs);
	seal_secret_free(e.cs);
}

/* ---- secrets ---------------------------------------------------------- */

static bool
zero(const void *page)
{
	const uint8_t *at = page;
	size_t i;

	for (i = 0; i < SEAL_PAGE; i++) {
		if (at[i] != 0) {
			return false;
		}
	}
	return true;
}

static void
test_not_in_children(void **state)
{
	struct ends e = { .hs = seal_secret_new(), .cs = seal_secret_new() };
	int status;
	pid_t pid;

	(void)state;
	ends_make(&e, 1);
	assert_true(talk(&e));
	settle(&e);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		_exit(zero(e.host) && zero(e.hs) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(zero(e.host) || zero(e.hs));
	/* Where the kernel does not do it, a child does. */
	seal_wipe(e.host);
	seal_secret_wipe(e.hs);
	assert_true(zero(e.host) && zero(e.hs));
	seal_wipe(NULL);
	seal_secret_wipe(NULL);
	seal_free(NULL);
	seal_secret_free(NULL);
	ends_drop(&e);
	seal_secret_free(e.hs);
	seal_secret_free(e.cs);
}

/* ---- hex, hashes ------------------------------------------------------ */

static void
test_hex(void **state)
{
	const uint8_t bytes[4] = { 0x00, 0x7f, 0xab, 0xff };
	uint8_t back[4];
	char text[9];

	(void)state;
	seal_hex(bytes, 4, text);
	assert_string_equal(text, "007fabff");
	assert_int_equal(seal_unhex(text, back, 4), 0);
	assert_memory_equal(back, bytes, 4);
	assert_int_equal(seal_unhex("007fabf", back, 4), -1);
	assert_int_equal(seal_unhex("007fabff0", back, 4), -1);
	assert_int_equal(seal_unhex("007FABFF", back, 4), -1);
	assert_int_equal(seal_unhex("007fabfg", back, 4), -1);
	assert_int_equal(seal_unhex(" 07fabff", back, 4), -1);
	assert_int_equal(seal_unhex("", back, 4), -1);
	assert_int_equal(seal_unhex("", back, 0), 0);
}

static void
test_hash(void **state)
{
	/* BLAKE2b-256 of "abc", by Python's hashlib */
	static const char abc[] = "bddd813c634239723171ef3fee98579b"
	    "94964e3bb1cb3e427262c8c068d52319";
	uint8_t hash[SEAL_KEY];
	char text[2 * SEAL_KEY + 1];
	int ends[2];

	(void)state;
	seal_hash("abc", 3, hash);
	seal_hex(hash, SEAL_KEY, text);
	assert_string_equal(text, abc);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "abc", 3), 3);
	close(ends[1]);
	assert_int_equal(seal_hash_fd(ends[0], hash), 0);
	seal_hex(hash, SEAL_KEY, text);
	assert_string_equal(text, abc);
	close(ends[0]);
	errno = 0;
	assert_int_equal(seal_hash_fd(ends[0], hash), -1);
	assert_int_equal(errno, EBADF);
}

static int
setup(void **state)
{
	(void)state;
	return seal_init();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedule_host),
		cmocka_unit_test(test_schedule_core),
		cmocka_unit_test(test_two_links),
		cmocka_unit_test(test_secret_and_number),
		cmocka_unit_test(test_binding),
		cmocka_unit_test(test_link_number_bound),
		cmocka_unit_test(test_weak_keys),
		cmocka_unit_test(test_after_settle),
		cmocka_unit_test(test_forgery),
		cmocka_unit_test(test_other_tag),
		cmocka_unit_test(test_not_in_children),
		cmocka_unit_test(test_hex),
		cmocka_unit_test(test_hash),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
