/* SPDX-License-Identifier: MIT */
/*
 * request.h - one exec as the CLI asks for it, with the gateway's checks.
 *
 * The CLI packs it, the gateway unpacks, refuses or turns it into the one
 * string that bash gets.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include "wire.h"

#define REQUEST_MESSAGE_MAX 1048576	/* the gateway's largest message */
#define REQUEST_STDIN_MAX (4 * 1024 * 1024)	/* the CLI's own limit */
#define REQUEST_ARGS 1024
#define REQUEST_ARG_MAX (32 * 1024)
#define REQUEST_COMMAND_MAX (256 * 1024)
#define REQUEST_WORKDIR_MAX 4096

/* All pointers borrowed; the arrays are owned after request_unpack. */
struct request {
	const char *name;
	uint32_t flags;		/* enum wire_flag */
	uint32_t cols;
	uint32_t rows;
	uint32_t timeout;	/* seconds, 0 for none */
	const char *workdir;	/* "" for none */
	const char **env;	/* KEY=VALUE */
	uint32_t nenv;
	const char **argv;
	uint32_t argc;
	const uint8_t *input;
	size_t input_len;
};

void request_pack(struct wire_buf *b, const struct request *rq);
/* 0, or -1 for a malformed payload; the strings point into p. */
int request_unpack(struct request *rq, const uint8_t *p, size_t n);
void request_free(struct request *rq);

/* Bytes of this request as the real one's message. */
size_t request_size(const struct request *rq);
/* NULL when all is well, else the error text (static storage). */
const char *request_check(const struct request *rq);
/* The string for bash.  0, or -1 when it is too long. */
int request_command(struct wire_buf *b, const struct request *rq);

/* Keys are [A-Za-z_][A-Za-z0-9_]* and not OPENSHELL_*; NULL or an error. */
const char *request_check_key(const char *pair);

#endif
