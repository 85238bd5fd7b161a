/* SPDX-License-Identifier: MIT */
/*
 * wire.h - the frames between the stand-in's three programs, one host only.
 *
 * A frame is an 8-byte head {u32 length, u8 type, 3 zero bytes}, host order,
 * and its payload.  The CLI, the gateway and the supervisor call this; none
 * of it keeps state of its own.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_HEAD 8
#define WIRE_PIECE 4096			/* bytes of one message, each way */
#define WIRE_MAX (64u * 1024 * 1024)	/* largest payload of any frame */

enum wire_type {
	WIRE_LOOKUP = 1,	/* CLI: name; the answer is OK or FAIL */
	WIRE_EXEC,		/* CLI: see struct request */
	WIRE_START,		/* to the supervisor: flags, cols, rows, cmd */
	WIRE_OK,		/* u32 flag or text rows */
	WIRE_DATA,		/* stdin up, stdout down */
	WIRE_ERRDATA,		/* stderr down */
	WIRE_EOF,		/* no more stdin */
	WIRE_RESIZE,		/* u32 cols, u32 rows */
	WIRE_EXIT,		/* u32 status; the last frame of a link */
	WIRE_FAIL,		/* text of a gateway error; the last frame */
	WIRE_CREATE,
	WIRE_DELETE,
	WIRE_LIST,
	WIRE_PING,		/* gateway to supervisor; the answer is OK */
	WIRE_CONTROL		/* cut, freeze, thaw */
};

/* Bits of the flags in EXEC and START. */
enum wire_flag {
	WIRE_F_TTY = 1,
	WIRE_F_INTERACTIVE = 2,	/* stdin follows in DATA frames */
	WIRE_F_NO_LOGIN = 4,
	WIRE_F_STOP = 8,	/* nobody reads an orphaned tty any more */
	WIRE_F_AT_ONCE = 16,	/* a background child delays no exit */
	WIRE_F_BOUNDED = 32	/* input waits while the command reads none */
};

/* A growing byte string; starts as {0}.  Owns p. */
struct wire_buf {
	uint8_t *p;
	size_t len;
	size_t cap;
};

/* A bounded reader; err is sticky. */
struct wire_cur {
	const uint8_t *p;
	size_t left;
	int err;
};

/* Appending ends the program when there is no memory. */
void wire_put(struct wire_buf *b, const void *p, size_t n);
void wire_put_u32(struct wire_buf *b, uint32_t v);
void wire_put_str(struct wire_buf *b, const char *s);
void wire_put_bytes(struct wire_buf *b, const void *p, size_t n);
void wire_put_frame(struct wire_buf *b, enum wire_type t, const void *p,
    size_t n);
void wire_free(struct wire_buf *b);

uint32_t wire_get_u32(struct wire_cur *c);
/* Borrowed bytes of the payload; NULL with err set when malformed. */
const uint8_t *wire_get_bytes(struct wire_cur *c, size_t *n);
/* A borrowed C string; "" with err set when malformed. */
const char *wire_get_str(struct wire_cur *c);

/* Reads a head: payload length in *n; -1 when it cannot be one. */
int wire_head(const uint8_t *p, enum wire_type *t, size_t *n);

/* Blocking.  0, or -1 + errno. */
int wire_send(int fd, enum wire_type t, const void *p, size_t n);
/*
 * Blocking.  Replaces b by the next payload.  1 frame, 0 end of file between
 * frames, -1 + errno (a cut inside a frame is EPROTO).
 */
int wire_recv(int fd, enum wire_type *t, struct wire_buf *b);

/* Unix sockets by directory and name: no limit on the directory's length. */
int wire_connect(const char *dir, const char *name);
/* The same without waiting for a peer that does not accept. */
int wire_connect_now(const char *dir, const char *name);
int wire_listen(const char *dir, const char *name);

int64_t wire_now_ns(void);
int64_t wire_now_us(void);

#endif
