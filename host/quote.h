/* SPDX-License-Identifier: MIT */
/*
 * quote.h - makes remote bytes safe to print on a terminal or in a log.
 *
 * Whatever came from an agent, a transport's child, a client or another
 * program goes through here before a person sees it: control characters and
 * bytes that are not UTF-8 become escapes, so nothing can move the cursor,
 * forge a line or set a title.
 */
#ifndef QUOTE_H
#define QUOTE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Write data[len] into out[cap] as one printable line: \n, \r, \t, \\ and
 * \xHH for the rest.  Always NUL-terminated when cap > 0; what does not fit
 * is cut between characters and ends in "...".  Returns the length written,
 * without the NUL.
 */
size_t quote_bytes(char *out, size_t cap, const uint8_t *data, size_t len);

/* The same for a C string. */
size_t quote_text(char *out, size_t cap, const char *text);

/*
 * The length (1 to 4) of the valid, printable UTF-8 character at data[len],
 * or 0 if the first byte is a control byte or begins no such character.
 * C1 controls, bidirectional overrides and the line separators count as
 * unprintable.
 */
size_t quote_utf8(const uint8_t *data, size_t len);

/* The length of any valid UTF-8 character (controls too), else 0. */
size_t quote_utf8_any(const uint8_t *data, size_t len);

/*
 * Append printf-like text to out[cap], of which used bytes are text; returns
 * the new length, cut to fit.
 */
size_t quote_add(char *out, size_t cap, size_t used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
