/* SPDX-License-Identifier: MIT */
/* file.c - worker processes: whole files in and out, renamed when complete. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user.h"
#include "worker.h"

#define PIECE 131072u			/* bytes moved at once */

/* A request in the making: what its worker gets. */
struct order {
	char path[WIRE_PATH_MAX + 258];
	char name[256];
	char user[WIRE_USER_MAX + 1];	/* "": stay who we are */
	uint32_t mode;
};

/* A copy without NUL inside and with one at the end; -1 if it has one. */
static int
take_path(char *out, size_t cap, struct wire_bytes from)
{
	if (from.len >= cap || (from.len > 0 &&
	    memchr(from.at, '\0', from.len) != NULL)) {
		return -1;
	}
	if (from.len > 0) {
		memcpy(out, from.at, from.len);
	}
	out[from.len] = '\0';
	return 0;
}

static void
refuse(struct session_request *req, const char *what)
{
	struct error error;

	error_set(&error, WIRE_STEP_USAGE, EINVAL, "%s", what);
	session_fail(req, &error);
}

static int
write_all(int fd, const char *buf, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = write(fd, buf, len);
		if (n == -1 && errno == EINTR) {
			continue;
		}
		if (n == -1) {
			return -1;
		}
		buf += n;
		len -= (size_t)n;
	}
	return 0;
}

static ssize_t
read_some(int fd, char *buf, size_t cap)
{
	ssize_t n;

	do {
		n = read(fd, buf, cap);
	} while (n == -1 && errno == EINTR);
	return n;
}

/* Whose rights count, from here to the end. */
static void
become(const struct order *o, int note)
{
	static struct user user;
	struct error error;

	if (o->user[0] != '\0' && (user_find(&user, o->user, &error) == -1 ||
	    user_become(&user, &error) == -1)) {
		worker_fail(note, error.step, error.number, error.text);
	}
}

/* The body's part that both directions have; -1: req has been answered. */
static int
take_order(struct order *o, struct session_request *req,
    struct wire_bytes user, struct wire_bytes path,
    const struct agent_start *start)
{
	if (take_path(o->path, WIRE_PATH_MAX, path) == -1 ||
	    o->path[0] == '\0') {
		refuse(req, "the path is empty, too long or has a NUL byte");
		return -1;
	}
	if (take_path(o->user, sizeof(o->user), user) == -1) {
		refuse(req, "the user has a NUL byte");
		return -1;
	}
	if (o->user[0] == '\0' && start->user != NULL) {
		snprintf(o->user, sizeof(o->user), "%s", start->user);
	}
	return 0;
}

/* ---- put -------------------------------------------------------------- */

/* Where the bytes go until they are complete. */
struct place {
	const char *path;		/* the file's own */
	char temp[WIRE_PATH_MAX + 320];
	int fd;
	bool in_place;			/* a device: no temporary name */
	struct stat old;
	bool existed;
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

static void
give_up(int note, const struct place *p, enum wire_step step, int number)
{
	if (!p->in_place && p->temp[0] != '\0') {
		unlink(p->temp);
	}
	worker_fail(note, step, number, p->path);
}

/* A directory gets the file inside it; a link is followed to its file. */
static void
resolve(struct order *put, int note)
{
	char real[PATH_MAX];
	size_t len = strlen(put->path);
	struct stat st;

	if (stat(put->path, &st) == -1) {
		if (len > 0 && put->path[len - 1] == '/') {
			worker_fail(note, WIRE_STEP_OPEN, errno, put->path);
		}
	} else if (S_ISDIR(st.st_mode)) {
		if (put->name[0] == '\0' || strchr(put->name, '/') != NULL) {
			worker_fail(note, WIRE_STEP_OPEN, EISDIR, put->path);
		}
		snprintf(put->path + len, sizeof(put->path) - len, "%s%s",
		    len > 0 && put->path[len - 1] == '/' ? "" : "/",
		    put->name);
	}
	if (lstat(put->path, &st) == 0 && S_ISLNK(st.st_mode) &&
	    realpath(put->path, real) != NULL &&
	    strlen(real) < sizeof(put->path)) {
		strcpy(put->path, real);
	}
}

static void
open_temp(struct place *p, int note)
{
	const char *slash = strrchr(p->path, '/');
	size_t dir = slash == NULL ? 0 : (size_t)(slash - p->path) + 1;
	uint8_t random[8];
	char hex[17];

	seal_random(random, sizeof(random));
	seal_hex(random, sizeof(random), hex);
	snprintf(p->temp, sizeof(p->temp), "%.*s.sandmux-%s.part", (int)dir,
	    p->path, hex);
	unfinished = p->temp;
	p->fd = open(p->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW |
	    O_CLOEXEC, 0600);
	if (p->fd == -1) {
		unfinished = NULL;
		p->temp[0] = '\0';
		worker_fail(note, WIRE_STEP_OPEN, errno, p->path);
	}
}

static void
open_place(struct place *p, int note)
{
	p->existed = stat(p->path, &p->old) == 0;
	if (p->existed && S_ISDIR(p->old.st_mode)) {
		worker_fail(note, WIRE_STEP_OPEN, EISDIR, p->path);
	}
	if (p->existed && access(p->path, W_OK) == -1) {
		worker_fail(note, WIRE_STEP_OPEN, errno, p->path);
	}
	if (p->existed && S_ISCHR(p->old.st_mode)) {
		p->in_place = true;
		p->fd = open(p->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
		if (p->fd == -1) {
			worker_fail(note, WIRE_STEP_OPEN, errno, p->path);
		}
		return;
	}
	if (p->existed && !S_ISREG(p->old.st_mode)) {
		worker_fail(note, WIRE_STEP_OPEN, EINVAL, p->path);
	}
	open_temp(p, note);
}

static void
publish(const struct place *p, uint32_t mode, int note)
{
	mode_t mask = umask(0);
	mode_t want = p->existed ? p->old.st_mode & 07777 :
	    (mode & 0777) & ~mask;

	if (p->in_place) {
		return;
	}
	/* A foreign owner is kept where we may; our own file stays ours. */
	if (p->existed && fchown(p->fd, p->old.st_uid, p->old.st_gid) == -1) {
		want &= 0777;
	}
	if (fchmod(p->fd, want) == -1) {
		give_up(note, p, WIRE_STEP_WRITE, errno);
	}
	/* Late errors of a network or full disk come with close(). */
	if (close(p->fd) == -1) {
		give_up(note, p, WIRE_STEP_WRITE, errno);
	}
	if (rename(p->temp, p->path) == -1) {
		give_up(note, p, WIRE_STEP_RENAME, errno);
	}
}

static void
put_child(const struct worker_child *c, void *arg)
{
	struct order *put = arg;
	struct place p = { .path = put->path };
	struct worker_commit commit;
	static char buf[PIECE];
	uint64_t total = 0;
	ssize_t n;

	become(put, c->note);
	signal(SIGTERM, on_term);
	resolve(put, c->note);
	open_place(&p, c->note);
	while ((n = read_some(c->in, buf, sizeof(buf))) > 0) {
		if (write_all(p.fd, buf, (size_t)n) == -1) {
			give_up(c->note, &p, WIRE_STEP_WRITE, errno);
		}
		total += (uint64_t)n;
	}
	/* The end of the pipe may be the core's death: only a total counts. */
	if (n == -1 || read(c->note, &commit, sizeof(commit)) !=
	    (ssize_t)sizeof(commit) || commit.total != total) {
		give_up(c->note, &p, WIRE_STEP_WRITE, ECANCELED);
	}
	publish(&p, put->mode, c->note);
	worker_done(c->note, NULL, 0);
}

void
file_put(struct session_request *req, const struct wire_put *msg,
    const struct agent_start *start)
{
	struct order *put = calloc(1, sizeof(*put));

	if (put == NULL) {
		refuse(req, "no memory");
	} else if (take_path(put->name, sizeof(put->name), msg->name) == -1) {
		refuse(req, "the name is too long or has a NUL byte");
	} else if (take_order(put, req, msg->user, msg->path, start) == 0) {
		put->mode = msg->mode;
		worker_start(req, WORKER_IN, put_child, put);
	}
	free(put);
}

/* ---- get -------------------------------------------------------------- */

static void
get_child(const struct worker_child *c, void *arg)
{
	const struct order *get = arg;
	const char *path = get->path;
	struct wire info = { .type = WIRE_FILE_INFO };
	static char buf[PIECE];
	uint8_t out[64];
	struct stat st;
	uint64_t total = 0;
	size_t len;
	ssize_t n;
	int fd;

	become(get, c->note);
	/* Not blocking: a fifo without a writer must not hold us. */
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) == -1) {
		worker_fail(c->note, WIRE_STEP_OPEN, errno, path);
	}
	if (!S_ISREG(st.st_mode)) {
		worker_fail(c->note, WIRE_STEP_OPEN, S_ISDIR(st.st_mode) ?
		    EISDIR : EINVAL, path);
	}
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	while ((n = read_some(fd, buf, sizeof(buf))) > 0) {
		if (write_all(c->out, buf, (size_t)n) == -1) {
			_exit(1);	/* nobody wants it any more */
		}
		total += (uint64_t)n;
	}
	if (n == -1) {
		worker_fail(c->note, WIRE_STEP_READ, errno, path);
	}
	info.u.file_info.size = total;
	info.u.file_info.mode = st.st_mode & 07777;
	if (wire_encode(&info, out, sizeof(out), &len) != WIRE_OK) {
		_exit(1);
	}
	worker_done(c->note, out, len);
}

void
file_get(struct session_request *req, const struct wire_get *msg,
    const struct agent_start *start)
{
	struct order *get = calloc(1, sizeof(*get));

	if (get == NULL) {
		refuse(req, "no memory");
	} else if (take_order(get, req, msg->user, msg->path, start) == 0) {
		worker_start(req, WORKER_OUT, get_child, get);
	}
	free(get);
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
