/* SPDX-License-Identifier: MIT */
/*
 * shim.c - what the agent tells Debian's libsodium.a at link time.
 *
 * Linked into the musl builds of the agent only: the one glibc symbol that
 * the library lacks there, and sodium_init()'s set-up of two algorithms that
 * the protocol does not use.  Without ours, that set-up alone would link
 * both in, a tenth of the program.
 */
#include <stddef.h>
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
