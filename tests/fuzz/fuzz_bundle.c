/* SPDX-License-Identifier: MIT */
/*
 * fuzz_bundle.c - a tree's stream from a hostile sender, into a real place.
 *
 * The input's first byte says what is there before and how messages are made:
 * raw bytes, or entries of short names that meet each other; its highest bit,
 * that the next bytes choose another place, flags and a limit.  Whatever comes,
 * nothing beside the place changes and nothing stays under a temporary name.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beneath.h"
#include "bundle.h"
#include "fuzz_input.h"

#define MESSAGES_MAX 400u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Names and targets that matter; an entry picks from them. */
static const char *const words[] = {
	"a", "b", "c", "", ".", "..", "a/b", "/a", "../out", "../out/canary",
	"a/b/c", "../../out", "b/a", "a/", "//", "canary", "out", "\n\x1b[2J"
};
#define WORDS (sizeof(words) / sizeof(words[0]))

/* Places that are there, are not, cannot be; all of them below `place`. */
static const char *const places[] = {
	"place", "place/new", "place/new/", "place/p/q/new", "place//",
	"place/file", "place/file/", "place/file/x", "place/link",
	"place/nowhere", "", "place/a/z/new"
};
#define PLACES (sizeof(places) / sizeof(places[0]))

static const char *
word(struct input *in)
{
	return words[input_u8(in) % WORDS];
}

static void
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	CHECK(fd != -1 && write(fd, text, strlen(text)) ==
	    (ssize_t)strlen(text));
	close(fd);
}

static void
tell(int fd, const struct wire *msg)
{
	static uint8_t buf[WIRE_CHUNK_MAX + 64];
	size_t len;

	if (wire_encode(msg, buf + 4, sizeof(buf) - 4, &len) != WIRE_OK) {
		return;
	}
	buf[0] = (uint8_t)(len >> 24);
	buf[1] = (uint8_t)(len >> 16);
	buf[2] = (uint8_t)(len >> 8);
	buf[3] = (uint8_t)len;
	CHECK(write(fd, buf, len + 4) == (ssize_t)len + 4);
}

/* Messages whose counts fit what came, unless they are told to lie. */
static void
tell_all(int fd, struct input *in)
{
	struct wire_tree_info info = { 0 };
	struct wire msg = { 0 };
	unsigned i;

	for (i = 0; i < MESSAGES_MAX && !input_done(in); i++) {
		uint8_t op = input_u8(in);
		bool hole = (op & 0x80) != 0;

		op %= 8;
		memset(&msg, 0, sizeof(msg));
		msg.type = op < 5 ? WIRE_ENTRY : op == 5 ? hole ? WIRE_HOLE :
		    WIRE_CHUNK : op == 6 ? WIRE_ENTRY_END : WIRE_SKIPPED;
		switch (msg.type) {
		case WIRE_ENTRY:
			msg.u.entry.kind = op;
			msg.u.entry.mode = input_u16(in);
			msg.u.entry.name = wire_string(i == 0 ? "" : word(in));
			if (op == WIRE_ENTRY_SYMLINK || op == WIRE_ENTRY_LINK) {
				msg.u.entry.target = wire_string(word(in));
			}
			info.entries++;
			info.files += op == WIRE_ENTRY_FILE;
			info.links += op == WIRE_ENTRY_LINK;
			break;
		case WIRE_CHUNK:
			msg.u.chunk.bytes = wire_string("some bytes");
			info.bytes += msg.u.chunk.bytes.len;
			break;
		case WIRE_HOLE:
			msg.u.hole.bytes = input_u16(in);
			info.bytes += msg.u.hole.bytes;
			break;
		case WIRE_SKIPPED:
			msg.u.skipped.error = input_u8(in);
			msg.u.skipped.path = wire_string(word(in));
			info.skipped++;
			break;
		default:
			break;
		}
		tell(fd, &msg);
	}
	msg.type = WIRE_TREE_INFO;
	msg.u.tree_info = info;
	tell(fd, &msg);
}

static void
skipped(void *ctx, const char *path, int error)
{
	unsigned *count = ctx;

	CHECK(strlen(path) <= WIRE_PATH_MAX && error >= 0 && error <= 65535);
	(*count)++;
}

static int
settle(void *ctx, const struct wire_tree_info *info, uint64_t bytes,
    struct error *error)
{
	unsigned *count = ctx;

	CHECK(bytes > 0 && info->skipped >= *count);
	/* Something that is about the input, and not too often. */
	if (info->entries % 4 == 3) {
		error_set(error, WIRE_STEP_WRITE, EIO, "not wanted");
		return -1;
	}
	return 0;
}

/* Where else, and how. */
static void
choose(struct bundle_sink *sink, struct input *in, unsigned *count)
{
	uint8_t more = input_u8(in);

	sink->path = places[input_u8(in) % PLACES];
	sink->name = more & 1 ? word(in) : "";
	sink->flags = (more & 2 ? WIRE_TREE_PARENTS : 0) |
	    (more & 4 ? WIRE_TREE_OWNER : 0) |
	    (more & 32 ? WIRE_TREE_SETID : 0);
	sink->max_entries = more & 8 ? 3 : 1000;
	if (more & 16) {
		sink->skipped = skipped;
		sink->settle = settle;
		sink->ctx = count;
	}
	write_file("place/file", "old");
	CHECK(symlink("file", "place/link") == 0);
	CHECK(symlink("never", "place/nowhere") == 0);
}

/* Names in a directory, besides those two. */
static unsigned
others(const char *path, const char *one, const char *two)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	CHECK(dir != NULL);
	while ((e = readdir(dir)) != NULL) {
		CHECK(strncmp(e->d_name, ".part-", 6) != 0);
		n += strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0 &&
		    strcmp(e->d_name, one) != 0 &&
		    strcmp(e->d_name, two) != 0;
	}
	closedir(dir);
	return n;
}

static void
check_outside(const ino_t canary)
{
	struct stat st;
	char text[8];
	int fd = open("out/canary", O_RDONLY | O_NOFOLLOW);

	CHECK(fd != -1 && read(fd, text, sizeof(text)) == 5);
	CHECK(memcmp(text, "alive", 5) == 0);
	CHECK(fstat(fd, &st) == 0 && st.st_ino == canary &&
	    st.st_nlink == 1 && (st.st_mode & 07777) == 0644);
	close(fd);
	CHECK(others("out", "canary", "canary") == 0);
	CHECK(stat("out", &st) == 0 && (st.st_mode & 07777) == 0755);
	CHECK(others(".", "out", "place") == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = input_u8(&in);
	char top[] = "/tmp/sandmux-fuzz-XXXXXX";
	struct bundle_sink sink = { .path = how & 1 ? "place" : "place/new",
	    .name = how & 2 ? "a" : "", .max_entries = 1000 };
	struct wire_tree_info info;
	struct error error;
	int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned count = 0;
	struct stat st;

	CHECK(before != -1 && mkdtemp(top) != NULL && chdir(top) == 0);
	umask(022);
	CHECK(mkdir("out", 0755) == 0 && mkdir("place", 0755) == 0);
	write_file("out/canary", "alive");
	CHECK(stat("out/canary", &st) == 0);
	if (how & 4) {
		CHECK(mkdir("place/a", 0755) == 0);
		CHECK(symlink("../../out", "place/a/b") == 0);
		CHECK(symlink("../out/canary", "place/b") == 0);
		write_file("place/a/c", "old");
	}
	if (how & 0x80) {
		choose(&sink, &in, &count);
	}
	sink.in = memfd_create("stream", MFD_CLOEXEC);
	CHECK(sink.in != -1);
	if (how & 8) {
		CHECK(write(sink.in, in.at, in.left) == (ssize_t)in.left);
	} else {
		tell_all(sink.in, &in);
	}
	CHECK(lseek(sink.in, 0, SEEK_SET) == 0);
	if (bundle_receive(&sink, &info, &error) == -1) {
		CHECK(access("place/new", F_OK) == -1);
	}
	close(sink.in);
	check_outside(st.st_ino);
	others("place", "", "");
	if (how & 4 && stat("place/a", &st) == 0 && S_ISDIR(st.st_mode)) {
		others("place/a", "", "");
	}
	CHECK(fchdir(before) == 0 && close(before) == 0);
	CHECK(beneath_remove(AT_FDCWD, top) == 0);
	return 0;
}
