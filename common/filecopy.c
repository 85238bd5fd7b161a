/* SPDX-License-Identifier: MIT */
/* filecopy.c - holes, START and partial files, for both ends of a copy. */
#include "filecopy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_KEPT 200u			/* of a name that is too long */
#define PIECE 65536u
#define BLOCK 4096u			/* holes have this size at least */

static uint8_t nothing[BLOCK];		/* in no file: the agent is small */

/* Go to the next extent. */
static void
enter(struct filecopy *c)
{
	const uint8_t *extent = c->extents + c->next * WIRE_EXTENT_BYTES;

	c->at = wire_number_get(extent, 8);
	c->left = wire_number_get(extent + 8, 8);
	c->next++;
}

static void
add(struct filecopy *c, uint64_t offset, uint64_t length)
{
	uint8_t *extent = c->extents + c->count * WIRE_EXTENT_BYTES;

	wire_number_put(extent, offset, 8);
	wire_number_put(extent + 8, length, 8);
	c->count++;
}

#ifdef SEEK_DATA
/* Note all data before the end; what is behind the last extent is sent. */
static void
scan(struct filecopy *c, int fd, off_t size)
{
	off_t at = (off_t)c->from, data, hole;

	for (;;) {
		data = lseek(fd, at, SEEK_DATA);
		if (data < 0 && errno != ENXIO) {
			c->count = 0;		/* it cannot tell */
			return;
		}
		/* A file that grows does so behind what it was. */
		if (data < 0 || data >= size) {
			add(c, (uint64_t)size, WIRE_TO_END);
			return;
		}
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0 || hole >= size ||
		    c->count == WIRE_EXTENTS_MAX - 1) {
			add(c, (uint64_t)data, WIRE_TO_END);
			return;
		}
		add(c, (uint64_t)data, (uint64_t)(hole - data));
		at = hole;
	}
}
#endif

void
filecopy_scan(struct filecopy *c, int fd, uint64_t from, bool dense)
{
	struct stat st;

	c->at = c->from = from;
	c->left = WIRE_TO_END;
	c->size = 0;
	c->count = c->next = 0;
	c->zeros = false;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
		return;
	}
	c->size = (uint64_t)st.st_size;
#ifdef SEEK_DATA
	/* /proc's files have no blocks, and no size that counts either. */
	if (!dense && from < c->size && st.st_blocks < st.st_size / 512) {
		scan(c, fd, st.st_size);
	}
	/* Some file systems (fuse) call all of it data, whatever it is. */
	if (c->count == 1 && wire_number_get(c->extents, 8) == from) {
		c->count = 0;
		c->zeros = true;
	}
	if (c->count > 0) {
		enter(c);
	}
#endif
}

struct wire_start
filecopy_start(const struct filecopy *c)
{
	return (struct wire_start){
		.flags = c->count > 0 ? WIRE_START_SPARSE : c->zeros ?
		    WIRE_START_ZEROS : 0,
		.from = c->from, .size = c->size,
		.extents = { c->extents, c->count * WIRE_EXTENT_BYTES }
	};
}

int
filecopy_accept(struct filecopy *c, const struct wire_start *start)
{
	uint64_t end = start->from, offset, length;
	uint32_t len = start->extents.len, i;
	const uint8_t *extent;

	*c = (struct filecopy){ .at = start->from, .from = start->from,
	    .left = WIRE_TO_END, .size = start->size,
	    .zeros = (start->flags & WIRE_START_ZEROS) != 0 };
	if ((start->flags & WIRE_START_SPARSE) == 0) {
		return start->from <= INT64_MAX ? 0 : -1;
	}
	if (len == 0 || len % WIRE_EXTENT_BYTES != 0 ||
	    len > sizeof(c->extents) || start->size > INT64_MAX) {
		return -1;
	}
	memcpy(c->extents, start->extents.at, len);
	c->count = len / WIRE_EXTENT_BYTES;
	for (i = 0; i < c->count; i++) {
		extent = c->extents + i * WIRE_EXTENT_BYTES;
		offset = wire_number_get(extent, 8);
		length = wire_number_get(extent + 8, 8);
		if (offset < end || offset > INT64_MAX || length == 0 ||
		    (length == WIRE_TO_END) != (i == c->count - 1) ||
		    (length != WIRE_TO_END && length > INT64_MAX - offset)) {
			return -1;
		}
		end = offset + (length == WIRE_TO_END ? 0 : length);
	}
	enter(c);
	return 0;
}

size_t
filecopy_run(const struct filecopy *c, const void *data, size_t len,
    bool *hole)
{
	size_t done = 0, n;
	bool zero;

	*hole = false;
	if (!c->zeros) {
		return len;
	}
	for (; done < len; done += n) {
		n = BLOCK - (size_t)((c->at + done) % BLOCK);
		n = n < len - done ? n : len - done;
		zero = memcmp((const uint8_t *)data + done, nothing, n) == 0;
		if (done > 0 && zero != *hole) {
			break;
		}
		*hole = zero;
	}
	return done;
}

void
filecopy_moved(struct filecopy *c, uint64_t n)
{
	c->at += n;
	if (c->left == WIRE_TO_END) {
		return;
	}
	c->left -= n;
	if (c->left == 0) {
		enter(c);
	}
}

/* ---- f(message) -------------------------------------------------------- */

ssize_t
filecopy_head_wants(const struct filecopy_head *head)
{
	size_t len;

	if (head->have < 4) {
		return (ssize_t)(4 - head->have);
	}
	len = wire_number_get(head->buf, 4);
	return len > sizeof(head->buf) - 4 ? -1 :
	    (ssize_t)(4 + len - head->have);
}

int
filecopy_head_get(const struct filecopy_head *head, uint8_t type,
    struct wire *msg)
{
	return wire_decode(head->buf + 4, head->have - 4, msg) == WIRE_OK &&
	    msg->type == type ? 0 : -1;
}

size_t
filecopy_head_put(const struct wire *msg, uint8_t *out, size_t cap)
{
	size_t len;

	if (cap < 4 || wire_encode(msg, out + 4, cap - 4, &len) != WIRE_OK) {
		return 0;
	}
	wire_number_put(out, len, 4);
	return 4 + len;
}

/* ---- partial files ----------------------------------------------------- */

void
filecopy_partial(const char *name, char out[256])
{
	size_t len = strlen(name);
	uint8_t hash[SEAL_KEY];
	char hex[17];

	if (len + sizeof(FILECOPY_PARTIAL) <= 256) {
		snprintf(out, 256, FILECOPY_PARTIAL "%s", name);
		return;
	}
	seal_hash(name, len, hash);
	seal_hex(hash, 8, hex);
	snprintf(out, 256, FILECOPY_PARTIAL "%.*s-%s", (int)NAME_KEPT, name,
	    hex);
}

int
filecopy_hash(struct seal_digest *digest, int fd, uint64_t *at, uint64_t max)
{
	uint8_t buf[PIECE];
	size_t want;
	ssize_t n;

	while (max > 0) {
		want = max < sizeof(buf) ? (size_t)max : sizeof(buf);
		n = pread(fd, buf, want, (off_t)*at);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return (int)n;
		}
		seal_digest_add(digest, buf, (size_t)n);
		*at += (uint64_t)n;
		max -= (uint64_t)n;
	}
	return 1;
}

void
filecopy_hash_hole(struct seal_digest *digest, uint64_t n)
{
	size_t piece;

	while (n > 0) {
		piece = n < sizeof(nothing) ? (size_t)n : sizeof(nothing);
		seal_digest_add(digest, nothing, piece);
		n -= piece;
	}
}
