/* SPDX-License-Identifier: MIT */
/*
 * transport_local.c - the host itself: the embedded agent as our own child.
 *
 * The agent is put into the runtime directory once per content, so its jobs
 * run in HOME with the environment that the client sent in HELLO.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "embed.h"
#include "transport.h"

#define PREFIX "agent-"

/* Whether the file there is ours, as we made it, and our agent. */
static bool
genuine(const char *path, const struct embed *embed)
{
	uint8_t hash[SEAL_KEY];
	char hex[2 * SEAL_KEY + 1] = "";
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0) {
		return false;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_uid == geteuid() && (st.st_mode & 07777) == 0500 &&
	    (size_t)st.st_size == embed->len && seal_hash_fd(fd, hash) == 0) {
		seal_hex(hash, sizeof(hash), hex);
	}
	close(fd);
	return strcmp(hex, embed->hash) == 0;
}

static int
write_all(int fd, const uint8_t *data, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = write(fd, data, len);
		if (n < 0) {
			return -1;
		}
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int
extract(const char *path, const struct embed *embed, struct error *error)
{
	char temp[TRANSPORT_PATH_MAX + 16];
	int fd, rc;

	snprintf(temp, sizeof(temp), "%s.%ld", path, (long)getpid());
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    0500);
	if (fd < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s", temp);
		return -1;
	}
	rc = write_all(fd, embed->data, embed->len);
	if (fchmod(fd, 0500) < 0 || close(fd) < 0 || rc < 0 ||
	    rename(temp, path) < 0) {
		error_set(error, WIRE_STEP_START, errno, "%s: cannot put the "
		    "agent there", path);
		unlink(temp);
		return -1;
	}
	return 0;
}

/* Agents of other versions of this program: nobody starts them any more. */
static void
clean(const char *dir, const char *keep)
{
	DIR *d = opendir(dir);
	struct dirent *entry;

	if (d == NULL) {
		return;
	}
	while ((entry = readdir(d)) != NULL) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 &&
		    strlen(entry->d_name) == strlen(keep) &&
		    strcmp(entry->d_name, keep) != 0) {
			unlinkat(dirfd(d), entry->d_name, 0);
		}
	}
	closedir(d);
}

static int
resolve(struct transport_place *place, uint64_t deadline,
    struct error *error)
{
	struct transport_facts *facts = &place->facts;
	struct embed embed;
	int n;

	(void)deadline;
	if (embed_find("", &embed) < 0) {
		error_set(error, WIRE_STEP_START, 0, "this program has no "
		    "agent for its own architecture");
		return -1;
	}
	n = snprintf(facts->agent, sizeof(facts->agent), "%s/" PREFIX
	    "%.16s", place->runtime, embed.hash);
	if (n < 0 || (size_t)n >= sizeof(facts->agent)) {
		error_set(error, WIRE_STEP_START, ENAMETOOLONG, "%s",
		    place->runtime);
		return -1;
	}
	strcpy(facts->hash, embed.hash);
	strcpy(facts->id, "local");
	facts->flags |= TRANSPORT_KEEP;
	if (genuine(facts->agent, &embed)) {
		return 0;
	}
	clean(place->runtime, strrchr(facts->agent, '/') + 1);
	return extract(facts->agent, &embed, error);
}

static void
link_words(const struct transport_place *place, struct argv *argv)
{
	(void)place;
	(void)argv;
}

const struct transport transport_local = {
	.scheme = "local",
	.traits = TRANSPORT_HOME,
	.resolve = resolve,
	.link = link_words,
};
