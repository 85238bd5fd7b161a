/* SPDX-License-Identifier: MIT */
/*
 * shim.c - the one glibc symbol that Debian's libsodium.a needs from musl.
 *
 * Linked into the musl builds of the agent only.
 */
#include <stddef.h>
#include <string.h>

void __explicit_bzero_chk(void *at, size_t len, size_t room);

void
__explicit_bzero_chk(void *at, size_t len, size_t room)
{
	(void)room;
	explicit_bzero(at, len);
}
