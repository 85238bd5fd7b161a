/* SPDX-License-Identifier: MIT */
/* argv.c - words for a program's argument vector, in a fixed room. */
#include "argv.h"

#include <stdarg.h>
#include <stdio.h>

void
argv_init(struct argv *argv)
{
	argv->count = argv->used = 0;
	argv->full = false;
	argv->words[0] = NULL;
}

void
argv_add(struct argv *argv, const char *word)
{
	argv_format(argv, "%s", word);
}

void
argv_format(struct argv *argv, const char *format, ...)
{
	size_t left = sizeof(argv->text) - argv->used;
	va_list ap;
	int n;

	if (argv->full || argv->count == ARGV_WORDS) {
		argv->full = true;
		return;
	}
	va_start(ap, format);
	n = vsnprintf(argv->text + argv->used, left, format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= left) {
		argv->full = true;
		return;
	}
	argv->words[argv->count++] = argv->text + argv->used;
	argv->words[argv->count] = NULL;
	argv->used += (size_t)n + 1;
}

char *const *
argv_words(const struct argv *argv)
{
	return argv->full ? NULL : argv->words;
}
