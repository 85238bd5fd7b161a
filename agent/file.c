/* SPDX-License-Identifier: MIT */
/* file.c - worker processes for files: what they share, and reading one. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "filecopy.h"
#include "user.h"
#include "worker.h"

void
file_refuse(struct session_request *req, const char *what)
{
	struct error error;

	error_set(&error, WIRE_STEP_USAGE, EINVAL, "%s", what);
	session_fail(req, &error);
}

int
file_take_who(struct file_who *who, struct session_request *req,
    struct wire_bytes user, struct wire_bytes path,
    const struct agent_start *start)
{
	if (wire_copy(who->path, sizeof(who->path), path) == -1 ||
	    who->path[0] == '\0') {
		file_refuse(req, "the path is empty, too long or has a NUL "
		    "byte");
		return -1;
	}
	if (wire_copy(who->user, sizeof(who->user), user) == -1) {
		file_refuse(req, "the user has a NUL byte");
		return -1;
	}
	who->groups = start->groups;
	if (who->user[0] == '\0' && start->user != NULL) {
		snprintf(who->user, sizeof(who->user), "%s", start->user);
	}
	return 0;
}

void
file_become(const struct file_who *who, int note)
{
	static struct user user;
	struct error error;

	if (who->user[0] != '\0' && (user_find(&user, who->user, who->groups,
	    &error) == -1 || user_become(&user, &error) == -1)) {
		worker_fail(note, error.step, error.number, error.text);
	}
}

int
file_write(int fd, const void *buf, size_t len)
{
	const char *at = buf;
	ssize_t n;

	while (len > 0) {
		n = write(fd, at, len);
		if (n == -1 && errno == EINTR) {
			continue;
		}
		if (n == -1) {
			return -1;
		}
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t
file_read(int fd, void *buf, size_t cap)
{
	ssize_t n;

	do {
		n = read(fd, buf, cap);
	} while (n == -1 && errno == EINTR);
	return n;
}

void
file_info(struct wire_file_info *info, const struct stat *st)
{
	info->size = (uint64_t)st->st_size;
	info->mode = st->st_mode;
	info->uid = st->st_uid;
	info->gid = st->st_gid;
	info->mtime = (uint64_t)st->st_mtim.tv_sec * 1000000000u +
	    (uint64_t)st->st_mtim.tv_nsec;
	info->blocks = (uint64_t)st->st_blocks;
	info->links = (uint32_t)st->st_nlink;
}

void
file_done(int note, const struct wire_file_info *info)
{
	static uint8_t out[WIRE_INFO_MAX];
	struct wire msg = { .type = WIRE_FILE_INFO, .u.file_info = *info };
	size_t len;

	if (wire_encode(&msg, out, sizeof(out), &len) != WIRE_OK) {
		_exit(1);
	}
	worker_done(note, out, len);
}

/* ---- get -------------------------------------------------------------- */

struct order {
	struct file_who who;
	uint32_t flags;
	uint64_t offset, length, have;
	uint8_t hash[WIRE_HASH];
};

struct source {
	int fd;
	const char *path;
	bool seeks;			/* pread() works */
	struct stat st;
	struct filecopy copy;
	struct seal_digest digest;
};

static void
open_source(struct source *s, const struct order *o, int note)
{
	/* Not blocking: a fifo without a writer must not hold us. */
	s->fd = open(s->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (s->fd == -1 || fstat(s->fd, &s->st) == -1) {
		worker_fail(note, WIRE_STEP_OPEN, errno, s->path);
	}
	s->seeks = S_ISREG(s->st.st_mode);
	/* A device may have no end: only so much of it as was asked for. */
	if (!s->seeks && ((!S_ISCHR(s->st.st_mode) &&
	    !S_ISBLK(s->st.st_mode)) || o->length == WIRE_TO_END)) {
		worker_fail(note, WIRE_STEP_OPEN, S_ISDIR(s->st.st_mode) ?
		    EISDIR : EINVAL, s->path);
	}
	if (!s->seeks && o->offset > 0 &&
	    lseek(s->fd, (off_t)o->offset, SEEK_SET) == -1) {
		worker_fail(note, WIRE_STEP_READ, errno, s->path);
	}
}

/* Where to begin: behind what the host has, if that is the same. */
static uint64_t
begin_at(struct source *s, const struct order *o)
{
	uint8_t hash[SEAL_KEY];
	uint64_t at = 0;

	seal_digest_init(&s->digest);
	if ((o->flags & WIRE_GET_RESUME) == 0 || o->have == 0) {
		return o->offset;
	}
	if (filecopy_hash(&s->digest, s->fd, &at, o->have) == 1) {
		seal_digest_get(&s->digest, hash);
		if (memcmp(hash, o->hash, sizeof(hash)) == 0) {
			return at;
		}
	}
	seal_digest_init(&s->digest);
	return 0;
}

static void
say_start(const struct source *s, int out)
{
	static uint8_t buf[FILECOPY_HEAD_MAX];
	struct wire msg = { .type = WIRE_START };
	size_t len;

	msg.u.start = filecopy_start(&s->copy);
	len = filecopy_head_put(&msg, buf, sizeof(buf));
	if (file_write(out, buf, len) == -1) {
		_exit(1);
	}
}

/* The next bytes; 0: the end, -1 with errno. */
static ssize_t
next_bytes(struct source *s, char *buf, uint64_t max)
{
	ssize_t n;

	max = max < FILE_PIECE ? max : FILE_PIECE;
	max = max < s->copy.left ? max : s->copy.left;
	if (!s->seeks) {
		return file_read(s->fd, buf, (size_t)max);
	}
	do {
		n = pread(s->fd, buf, (size_t)max, (off_t)s->copy.at);
	} while (n == -1 && errno == EINTR);
	if (n == 0 && s->copy.left != WIRE_TO_END && max > 0) {
		errno = ENODATA;	/* it has become shorter */
		return -1;
	}
	return n;
}

static void
send_all(struct source *s, const struct order *o,
    const struct worker_child *c)
{
	bool hash = (o->flags & WIRE_GET_HASH) != 0;
	uint64_t left = o->length, hashed = s->copy.from;
	static char buf[FILE_PIECE];
	ssize_t n;

	while (left > 0 && (n = next_bytes(s, buf, left)) != 0) {
		if (n == -1) {
			worker_fail(c->note, WIRE_STEP_READ, errno, s->path);
		}
		if (file_write(c->out, buf, (size_t)n) == -1) {
			_exit(1);	/* nobody wants it any more */
		}
		if (hash) {
			filecopy_hash_hole(&s->digest, s->copy.at - hashed);
			seal_digest_add(&s->digest, buf, (size_t)n);
			hashed = s->copy.at + (uint64_t)n;
		}
		filecopy_moved(&s->copy, (uint64_t)n);
		left -= left == WIRE_TO_END ? 0 : (uint64_t)n;
	}
	if (hash) {
		filecopy_hash_hole(&s->digest, s->copy.at - hashed);
	}
}

static void
get_child(const struct worker_child *c, void *arg)
{
	const struct order *o = arg;
	static struct source s;
	struct wire_file_info info = { 0 };
	uint8_t hash[SEAL_KEY];
	uint64_t from;

	s.path = o->who.path;
	file_become(&o->who, c->note);
	open_source(&s, o, c->note);
	from = begin_at(&s, o);
	filecopy_scan(&s.copy, s.fd, from, !s.seeks ||
	    (o->flags & WIRE_GET_DENSE) != 0 || o->offset > 0 ||
	    o->length != WIRE_TO_END);
	posix_fadvise(s.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	say_start(&s, c->out);
	send_all(&s, o, c);
	file_info(&info, &s.st);
	info.size = s.copy.at;
	if ((o->flags & WIRE_GET_HASH) != 0) {
		seal_digest_get(&s.digest, hash);
		info.hash = (struct wire_bytes){ hash, sizeof(hash) };
	}
	file_done(c->note, &info);
}

void
file_get(struct session_request *req, const struct wire_get *msg,
    const struct agent_start *start)
{
	struct order *o = calloc(1, sizeof(*o));
	bool resume = (msg->flags & WIRE_GET_RESUME) != 0;

	if (o == NULL) {
		file_refuse(req, "no memory");
	} else if (msg->offset > INT64_MAX || (resume && (msg->offset > 0 ||
	    msg->length != WIRE_TO_END || msg->hash.len != WIRE_HASH))) {
		file_refuse(req, "offset, length and resume do not go "
		    "together, or the hash is missing");
	} else if (file_take_who(&o->who, req, msg->user, msg->path,
	    start) == 0) {
		o->flags = msg->flags;
		o->offset = msg->offset;
		o->length = msg->length;
		o->have = msg->have;
		if (resume) {
			memcpy(o->hash, msg->hash.at, sizeof(o->hash));
		}
		worker_start(req, WORKER_OUT, get_child, o);
	}
	free(o);
}

/* ---- probe ------------------------------------------------------------ */

static void
probe_child(const struct worker_child *c, void *arg)
{
	static uint8_t buf[WIRE_INFO_MAX];

	(void)arg;
	worker_done(c->note, buf, probe_info(buf));
}

void
file_probe(struct session_request *req)
{
	worker_start(req, 0, probe_child, NULL);
}
