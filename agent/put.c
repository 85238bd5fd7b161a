/* SPDX-License-Identifier: MIT */
/*
 * put.c - worker processes that write one file.
 *
 * The bytes go to a temporary file beside the target, which takes its place
 * when they are complete.  Where that is impossible, or would change more
 * than the content (other names of the file, its owner), the complete bytes
 * are copied into the file that is there; where the directory takes no
 * temporary file they are written into it as they come.
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "filecopy.h"
#include "worker.h"

#define TEMP_EXTRA 256			/* behind a directory */
#define ZEROS 4096			/* of a hole, in one write */

struct order {
	struct file_who who;
	char name[256];
	struct wire_put msg;		/* its numbers alone */
};

/* Where the bytes go until they are complete. */
struct place {
	char path[WIRE_PATH_MAX + 258];	/* the file's own */
	char temp[WIRE_PATH_MAX + TEMP_EXTRA];
	int fd, note;
	uint32_t flags;			/* of the request */
	bool direct;			/* no temporary file */
	bool stream;			/* only write(): a device, or the end */
	bool existed, atomic;
	struct stat old;
	struct filecopy copy;
	uint64_t length;		/* what has been written ends here */
	uint8_t told[SEAL_KEY];		/* the sender's hash */
	uint8_t hash[SEAL_KEY];		/* of what is there */
};

static const char *volatile unfinished;	/* what an early end removes */

static void
on_term(int number)
{
	(void)number;
	if (unfinished != NULL) {
		unlink(unfinished);
	}
	_exit(1);
}

static void __attribute__((noreturn))
give_up(const struct place *p, enum wire_step step, int number)
{
	if (unfinished != NULL) {
		unlink(unfinished);
	}
	worker_fail(p->note, step, number, p->path);
}

/* ---- the place -------------------------------------------------------- */

/* mkdir -p for all that is before the last slash. */
static void
make_parents(char *path, int note)
{
	char *at;

	for (at = path + 1; *path != '\0' && *at != '\0'; at++) {
		if (*at != '/' || at[-1] == '/') {
			continue;
		}
		*at = '\0';
		if (mkdir(path, 0777) == -1 && errno != EEXIST) {
			worker_fail(note, WIRE_STEP_MKDIR, errno, path);
		}
		*at = '/';
	}
}

/* A directory gets the file inside it; a link is followed to its file. */
static void
resolve(struct place *p, const char *name)
{
	char real[PATH_MAX];
	size_t len = strlen(p->path);
	struct stat st;

	if (stat(p->path, &st) == -1) {
		if (p->path[len - 1] == '/') {
			give_up(p, WIRE_STEP_OPEN, errno);
		}
	} else if (S_ISDIR(st.st_mode)) {
		if (name[0] == '\0' || strchr(name, '/') != NULL) {
			give_up(p, WIRE_STEP_OPEN, EISDIR);
		}
		snprintf(p->path + len, sizeof(p->path) - len, "%s%s",
		    p->path[len - 1] == '/' ? "" : "/", name);
	}
	if (lstat(p->path, &st) == -1 || !S_ISLNK(st.st_mode)) {
		return;
	}
	/* As cp: what a link says is written to, but not made. */
	if (realpath(p->path, real) == NULL) {
		give_up(p, WIRE_STEP_OPEN, errno);
	}
	snprintf(p->path, sizeof(p->path), "%s", real);
}

/* A name beside the file's own. */
static void
name_temp(struct place *p, const char *name)
{
	const char *slash = strrchr(p->path, '/');
	size_t dir = slash == NULL ? 0 : (size_t)(slash - p->path) + 1;

	snprintf(p->temp, sizeof(p->temp), "%.*s%s", (int)dir, p->path, name);
}

static int
open_temp(struct place *p)
{
	uint8_t random[8];
	char hex[17], name[64];

	seal_random(random, sizeof(random));
	seal_hex(random, sizeof(random), hex);
	snprintf(name, sizeof(name), ".part-%s", hex);
	name_temp(p, name);
	unfinished = p->temp;
	p->fd = open(p->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW |
	    O_CLOEXEC, 0600);
	if (p->fd == -1) {
		unfinished = NULL;
	}
	return p->fd;
}

/* The one that an earlier copy has left; -1 with errno. */
static int
find_partial(struct place *p)
{
	const char *slash = strrchr(p->path, '/');
	char name[256];

	filecopy_partial(slash == NULL ? p->path : slash + 1, name);
	name_temp(p, name);
	p->fd = open(p->temp, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
	    O_CLOEXEC);
	return p->fd;
}

/* It is ours alone, and nobody else is at it. */
static void
check_partial(const struct place *p, struct stat *st)
{
	struct stat now;

	if (fstat(p->fd, st) == -1 || !S_ISREG(st->st_mode) ||
	    st->st_uid != geteuid() || (st->st_mode & 077) != 0 ||
	    st->st_nlink != 1) {
		worker_fail(p->note, WIRE_STEP_PARTIAL, EPERM, p->temp);
	}
	/* Whoever has just finished with it has renamed it. */
	if (flock(p->fd, LOCK_EX | LOCK_NB) == -1 ||
	    lstat(p->temp, &now) == -1 || now.st_ino != st->st_ino) {
		worker_fail(p->note, WIRE_STEP_PARTIAL, EAGAIN, p->temp);
	}
}

/* That, or a new one: it stays. */
static int
open_partial(struct place *p)
{
	struct stat st;

	find_partial(p);
	if (p->fd == -1 && errno != ENOENT) {
		worker_fail(p->note, WIRE_STEP_PARTIAL, errno, p->temp);
	}
	if (p->fd == -1) {
		p->fd = open(p->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	}
	if (p->fd == -1) {
		return -1;
	}
	check_partial(p, &st);
	return p->fd;
}

/* For cleanup: the one that an earlier copy has left goes. */
static void __attribute__((noreturn))
discard(struct place *p)
{
	struct wire_file_info info = { 0 };
	struct stat st;

	if (find_partial(p) != -1) {
		check_partial(p, &st);
		if (unlink(p->temp) == -1) {
			worker_fail(p->note, WIRE_STEP_PARTIAL, errno,
			    p->temp);
		}
		file_info(&info, &st);
	} else if (errno != ENOENT && errno != ENOTDIR) {
		worker_fail(p->note, WIRE_STEP_PARTIAL, errno, p->temp);
	}
	file_done(p->note, &info);
}

/* Into the file as it is. */
static void
open_direct(struct place *p)
{
	bool append = (p->flags & WIRE_PUT_APPEND) != 0;
	int how = (p->flags & WIRE_PUT_HASH) != 0 ? O_RDWR : O_WRONLY;

	p->direct = true;
	p->stream = append || !S_ISREG(p->old.st_mode);
	if (p->stream && (p->flags & WIRE_PUT_HASH) != 0) {
		give_up(p, WIRE_STEP_VERIFY, ESPIPE);
	}
	p->fd = open(p->path, how | (append ? O_APPEND : 0) | O_NONBLOCK |
	    O_NOCTTY | O_CLOEXEC);
	if (p->fd == -1) {
		give_up(p, WIRE_STEP_OPEN, errno);
	}
	fcntl(p->fd, F_SETFL, append ? O_APPEND : 0);
}

static void
open_place(struct place *p)
{
	int error;

	p->existed = stat(p->path, &p->old) == 0;
	if (p->existed && access(p->path, W_OK) == -1) {
		give_up(p, WIRE_STEP_OPEN, errno);
	}
	if (p->existed && (S_ISCHR(p->old.st_mode) ||
	    S_ISBLK(p->old.st_mode))) {
		open_direct(p);
		return;
	}
	/* A fifo could hold us, a socket is no file. */
	if (p->existed && !S_ISREG(p->old.st_mode)) {
		give_up(p, WIRE_STEP_OPEN, S_ISDIR(p->old.st_mode) ? EISDIR :
		    EINVAL);
	}
	if (((p->flags & WIRE_PUT_RESUME) != 0 ? open_partial(p) :
	    open_temp(p)) != -1) {
		return;
	}
	error = errno;
	if (!p->existed || (error != EACCES && error != EPERM &&
	    error != EROFS)) {
		give_up(p, WIRE_STEP_OPEN, error);
	}
	open_direct(p);
}

/* ---- START ------------------------------------------------------------ */

/* What there is already, for the host to compare. */
static void
say_partial(const struct place *p, int out, uint64_t *size)
{
	struct wire msg = { .type = WIRE_PARTIAL };
	struct seal_digest digest;
	uint8_t hash[SEAL_KEY], buf[64];
	size_t len;

	*size = 0;
	seal_digest_init(&digest);
	if (!p->direct && filecopy_hash(&digest, p->fd, size,
	    UINT64_MAX) == -1) {
		give_up(p, WIRE_STEP_READ, errno);
	}
	seal_digest_get(&digest, hash);
	msg.u.partial.size = *size;
	msg.u.partial.hash = (struct wire_bytes){ hash, sizeof(hash) };
	len = filecopy_head_put(&msg, buf, sizeof(buf));
	if (file_write(out, buf, len) == -1) {
		_exit(1);
	}
}

/* Its length on the wire. */
static uint64_t
take_start(struct place *p, int in, uint64_t partial)
{
	static struct filecopy_head head;
	struct wire msg;
	ssize_t want, n;

	while ((want = filecopy_head_wants(&head)) > 0) {
		n = file_read(in, head.buf + head.have, (size_t)want);
		if (n <= 0) {
			give_up(p, WIRE_STEP_WRITE, ECANCELED);
		}
		head.have += (size_t)n;
	}
	if (want == -1 || filecopy_head_get(&head, WIRE_START, &msg) == -1 ||
	    filecopy_accept(&p->copy, &msg.u.start) == -1 ||
	    (p->copy.from != 0 && p->copy.from != partial)) {
		give_up(p, WIRE_STEP_USAGE, EPROTO);
	}
	if ((p->copy.from < partial || (p->direct && !p->stream)) &&
	    ftruncate(p->fd, 0) == -1) {
		give_up(p, WIRE_STEP_WRITE, errno);
	}
	p->length = p->copy.from;
	return head.have;
}

/* ---- bytes ------------------------------------------------------------ */

static int
write_at(int fd, const char *buf, size_t len, uint64_t at)
{
	ssize_t n;

	while (len > 0) {
		n = pwrite(fd, buf, len, (off_t)at);
		if (n == -1 && errno == EINTR) {
			continue;
		}
		if (n == -1) {
			return -1;
		}
		buf += n;
		len -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/* What has no offsets gets its holes as zeros. */
static int
fill(struct place *p, uint64_t to)
{
	static char zeros[ZEROS];
	size_t n;

	for (; p->length < to; p->length += n) {
		n = to - p->length < sizeof(zeros) ?
		    (size_t)(to - p->length) : sizeof(zeros);
		if (file_write(p->fd, zeros, n) == -1) {
			return -1;
		}
	}
	return 0;
}

/* len bytes of the flow, to where they belong. */
static int
store(struct place *p, const char *buf, size_t len)
{
	bool hole;
	size_t n;
	int rc;

	while (len > 0) {
		n = len < p->copy.left ? len : (size_t)p->copy.left;
		hole = false;
		if (p->stream) {
			rc = fill(p, p->copy.at) == -1 ? -1 :
			    file_write(p->fd, buf, n);
		} else {
			n = filecopy_run(&p->copy, buf, n, &hole);
			rc = hole ? 0 : write_at(p->fd, buf, n, p->copy.at);
		}
		if (rc == -1) {
			return -1;
		}
		p->length = p->copy.at + n;
		filecopy_moved(&p->copy, n);
		buf += n;
		len -= n;
	}
	return 0;
}

static void
take_all(struct place *p, const struct worker_child *c)
{
	/* What may be the sender's hash waits for more, or the end. */
	size_t kept = 0, tail = (p->flags & WIRE_PUT_HASH) != 0 ? SEAL_KEY : 0;
	struct worker_commit commit;
	static char buf[SEAL_KEY + FILE_PIECE];
	uint64_t total, partial = 0;
	ssize_t n;

	if ((p->flags & WIRE_PUT_RESUME) != 0) {
		say_partial(p, c->out, &partial);
		close(c->out);
	}
	total = take_start(p, c->in, partial);
	while ((n = file_read(c->in, buf + kept, FILE_PIECE)) > 0) {
		total += (uint64_t)n;
		kept += (size_t)n;
		if (kept > tail && store(p, buf, kept - tail) == -1) {
			give_up(p, WIRE_STEP_WRITE, errno);
		}
		if (kept > tail) {
			memmove(buf, buf + kept - tail, tail);
			kept = tail;
		}
	}
	/* The end of the pipe may be the core's death: only a total counts. */
	if (n == -1 || file_read(c->note, &commit, sizeof(commit)) !=
	    (ssize_t)sizeof(commit) || commit.total != total) {
		give_up(p, WIRE_STEP_WRITE, ECANCELED);
	}
	if (kept != tail || p->copy.left != WIRE_TO_END) {
		give_up(p, WIRE_STEP_USAGE, EPROTO);
	}
	memcpy(p->told, buf, tail);
	/* A hole at the end, or more than this in a partial file. */
	if (p->stream ? fill(p, p->copy.at) == -1 :
	    ftruncate(p->fd, (off_t)p->copy.at) == -1) {
		give_up(p, WIRE_STEP_WRITE, errno);
	}
}

/* ---- the end ---------------------------------------------------------- */

/* What is really there now is what was sent, if that was asked for. */
static void
verify(struct place *p)
{
	struct seal_digest digest;
	uint64_t at = 0;

	if ((p->flags & WIRE_PUT_HASH) == 0) {
		return;
	}
	seal_digest_init(&digest);
	if (filecopy_hash(&digest, p->fd, &at, WIRE_TO_END) == -1) {
		give_up(p, WIRE_STEP_READ, errno);
	}
	seal_digest_get(&digest, p->hash);
	if (memcmp(p->hash, p->told, sizeof(p->hash)) != 0) {
		give_up(p, WIRE_STEP_VERIFY, EBADMSG);
	}
}

/*
 * Room for what is to come, before the old content goes: it survives a full
 * disk.  What cannot tell is tried.
 */
static int
reserve(int fd, const struct stat *whole, off_t from)
{
	off_t room = (off_t)whole->st_blocks * 512;

	room = room < whole->st_size ? room : whole->st_size;
	return room > 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, from, room) ==
	    -1 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) ? -1 :
	    0;
}

/*
 * The complete bytes into the file that is there.  Once the old ones go only
 * the end helps: TERM waits for it (WORKER_TIDIES).
 */
static void
overwrite(struct place *p)
{
	bool append = (p->flags & WIRE_PUT_APPEND) != 0;
	struct place to = *p;
	static char buf[FILE_PIECE];
	struct stat whole;
	ssize_t n;

	to.stream = append;
	to.fd = open(p->path, ((p->flags & WIRE_PUT_HASH) != 0 ? O_RDWR :
	    O_WRONLY) | (append ? O_APPEND : 0) | O_NOCTTY | O_NONBLOCK |
	    O_CLOEXEC);
	if (to.fd == -1) {
		give_up(p, WIRE_STEP_OPEN, errno);
	}
	if (fstat(p->fd, &whole) == -1 || reserve(to.fd, &whole, append ?
	    p->old.st_size : 0) == -1) {
		give_up(p, WIRE_STEP_WRITE, errno);
	}
	signal(SIGTERM, SIG_IGN);
	if (!append && ftruncate(to.fd, 0) == -1) {
		give_up(p, WIRE_STEP_WRITE, errno);
	}
	filecopy_scan(&to.copy, p->fd, 0, false);
	to.length = 0;
	do {
		n = pread(p->fd, buf, to.copy.left < sizeof(buf) ?
		    (size_t)to.copy.left : sizeof(buf), (off_t)to.copy.at);
	} while (n > 0 && store(&to, buf, (size_t)n) == 0);
	if (n != 0 || (append ? fill(&to, to.copy.at) :
	    ftruncate(to.fd, (off_t)to.copy.at)) == -1) {
		n = errno;
		if (append && ftruncate(to.fd, p->old.st_size) == -1) {
			n = errno;	/* nothing better to say */
		}
		give_up(p, WIRE_STEP_WRITE, (int)n);
	}
	close(p->fd);
	unlink(p->temp);
	unfinished = NULL;
	signal(SIGTERM, on_term);
	p->fd = to.fd;
}

/* Mode, owner and time of what is ours to change. */
static void
dress(const struct place *p, const struct wire_put *msg)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
	    { .tv_sec = (time_t)((int64_t)msg->mtime / 1000000000),
	    .tv_nsec = (long)((int64_t)msg->mtime % 1000000000) } };
	mode_t mask = umask(0);
	mode_t mode = (mode_t)msg->mode & 0777 & ~mask;

	if ((p->flags & WIRE_PUT_MODE) != 0) {
		mode = (mode_t)msg->mode & 07777;
	} else if (p->existed) {
		mode = p->old.st_mode & 07777;
	}
	if ((p->flags & WIRE_PUT_OWNER) != 0 &&
	    fchown(p->fd, msg->uid, msg->gid) == -1) {
		mode &= 0777;		/* no setuid to someone else */
	}
	/* In place it has its own mode, and may be someone else's. */
	if (((p->flags & WIRE_PUT_MODE) != 0 || !p->direct) &&
	    fchmod(p->fd, mode) == -1) {
		give_up(p, WIRE_STEP_CHMOD, errno);
	}
	if (times[1].tv_nsec < 0) {
		times[1].tv_sec--;
		times[1].tv_nsec += 1000000000;
	}
	if ((p->flags & WIRE_PUT_MTIME) != 0) {
		futimens(p->fd, times);
	}
}

/* Whether a new file in its place would be the same but for its content. */
static bool
replaceable(const struct place *p)
{
	if (!p->existed) {
		return true;
	}
	return p->old.st_nlink <= 1 && (p->flags & WIRE_PUT_APPEND) == 0 &&
	    ((p->old.st_uid == geteuid() && p->old.st_gid == getegid()) ||
	    fchown(p->fd, p->old.st_uid, p->old.st_gid) == 0);
}

static void
publish(struct place *p, const struct wire_put *msg)
{
	bool over = !p->direct && !replaceable(p);

	if (!over) {
		dress(p, msg);
		/* Late errors of a network or full disk come with close(). */
		if (close(dup(p->fd)) == -1) {
			give_up(p, WIRE_STEP_WRITE, errno);
		}
	}
	if (!p->direct && !over) {
		p->atomic = rename(p->temp, p->path) == 0;
		/* A mount point, or someone else's in a sticky directory. */
		over = !p->atomic && p->existed && (errno == EBUSY ||
		    errno == EPERM || errno == EACCES);
		if (!p->atomic && !over) {
			give_up(p, WIRE_STEP_RENAME, errno);
		}
	}
	if (over) {
		overwrite(p);
		p->direct = true;
		verify(p);
		dress(p, msg);
	}
}


static void
say_done(struct place *p)
{
	struct wire_file_info info = { 0 };
	struct stat st;

	if (fstat(p->fd, &st) == -1) {
		give_up(p, WIRE_STEP_WRITE, errno);
	}
	file_info(&info, &st);
	info.flags = p->atomic ? WIRE_FILE_ATOMIC : 0;
	if ((p->flags & WIRE_PUT_HASH) != 0) {
		info.hash = (struct wire_bytes){ p->hash, sizeof(p->hash) };
	}
	file_done(p->note, &info);
}

static void
put_child(const struct worker_child *c, void *arg)
{
	const struct order *o = arg;
	static struct place p;

	file_become(&o->who, c->note);
	signal(SIGTERM, on_term);
	p.fd = -1;
	p.note = c->note;
	p.flags = o->msg.flags;
	strcpy(p.path, o->who.path);
	if ((p.flags & WIRE_PUT_PARENTS) != 0) {
		make_parents(p.path, c->note);
	}
	resolve(&p, o->name);
	if ((p.flags & WIRE_PUT_DISCARD) != 0) {
		discard(&p);
	}
	open_place(&p);
	take_all(&p, c);
	verify(&p);
	publish(&p, &o->msg);
	say_done(&p);
}

void
file_put(struct session_request *req, const struct wire_put *msg,
    const struct agent_start *start)
{
	struct order *o = calloc(1, sizeof(*o));
	uint32_t alone = WIRE_PUT_RESUME | WIRE_PUT_HASH;
	uint32_t sole = WIRE_PUT_RESUME | WIRE_PUT_DISCARD;

	if (o == NULL) {
		file_refuse(req, "no memory");
	} else if (wire_copy(o->name, sizeof(o->name), msg->name) == -1) {
		file_refuse(req, "the name is too long or has a NUL byte");
	} else if ((msg->flags & WIRE_PUT_APPEND) != 0 &&
	    (msg->flags & alone) != 0) {
		file_refuse(req, "append goes with neither resume nor hash");
	} else if ((msg->flags & WIRE_PUT_DISCARD) != 0 &&
	    msg->flags != sole) {
		file_refuse(req, "discard goes with resume alone");
	} else if (file_take_who(&o->who, req, msg->user, msg->path,
	    start) == 0) {
		o->msg = *msg;
		worker_start(req, msg->flags == sole ? 0 : WORKER_IN |
		    WORKER_TIDIES | ((msg->flags & WIRE_PUT_RESUME) != 0 ?
		    WORKER_OUT : 0), put_child, o);
	}
	free(o);
}
