/* SPDX-License-Identifier: MIT */
/*
 * shim.c - what the agent tells Debian's libsodium.a at link time.
 *
 * Linked into the musl builds of the agent only: the one glibc symbol that
 * the library lacks there; sodium_init()'s set-up of two algorithms that the
 * protocol does not use, which alone would link both in; and one BLAKE2b for
 * this processor's family instead of three.  A tenth of the program in all.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void __explicit_bzero_chk(void *at, size_t len, size_t room);
int _crypto_pwhash_argon2_pick_best_implementation(void);
int _crypto_stream_salsa20_pick_best_implementation(void);

void
__explicit_bzero_chk(void *at, size_t len, size_t room)
{
	(void)room;
	explicit_bzero(at, len);
}

int
_crypto_pwhash_argon2_pick_best_implementation(void)
{
	return 0;
}

int
_crypto_stream_salsa20_pick_best_implementation(void)
{
	return 0;
}

#ifdef __x86_64__
/* A processor that has the faster two has this one too, nearly as fast. */
int blake2b_compress_ssse3(void *state, const uint8_t *block);
int blake2b_compress_sse41(void *state, const uint8_t *block);
int blake2b_compress_avx2(void *state, const uint8_t *block);

int
blake2b_compress_sse41(void *state, const uint8_t *block)
{
	return blake2b_compress_ssse3(state, block);
}

int
blake2b_compress_avx2(void *state, const uint8_t *block)
{
	return blake2b_compress_ssse3(state, block);
}
#endif
