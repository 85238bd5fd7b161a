/* SPDX-License-Identifier: MIT */
/*
 * argv.h - builds the argument vector of a program to run.
 *
 * A fixed room for words: what does not fit makes argv_words() return NULL,
 * so a caller adds everything and asks once.
 */
#ifndef ARGV_H
#define ARGV_H

#include <stdbool.h>
#include <stddef.h>

#define ARGV_WORDS 256
#define ARGV_BYTES 65536

struct argv {
	char *words[ARGV_WORDS + 1];	/* NULL-terminated, into text */
	size_t count, used;
	bool full;
	char text[ARGV_BYTES];
};

void argv_init(struct argv *argv);
void argv_add(struct argv *argv, const char *word);
void argv_format(struct argv *argv, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The vector, or NULL if something did not fit. */
char *const *argv_words(const struct argv *argv);

#endif
