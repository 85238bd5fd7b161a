/* SPDX-License-Identifier: MIT */
/*
 * text.h - a bounded buffer for a text that comes over a request's OUT.
 *
 * For the answers of the controller: STATUS and LINKINFO.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TEXT_MAX 4194304u		/* bytes of an answer */

struct text {
	char *data;			/* owned; NUL-terminated unless NULL */
	size_t len, size;
};

/* A run_flow's move for OUT: append; EFBIG beyond TEXT_MAX. */
ssize_t text_append(void *text, void *data, size_t len);
void text_free(struct text *text);

/* Print on stdout, lines kept, all else quoted; 0, or -1 with errno. */
int text_print(const char *data, size_t len);

/*
 * Walk one JSON value and tell every scalar in it with its path ("a.b[2]"):
 * strings unescaped, other scalars as they stand.  0, or -1 if it is no JSON
 * (nested at most 16 deep); said may have been called before that.  NULL
 * only checks.
 */
int text_json(const char *data, size_t len,
    void (*said)(void *ctx, const char *path, const char *value, size_t len),
    void *ctx);

#endif
