/* SPDX-License-Identifier: MIT */
/* bundle_receive.c - a stream becomes a tree, in its place and nowhere else. */
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beneath.h"

#define FRAME_MAX (WIRE_CHUNK_MAX + 1)	/* the largest message */
#define NANOSECONDS 1000000000u
#define LEVELS (BUNDLE_DEPTH + 1)

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

/* What becomes of an entry once it is complete. */
struct meta {
	uint32_t mode, uid, gid;
	struct timespec times[2];
};

/* A directory that is open; level 0 is the place, the tree's top is in 1. */
struct level {
	int fd;				/* owned, -1: none */
	bool fresh;			/* ours, and not under its name yet */
	size_t path_len;		/* of the path before it */
	char name[WIRE_NAME_MAX + 1];
	struct meta meta;
};

struct receiver {
	const struct bundle_sink *sink;
	struct wire_tree_info *info;
	struct error *error;
	struct level levels[LEVELS];
	unsigned depth;			/* the innermost level */
	int file;			/* owned, -1: no file is open */
	struct meta file_meta;
	uint64_t file_bytes;
	bool holes;			/* it may end in one */
	char file_name[WIRE_NAME_MAX + 1];	/* its own */
	char file_as[WIRE_NAME_MAX + 1];	/* as it is now */
	/* What is to be renamed, in levels[temp_level]; at most one. */
	char temp[BENEATH_TEMP];	/* "": nothing */
	char final[WIRE_NAME_MAX + 1];
	unsigned temp_level;
	bool twin;			/* temp is a hard link */
	bool done;			/* the first entry is complete */
	bool inside;			/* its content goes into the place */
	size_t path_len;		/* of the innermost directory's */
	char path[LEVELS * (WIRE_NAME_MAX + 1) + 1];
	uint64_t bytes;			/* of the stream */
	size_t start, end;		/* what is in buf */
	uint8_t buf[BUNDLE_BUFFER];
};

/* ---- errors ----------------------------------------------------------- */

/* About name in the innermost directory; "": the directory itself. */
static int
fail(struct receiver *r, enum wire_step step, int number, const char *name)
{
	const char *slash = r->path_len > 0 && name[0] != '\0' ? "/" : "";

	error_set(r->error, step, number, "%.500s%s%.2000s%s%.255s",
	    r->sink->path, r->path_len > 0 || name[0] != '\0' ? "/" : "",
	    r->path, slash, name);
	return -1;
}

/* The stream is not what a tree's stream is. */
static int
broken(struct receiver *r, const char *what)
{
	error_set(r->error, WIRE_STEP_PROTOCOL, 0, "the tree's stream: %s",
	    what);
	return -1;
}

/* ---- the stream ------------------------------------------------------- */

/* At least want bytes in buf; 1: yes, 0: the stream has ended before. */
static int
fill(struct receiver *r, size_t want)
{
	ssize_t n;

	if (r->end - r->start >= want) {
		return 1;
	}
	memmove(r->buf, r->buf + r->start, r->end - r->start);
	r->end -= r->start;
	r->start = 0;
	while (r->end < want) {
		n = read(r->sink->in, r->buf + r->end,
		    sizeof(r->buf) - r->end);
		if (n == -1 && errno == EINTR) {
			continue;
		}
		if (n == -1) {
			error_set(r->error, WIRE_STEP_READ, errno,
			    "the stream");
			return -1;
		}
		if (n == 0) {
			return 0;
		}
		r->end += (size_t)n;
		r->bytes += (uint64_t)n;
	}
	return 1;
}

/* The next message, which borrows from buf until the next call. */
static int
next(struct receiver *r, struct wire *msg)
{
	const uint8_t *at;
	enum wire_err err;
	size_t len;
	int rc = fill(r, 4);

	if (rc == 1) {
		at = r->buf + r->start;
		len = wire_number_get(at, 4);
		if (len > FRAME_MAX) {
			return broken(r, "a message over its limit");
		}
		rc = fill(r, 4 + len);
		if (rc == 1) {
			err = wire_decode(r->buf + r->start + 4, len, msg);
			r->start += 4 + len;
			return err == WIRE_OK ? 0 :
			    broken(r, wire_err_text(err));
		}
	}
	return rc == 0 ? broken(r, "it ends early") : -1;
}

/* ---- publishing ------------------------------------------------------- */

/*
 * Whether name may be made in the innermost directory.  Where all is ours
 * and new the calls that make it will tell.
 */
static int
may_make(struct receiver *r, const char *name)
{
	const struct level *in = &r->levels[r->depth];
	struct stat st;

	if (in->fresh || fstatat(in->fd, name, &st,
	    AT_SYMLINK_NOFOLLOW) == -1) {
		return in->fresh || errno == ENOENT ? 0 :
		    fail(r, WIRE_STEP_OPEN, errno, name);
	}
	if (S_ISDIR(st.st_mode)) {
		return fail(r, WIRE_STEP_OPEN, EISDIR, name);
	}
	if (S_ISREG(st.st_mode)) {
		return faccessat(in->fd, name, W_OK, 0) == 0 ? 0 :
		    fail(r, WIRE_STEP_OPEN, errno, name);
	}
	return S_ISLNK(st.st_mode) ? 0 :
	    fail(r, WIRE_STEP_OPEN, EEXIST, name);
}

/* The name to make an entry under: its own, or one that is renamed later. */
static const char *
working_name(struct receiver *r, const char *name)
{
	if (r->levels[r->depth].fresh) {
		return name;
	}
	beneath_temp(r->temp);
	strcpy(r->final, name);
	r->temp_level = r->depth;
	r->twin = false;
	return r->temp;
}

/* Give what is under the temporary name its own. */
static int
put_in_place(struct receiver *r)
{
	int dir = r->levels[r->temp_level].fd;

	if (renameat(dir, r->temp, dir, r->final) == -1) {
		return fail(r, WIRE_STEP_RENAME, errno, r->final);
	}
	if (r->twin) {
		/* Of two names of one file rename() keeps both. */
		unlinkat(dir, r->temp, 0);
	}
	r->temp[0] = '\0';
	return 0;
}

/*
 * An entry of the innermost directory is complete.  The first of all waits
 * for the stream's end.
 */
static int
complete(struct receiver *r)
{
	if (r->depth == 0) {
		r->done = true;
		return 0;
	}
	return r->temp[0] == '\0' || r->temp_level != r->depth ? 0 :
	    put_in_place(r);
}

static int
apply(struct receiver *r, int fd, const struct meta *meta, const char *name)
{
	mode_t mode = meta->mode & ((r->sink->flags & WIRE_TREE_SETID) != 0 ?
	    07777 : 01777);

	/* In this order: chown() clears bits of the mode. */
	if ((r->sink->flags & WIRE_TREE_OWNER) != 0 &&
	    fchown(fd, meta->uid, meta->gid) == -1) {
		return fail(r, WIRE_STEP_WRITE, errno, name);
	}
	if (fchmod(fd, mode) == -1 || futimens(fd, meta->times) == -1) {
		return fail(r, WIRE_STEP_WRITE, errno, name);
	}
	return 0;
}

/* ---- entries ---------------------------------------------------------- */

static int
open_file(struct receiver *r, const char *name, const struct meta *meta)
{
	const char *as;

	if (may_make(r, name) == -1) {
		return -1;
	}
	as = working_name(r, name);
	r->file = openat(r->levels[r->depth].fd, as, O_WRONLY | O_CREAT |
	    O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (r->file == -1) {
		return fail(r, WIRE_STEP_OPEN, errno, name);
	}
	strcpy(r->file_name, name);
	strcpy(r->file_as, as);
	r->file_meta = *meta;
	r->file_bytes = 0;
	r->holes = false;
	return 0;
}

static int
leave_hole(struct receiver *r, uint64_t bytes)
{
	if (r->file == -1 || bytes == 0 ||
	    bytes > INT64_MAX - r->file_bytes) {
		return broken(r, "a hole where none can be");
	}
	r->file_bytes += bytes;
	r->holes = true;
	return lseek(r->file, (off_t)r->file_bytes, SEEK_SET) != -1 ? 0 :
	    fail(r, WIRE_STEP_WRITE, errno, r->file_name);
}

static int
write_chunk(struct receiver *r, struct wire_bytes bytes)
{
	size_t at = 0;
	ssize_t n;

	if (r->file == -1) {
		return broken(r, "bytes without a file");
	}
	while (at < bytes.len) {
		n = write(r->file, bytes.at + at, bytes.len - at);
		if (n == -1 && errno == EINTR) {
			continue;
		}
		if (n == -1) {
			return fail(r, WIRE_STEP_WRITE, errno, r->file_name);
		}
		at += (size_t)n;
	}
	r->file_bytes += bytes.len;
	return 0;
}

static int
end_file(struct receiver *r)
{
	int fd = r->file;

	if (r->holes && ftruncate(fd, (off_t)r->file_bytes) == -1) {
		return fail(r, WIRE_STEP_WRITE, errno, r->file_name);
	}
	if (apply(r, fd, &r->file_meta, r->file_name) == -1) {
		return -1;
	}
	/* Late errors of a network or full disk come with close(). */
	r->file = -1;
	if (close(fd) == -1) {
		return fail(r, WIRE_STEP_WRITE, errno, r->file_name);
	}
	r->info->files++;
	r->info->bytes += r->file_bytes;
	return complete(r);
}

static int
make_symlink(struct receiver *r, const char *name, const char *target,
    const struct meta *meta)
{
	int dir = r->levels[r->depth].fd;
	const char *as;

	if (may_make(r, name) == -1) {
		return -1;
	}
	as = working_name(r, name);
	if (symlinkat(target, dir, as) == -1 ||
	    ((r->sink->flags & WIRE_TREE_OWNER) != 0 && fchownat(dir, as,
	    meta->uid, meta->gid, AT_SYMLINK_NOFOLLOW) == -1) ||
	    utimensat(dir, as, meta->times, AT_SYMLINK_NOFOLLOW) == -1) {
		return fail(r, WIRE_STEP_WRITE, errno, name);
	}
	return complete(r);
}

/*
 * The directory of an earlier file and that file's name.  As far as the path
 * goes along the open directories these are used: one of them may be under a
 * temporary name.  The descriptor is the caller's if *owned.
 */
static int
find_earlier(struct receiver *r, char *path, char **name, bool *owned)
{
	int fd = r->levels[1].fd, deeper;
	unsigned level = 1;
	char *slash;

	*owned = false;
	for (;;) {
		slash = strchr(path, '/');
		*name = path;
		if (slash != NULL) {
			*slash = '\0';
		}
		if (!beneath_name(path, strlen(path))) {
			errno = EINVAL;
			break;
		}
		if (slash == NULL) {
			return fd;
		}
		if (!*owned && level < r->depth &&
		    strcmp(r->levels[level + 1].name, path) == 0) {
			fd = r->levels[++level].fd;
		} else {
			deeper = beneath_dir(fd, path, false);
			if (*owned) {
				close(fd);
			}
			fd = deeper;
			*owned = fd != -1;
			if (fd == -1) {
				return -1;
			}
		}
		path = slash + 1;
	}
	if (*owned) {
		close(fd);
		*owned = false;
	}
	return -1;
}

static int
make_link(struct receiver *r, const char *name, char *target)
{
	int rc = -1, from, dir = r->levels[r->depth].fd;
	const char *as;
	struct stat st;
	char *earlier;
	bool owned;

	if (may_make(r, name) == -1) {
		return -1;
	}
	from = find_earlier(r, target, &earlier, &owned);
	as = working_name(r, name);
	r->twin = true;
	if (from != -1 && fstatat(from, earlier, &st,
	    AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EINVAL;
		rc = S_ISREG(st.st_mode) ?
		    linkat(from, earlier, dir, as, 0) : -1;
	}
	if (rc == -1) {
		rc = fail(r, WIRE_STEP_WRITE, errno, name);
	} else {
		r->info->links++;
		rc = complete(r);
	}
	if (owned) {
		close(from);
	}
	return rc;
}

/* Down into a directory, which fd is now. */
static void
descend(struct receiver *r, int fd, bool fresh, const char *name,
    const struct meta *meta)
{
	struct level *to = &r->levels[++r->depth];

	to->fd = fd;
	to->fresh = fresh;
	to->meta = *meta;
	strcpy(to->name, name);
	to->path_len = r->path_len;
	/* The top has no name of its own in paths. */
	if (r->depth > 1) {
		r->path_len += (size_t)snprintf(r->path + r->path_len,
		    sizeof(r->path) - r->path_len, "%s%s",
		    r->path_len > 0 ? "/" : "", name);
	}
}

static int
open_dir(struct receiver *r, const char *name, const struct meta *meta)
{
	const struct level *in = &r->levels[r->depth];
	const char *as;
	int fd;

	if (r->depth + 1 == LEVELS) {
		return broken(r, "too many directories in each other");
	}
	if (!in->fresh) {
		fd = beneath_dir(in->fd, name, false);
		if (fd != -1) {
			descend(r, fd, false, name, meta);
			return 0;
		}
		if (errno != ENOENT) {
			return fail(r, WIRE_STEP_OPEN, errno, name);
		}
	}
	as = working_name(r, name);
	if (mkdirat(in->fd, as, 0700) == -1) {
		return fail(r, WIRE_STEP_OPEN, errno, name);
	}
	fd = beneath_dir(in->fd, as, true);
	if (fd == -1) {
		return fail(r, WIRE_STEP_OPEN, errno, name);
	}
	descend(r, fd, true, name, meta);
	return 0;
}

static int
end_dir(struct receiver *r)
{
	struct level *level = &r->levels[r->depth];

	/* One that was there before keeps what it had. */
	if (level->fresh && apply(r, level->fd, &level->meta, "") == -1) {
		return -1;
	}
	close(level->fd);
	level->fd = -1;
	r->path_len = level->path_len;
	r->path[r->path_len] = '\0';
	r->depth--;
	return complete(r);
}

static int
end_entry(struct receiver *r)
{
	return r->file != -1 ? end_file(r) : r->depth > 0 ? end_dir(r) :
	    broken(r, "an end without an entry");
}

static int
skip(struct receiver *r, const struct wire_skipped *skipped)
{
	char path[WIRE_PATH_MAX + 1];
	size_t i;

	if (r->depth == 0) {
		return broken(r, "all of it was skipped");
	}
	if (r->file != -1) {
		close(r->file);
		r->file = -1;
		if (unlinkat(r->levels[r->depth].fd, r->file_as, 0) == -1) {
			return fail(r, WIRE_STEP_WRITE, errno, r->file_name);
		}
		if (!r->levels[r->depth].fresh) {
			r->temp[0] = '\0';
		}
	}
	r->info->skipped++;
	if (r->sink->skipped != NULL) {
		for (i = 0; i < skipped->path.len; i++) {
			/* A NUL would hide the rest. */
			path[i] = skipped->path.at[i] == '\0' ? '\x01' :
			    (char)skipped->path.at[i];
		}
		path[i] = '\0';
		r->sink->skipped(r->sink->ctx, path, skipped->error > 65535 ?
		    65535 : (int)skipped->error);
	}
	return 0;
}

/* ---- the place -------------------------------------------------------- */

/* The directory of path, and the last component into name. */
static int
open_parent(struct receiver *r, char *path, char *name)
{
	char *slash = strrchr(path, '/'), *at;
	const char *base = slash == NULL ? path : slash + 1;

	if (!beneath_name(base, strlen(base))) {
		errno = ENOENT;
		return -1;
	}
	strcpy(name, base);
	if (slash != NULL) {
		slash[1] = '\0';
	}
	if ((r->sink->flags & WIRE_TREE_PARENTS) != 0 && slash != NULL) {
		for (at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
			*at = '\0';
			mkdir(path, 0777);	/* if it fails, open() tells */
			*at = '/';
		}
	}
	r->levels[0].fd = open(slash == NULL ? "." : path, O_PATH |
	    O_DIRECTORY | O_CLOEXEC);
	return r->levels[0].fd == -1 ? -1 : 0;
}

/* path, which may be cut, names no directory: it is the tree's own. */
static int
place_as(struct receiver *r, bool there, bool as_dir, bool dir, char *path,
    char *name)
{
	char real[PATH_MAX];
	struct stat st;

	if (there && as_dir) {
		errno = ENOTDIR;
		return -1;
	}
	if (!there && ((as_dir && !dir) || lstat(path, &st) == 0)) {
		errno = ENOENT;		/* no such directory, or link's end */
		return -1;
	}
	/* The user's own link is followed to its file. */
	if (there && lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
		path = realpath(path, real);
	}
	return path == NULL ? -1 : open_parent(r, path, name);
}

/* A directory: it gets the tree under name, or is itself its top. */
static int
place_in(struct receiver *r, bool dir, const struct meta *meta,
    const char *path, char *name)
{
	const char *own = r->sink->name;
	int fd;

	if (own[0] == '\0' && !dir) {
		errno = EISDIR;
		return -1;
	}
	if (own[0] != '\0' && !beneath_name(own, strlen(own))) {
		errno = EINVAL;
		return -1;
	}
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1) {
		return -1;
	}
	if (own[0] == '\0') {
		r->inside = true;
		descend(r, fd, false, "", meta);
	} else {
		r->levels[0].fd = fd;
		strcpy(name, own);
	}
	return 0;
}

/*
 * Where the first entry goes: level 0 is opened and the name in it chosen,
 * or the directory itself is the tree's top.
 */
static int
find_place(struct receiver *r, bool dir, const struct meta *meta, char *name)
{
	char path[WIRE_PATH_MAX + 1];
	size_t len = strlen(r->sink->path);
	struct stat st;
	bool there, slashed;
	int rc;

	if (len == 0 || len >= sizeof(path)) {
		return fail(r, WIRE_STEP_OPEN, len == 0 ? ENOENT :
		    ENAMETOOLONG, "");
	}
	memcpy(path, r->sink->path, len + 1);
	slashed = path[len - 1] == '/';
	while (len > 1 && path[len - 1] == '/') {
		path[--len] = '\0';
	}
	there = stat(path, &st) == 0;
	if (!there && errno != ENOENT) {
		rc = -1;
	} else if (there && S_ISDIR(st.st_mode)) {
		rc = place_in(r, dir, meta, path, name);
	} else {
		rc = place_as(r, there, dir || slashed, dir, path, name);
	}
	return rc == 0 ? 0 : fail(r, WIRE_STEP_OPEN, errno, "");
}

/* ---- messages --------------------------------------------------------- */

static int
enter(struct receiver *r, const struct wire_entry *e)
{
	uint64_t max = r->sink->max_entries != 0 ? r->sink->max_entries :
	    BUNDLE_ENTRIES;
	bool first = r->info->entries == 0;
	struct meta meta = { e->mode, e->uid, e->gid, {
	    { .tv_sec = (time_t)e->seconds, .tv_nsec = (long)e->nanoseconds },
	    { .tv_sec = (time_t)e->seconds, .tv_nsec = (long)e->nanoseconds }
	} };
	char name[WIRE_NAME_MAX + 1], target[WIRE_PATH_MAX + 1];

	if (r->file != -1 || r->done) {
		return broken(r, "an entry where none can be");
	}
	if (++r->info->entries > max) {
		return broken(r, "too many entries");
	}
	if (first ? e->name.len != 0 : !beneath_name(e->name.at,
	    e->name.len)) {
		return broken(r, "a name that names nothing in a directory");
	}
	if (wire_copy(name, sizeof(name), e->name) == -1 ||
	    wire_copy(target, sizeof(target), e->target) == -1 ||
	    (target[0] != '\0') != (e->kind == WIRE_ENTRY_SYMLINK ||
	    e->kind == WIRE_ENTRY_LINK)) {
		return broken(r, "a link's target");
	}
	if (e->nanoseconds >= NANOSECONDS) {
		return broken(r, "a time that is none");
	}
	if (first && find_place(r, e->kind == WIRE_ENTRY_DIR, &meta,
	    name) == -1) {
		return -1;
	}
	if (first && r->inside) {
		return 0;
	}
	switch (e->kind) {
	case WIRE_ENTRY_FILE:
		return open_file(r, name, &meta);
	case WIRE_ENTRY_DIR:
		return open_dir(r, name, &meta);
	case WIRE_ENTRY_SYMLINK:
		return make_symlink(r, name, target, &meta);
	case WIRE_ENTRY_LINK:
		return first ? broken(r, "a hard link to nothing") :
		    make_link(r, name, target);
	default:
		return broken(r, "an entry of an unknown kind");
	}
}

/* The stream's last message; then its end, and then the tree counts. */
static int
finish(struct receiver *r, const struct wire_tree_info *info)
{
	int rc;

	if (!r->done || memcmp(info, r->info, sizeof(*info)) != 0) {
		return broken(r, "its counts do not fit what came");
	}
	rc = fill(r, 1);
	if (rc != 0) {
		return rc == 1 ? broken(r, "bytes after its end") : -1;
	}
	if (r->sink->settle != NULL && r->sink->settle(r->sink->ctx, r->info,
	    r->bytes, r->error) == -1) {
		return -1;
	}
	return r->temp[0] == '\0' ? 0 : put_in_place(r);
}

static int
take(struct receiver *r)
{
	struct wire msg;

	while (next(r, &msg) == 0) {
		int rc;

		switch (msg.type) {
		case WIRE_ENTRY:
			rc = enter(r, &msg.u.entry);
			break;
		case WIRE_CHUNK:
			rc = write_chunk(r, msg.u.chunk.bytes);
			break;
		case WIRE_HOLE:
			rc = leave_hole(r, msg.u.hole.bytes);
			break;
		case WIRE_ENTRY_END:
			rc = end_entry(r);
			break;
		case WIRE_SKIPPED:
			rc = skip(r, &msg.u.skipped);
			break;
		case WIRE_TREE_INFO:
			return finish(r, &msg.u.tree_info);
		default:
			rc = broken(r, "a message that is none of a tree's");
			break;
		}
		if (rc == -1) {
			return -1;
		}
	}
	return -1;
}

/* Let go of everything; what is under a temporary name is removed. */
static void
clean(struct receiver *r)
{
	struct error *error = r->error;
	char text[WIRE_TEXT_MAX];
	unsigned i;

	if (r->file != -1) {
		close(r->file);
	}
	if (r->temp[0] != '\0' && beneath_remove(r->levels[r->temp_level].fd,
	    r->temp) == -1) {
		memcpy(text, error->text, sizeof(text));
		error_set(error, error->step, error->number,
		    "%.900s (and %s beside it cannot be removed)", text,
		    r->temp);
	}
	for (i = 0; i < LEVELS; i++) {
		if (r->levels[i].fd != -1) {
			close(r->levels[i].fd);
		}
	}
}

int
bundle_receive(const struct bundle_sink *sink, struct wire_tree_info *info,
    struct error *error)
{
	struct receiver *r = malloc(sizeof(*r));
	unsigned i;
	int rc;

	*info = (struct wire_tree_info){ 0 };
	if (r == NULL) {
		error_set(error, WIRE_STEP_WRITE, ENOMEM, "%s", sink->path);
		return -1;
	}
	r->sink = sink;
	r->info = info;
	r->error = error;
	for (i = 0; i < LEVELS; i++) {
		r->levels[i].fd = -1;
		r->levels[i].fresh = false;
	}
	r->depth = r->temp_level = 0;
	r->file = -1;
	r->temp[0] = r->path[0] = '\0';
	r->done = r->inside = false;
	r->path_len = r->start = r->end = 0;
	r->bytes = 0;
	rc = take(r);
	clean(r);
	free(r);
	return rc;
}
