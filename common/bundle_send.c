/* SPDX-License-Identifier: MIT */
/* bundle_send.c - a tree of the file system goes into a stream. */
#include "bundle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beneath.h"

#define SLOTS (2 * BUNDLE_LINKS)	/* of the hash table; a power of 2 */
#define CHUNK_HEAD 5u			/* f's length and the type */
#define CHUNK_LEAST 16384u		/* room for a piece of a file */
#define MESSAGE_MAX (4 + 64 + WIRE_NAME_MAX + WIRE_PATH_MAX)

/* A file with several names: where it was sent. */
struct seen {
	uint64_t dev, ino;
	char *path;			/* owned, NULL: a free slot */
};

struct sender {
	const struct bundle_source *source;
	struct wire_tree_info *info;
	struct error *error;
	struct seen *seen;		/* owned, SLOTS of them or NULL */
	size_t seen_count, seen_bytes;
	size_t path_len;		/* of path, from the tree's top down */
	char path[BUNDLE_DEPTH * (WIRE_NAME_MAX + 1) + 1];
	size_t len;			/* of buf */
	uint8_t buf[BUNDLE_BUFFER];
};

/* ---- the stream ------------------------------------------------------- */

static int
flush(struct sender *s)
{
	size_t at = 0;
	ssize_t n;

	while (at < s->len) {
		n = write(s->source->out, s->buf + at, s->len - at);
		if (n == -1 && errno == EINTR) {
			continue;
		}
		if (n == -1) {
			error_set(s->error, WIRE_STEP_WRITE, errno,
			    "the stream");
			return -1;
		}
		at += (size_t)n;
	}
	s->len = 0;
	return 0;
}

static int
say(struct sender *s, const struct wire *msg)
{
	size_t len;

	if (sizeof(s->buf) - s->len < MESSAGE_MAX && flush(s) == -1) {
		return -1;
	}
	if (wire_encode(msg, s->buf + s->len + 4, sizeof(s->buf) - s->len - 4,
	    &len) != WIRE_OK) {
		error_set(s->error, WIRE_STEP_READ, ENAMETOOLONG, "%.900s",
		    s->path);
		return -1;
	}
	wire_number_put(s->buf + s->len, len, 4);
	s->len += 4 + len;
	return 0;
}

/* ---- what cannot be sent ---------------------------------------------- */

static int
fail(struct sender *s, int number, const char *why)
{
	error_set(s->error, WIRE_STEP_READ, number, "%.600s%s%.2000s%s",
	    s->source->path, s->path_len > 0 ? "/" : "", s->path, why);
	return -1;
}

/* The entry of s->path cannot be read; `top`: it is the whole tree. */
static int
cannot(struct sender *s, int number, bool top)
{
	struct wire msg = { .type = WIRE_SKIPPED };
	const char *why = number == EOPNOTSUPP ?
	    " (neither a file, a directory nor a link)" : "";

	if (top || (s->source->flags & WIRE_TREE_SKIP) == 0) {
		return fail(s, number, why);
	}
	s->info->skipped++;
	if (s->source->skipped != NULL) {
		s->source->skipped(s->source->ctx, s->path, number);
	}
	msg.u.skipped.error = (uint32_t)number;
	msg.u.skipped.path = (struct wire_bytes){ (const uint8_t *)s->path,
	    (uint32_t)(s->path_len < WIRE_PATH_MAX ? s->path_len :
	    WIRE_PATH_MAX) };
	return say(s, &msg);
}

/* ---- hard links ------------------------------------------------------- */

/* The file's slot, or the free one where it would be. */
static struct seen *
slot_of(struct sender *s, const struct stat *st)
{
	uint64_t hash = ((uint64_t)st->st_ino * UINT64_C(0x9e3779b97f4a7c15))
	    ^ (uint64_t)st->st_dev;
	size_t i = (size_t)(hash >> 40) % SLOTS;

	while (s->seen[i].path != NULL &&
	    (s->seen[i].ino != (uint64_t)st->st_ino ||
	    s->seen[i].dev != (uint64_t)st->st_dev)) {
		i = (i + 1) % SLOTS;
	}
	return &s->seen[i];
}

/* The path under which this file was sent already, or NULL. */
static const char *
sent_as(struct sender *s, const struct stat *st)
{
	if (st->st_nlink < 2 || s->seen == NULL) {
		return NULL;
	}
	return slot_of(s, st)->path;
}

/* If there is room; without it the file is just sent again. */
static void
remember(struct sender *s, const struct stat *st)
{
	struct seen *slot;

	if (st->st_nlink < 2 || s->path_len == 0 ||
	    s->path_len > WIRE_PATH_MAX || s->seen_count == BUNDLE_LINKS ||
	    s->seen_bytes + s->path_len > BUNDLE_LINK_PATHS) {
		return;
	}
	if (s->seen == NULL) {
		s->seen = calloc(SLOTS, sizeof(*s->seen));
	}
	slot = s->seen == NULL ? NULL : slot_of(s, st);
	if (slot != NULL && slot->path == NULL) {
		slot->path = strdup(s->path);
		slot->dev = (uint64_t)st->st_dev;
		slot->ino = (uint64_t)st->st_ino;
		s->seen_count += slot->path != NULL;
		s->seen_bytes += s->path_len;
	}
}

static void
forget(struct sender *s)
{
	size_t i;

	for (i = 0; s->seen != NULL && i < SLOTS; i++) {
		free(s->seen[i].path);
	}
	free(s->seen);
}

/* ---- entries ---------------------------------------------------------- */

static int
say_entry(struct sender *s, uint8_t kind, const struct stat *st,
    const char *target)
{
	struct wire msg = { .type = WIRE_ENTRY };
	const char *slash = strrchr(s->path, '/');

	msg.u.entry.kind = kind;
	msg.u.entry.mode = st->st_mode & 07777;
	msg.u.entry.uid = st->st_uid;
	msg.u.entry.gid = st->st_gid;
	msg.u.entry.seconds = (uint64_t)st->st_mtim.tv_sec;
	msg.u.entry.nanoseconds = (uint32_t)st->st_mtim.tv_nsec;
	msg.u.entry.name = wire_string(slash == NULL ? s->path : slash + 1);
	msg.u.entry.target = wire_string(target);
	if (++s->info->entries > BUNDLE_ENTRIES) {
		return fail(s, 0, ": too many entries");
	}
	return say(s, &msg);
}

static int
say_end(struct sender *s)
{
	const struct wire msg = { .type = WIRE_ENTRY_END };

	return say(s, &msg);
}

/*
 * At the end of fd's data: go over the hole that may follow.  *until is then
 * where the next one begins.
 */
static int
send_hole(struct sender *s, int fd, uint64_t *at, uint64_t *until)
{
	off_t data = lseek(fd, (off_t)*at, SEEK_DATA), hole = -1;
	struct wire msg = { .type = WIRE_HOLE };

	if (data == -1 && errno == ENXIO) {
		data = lseek(fd, 0, SEEK_END);	/* all the rest is one */
	} else if (data != -1) {
		hole = lseek(fd, data, SEEK_HOLE);
	}
	*until = hole == -1 ? UINT64_MAX : (uint64_t)hole;
	data = data < (off_t)*at ? (off_t)*at : data;
	if (lseek(fd, data, SEEK_SET) == -1 || data == (off_t)*at) {
		return 0;
	}
	msg.u.hole.bytes = (uint64_t)data - *at;
	*at = (uint64_t)data;
	return say(s, &msg);
}

/* All of fd, read straight into the stream's buffer. */
static int
send_content(struct sender *s, int fd, const struct stat *st, bool top)
{
	bool sparse = (uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size;
	uint64_t total = 0, until = sparse ? 0 : UINT64_MAX;
	size_t room;
	ssize_t n;

	for (;;) {
		if (total == until && send_hole(s, fd, &total, &until) == -1) {
			return -1;
		}
		room = sizeof(s->buf) - s->len;
		if (room < CHUNK_LEAST) {
			if (flush(s) == -1) {
				return -1;
			}
			room = sizeof(s->buf);
		}
		room -= CHUNK_HEAD;
		room = room < until - total ? room : (size_t)(until - total);
		n = read(fd, s->buf + s->len + CHUNK_HEAD,
		    room < WIRE_CHUNK_MAX ? room : WIRE_CHUNK_MAX);
		if (n == -1 && errno == EINTR) {
			continue;
		}
		if (n == -1) {
			return cannot(s, errno, top);
		}
		if (n == 0) {
			break;
		}
		wire_number_put(s->buf + s->len, (size_t)n + 1, 4);
		s->buf[s->len + 4] = WIRE_CHUNK;
		s->len += CHUNK_HEAD + (size_t)n;
		total += (uint64_t)n;
	}
	s->info->files++;
	s->info->bytes += total;
	remember(s, st);
	return say_end(s);
}

static int
send_file(struct sender *s, int dir, const char *name, bool top)
{
	struct stat st;
	const char *first;
	int fd, rc;

	/* Not blocking: it may have become a fifo. */
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
	    O_NOCTTY | O_CLOEXEC);
	if (fd == -1 && errno == ENOENT && !top) {
		return 0;		/* as if it had gone before */
	}
	if (fd == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		rc = cannot(s, fd == -1 ? errno : EOPNOTSUPP, top);
		if (fd != -1) {
			close(fd);
		}
		return rc;
	}
	first = sent_as(s, &st);
	if (first != NULL) {
		s->info->links++;
		rc = say_entry(s, WIRE_ENTRY_LINK, &st, first);
	} else {
		rc = say_entry(s, WIRE_ENTRY_FILE, &st, "");
		rc = rc == -1 ? -1 : send_content(s, fd, &st, top);
	}
	close(fd);
	return rc;
}

static int
send_symlink(struct sender *s, int dir, const char *name,
    const struct stat *st, bool top)
{
	char target[WIRE_PATH_MAX + 1];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));

	if (n == -1 && errno == ENOENT && !top) {
		return 0;
	}
	if (n <= 0 || n >= WIRE_PATH_MAX) {
		return cannot(s, n == -1 ? errno : ENAMETOOLONG, top);
	}
	target[n] = '\0';
	return say_entry(s, WIRE_ENTRY_SYMLINK, st, target);
}

static int send_any(struct sender *s, int dir, const char *name,
    unsigned char type, unsigned depth);

static int
send_listed(struct sender *s, DIR *stream, unsigned depth)
{
	size_t len = s->path_len, name_len;
	struct dirent *e;
	int rc = 0;

	while (rc == 0 && (errno = 0, e = readdir(stream)) != NULL) {
		name_len = strlen(e->d_name);
		if (!beneath_name(e->d_name, name_len)) {
			continue;
		}
		if (len > 0) {
			s->path[s->path_len++] = '/';
		}
		memcpy(s->path + s->path_len, e->d_name, name_len + 1);
		s->path_len += name_len;
		rc = send_any(s, dirfd(stream), e->d_name, e->d_type, depth);
		s->path_len = len;
		s->path[len] = '\0';
	}
	if (rc == 0 && errno != 0) {
		rc = cannot(s, errno, depth == 1);
	}
	return rc == 0 ? say_end(s) : -1;
}

static int
send_dir(struct sender *s, int dir, const char *name, unsigned depth)
{
	bool top = depth == 0;
	struct stat st;
	DIR *stream;
	int fd, rc;

	if (depth == BUNDLE_DEPTH) {
		return fail(s, 0, ": too many directories in each other");
	}
	fd = beneath_dir(dir, name, true);
	if (fd == -1 && errno == ENOENT && !top) {
		return 0;
	}
	stream = fd == -1 || fstat(fd, &st) == -1 ? NULL : fdopendir(fd);
	if (stream == NULL) {
		rc = cannot(s, errno, top);
		if (fd != -1) {
			close(fd);
		}
		return rc;
	}
	rc = say_entry(s, WIRE_ENTRY_DIR, &st, "");
	rc = rc == -1 ? -1 : send_listed(s, stream, depth + 1);
	closedir(stream);
	return rc;
}

/* What is name in dir; s->path has it too, and is empty for the top. */
static int
send_any(struct sender *s, int dir, const char *name, unsigned char type,
    unsigned depth)
{
	bool top = depth == 0;
	struct stat st;

	if (type == DT_REG) {
		return send_file(s, dir, name, top);
	}
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
		return errno == ENOENT && !top ? 0 : cannot(s, errno, top);
	}
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return send_file(s, dir, name, top);
	case S_IFDIR:
		return send_dir(s, dir, name, depth);
	case S_IFLNK:
		return send_symlink(s, dir, name, &st, top);
	default:
		return cannot(s, EOPNOTSUPP, top);
	}
}

int
bundle_send(const struct bundle_source *source, struct wire_tree_info *info,
    struct error *error)
{
	struct sender *s = malloc(sizeof(*s));
	struct wire msg = { .type = WIRE_TREE_INFO };
	const char *path = source->path;
	char real[PATH_MAX];
	int rc;

	*info = (struct wire_tree_info){ 0 };
	if (s == NULL) {
		error_set(error, WIRE_STEP_READ, ENOMEM, "%s", source->path);
		return -1;
	}
	s->source = source;
	s->info = info;
	s->error = error;
	s->seen = NULL;
	s->seen_count = s->seen_bytes = s->path_len = s->len = 0;
	s->path[0] = '\0';
	if ((source->flags & WIRE_TREE_FOLLOW) != 0) {
		path = realpath(path, real);
	}
	rc = path == NULL ? cannot(s, errno, true) :
	    send_any(s, AT_FDCWD, path, DT_UNKNOWN, 0);
	msg.u.tree_info = *info;
	if (rc == 0) {
		rc = say(s, &msg) == 0 ? flush(s) : -1;
	}
	forget(s);
	free(s);
	return rc;
}
