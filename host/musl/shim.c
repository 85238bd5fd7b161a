/* SPDX-License-Identifier: MIT */
/*
 * shim.c - what Debian's libyaml.a and libsodium.a lack under musl.
 *
 * Linked into the static build of the host program only, the wheel's: the
 * checked forms that glibc's headers had them compiled with.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __explicit_bzero_chk(void *at, size_t len, size_t room);
int __sprintf_chk(char *at, int flag, size_t room, const char *format, ...);

void
__explicit_bzero_chk(void *at, size_t len, size_t room)
{
	(void)room;
	explicit_bzero(at, len);
}

int
__sprintf_chk(char *at, int flag, size_t room, const char *format, ...)
{
	va_list args;
	int n;

	(void)flag;
	va_start(args, format);
	n = vsnprintf(at, room, format, args);
	va_end(args);
	if (n >= 0 && (size_t)n >= room) {
		abort();
	}
	return n;
}
