/* SPDX-License-Identifier: MIT */
/* found.c - the file of live sessions, and what an old one tells. */
#include "found.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "paths.h"
#include "quote.h"
#include "target_link.h"

#define SIZE_MAX_READ (HUB_LINKS * (TARGET_TEXT_MAX + 32u))

static struct {
	char target[TARGET_TEXT_MAX];
	uint64_t until;			/* clock.h */
} all[HUB_LINKS];
static unsigned count;

static void
take(const char *name, uint64_t ms)
{
	if (count == HUB_LINKS || name[0] == '\0') {
		return;
	}
	quote_text(all[count].target, sizeof(all[count].target), name);
	all[count].until = clock_now() + ms * CLOCK_MS;
	log_write(LOG_WARNING, "%s: the controller before this one ended "
	    "without a word; nobody can continue its session, whose jobs end "
	    "within %" PRIu64 " s of that", all[count].target, ms / 1000);
	count++;
}

void
found_read(const char *directory)
{
	static char text[SIZE_MAX_READ + 1];
	char path[PATHS_MAX], *line, *next, *end;
	struct error ignored;
	uint64_t ms;
	ssize_t n;
	int fd;

	if (paths_join(path, sizeof(path), directory, PATHS_SESSIONS,
	    &ignored) < 0) {
		return;
	}
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		return;
	}
	n = read(fd, text, SIZE_MAX_READ);
	close(fd);
	unlink(path);
	text[n < 0 ? 0 : n] = '\0';
	/* "MILLISECONDS TARGET" each. */
	for (line = text; *line != '\0'; line = next) {
		next = line + strcspn(line, "\n");
		if (*next == '\n') {
			*next++ = '\0';
		}
		ms = strtoull(line, &end, 10);
		if (end != line && *end == ' ' && ms <= UINT32_MAX) {
			take(end + 1, ms);
		}
	}
}

const char *
found_target(unsigned i, uint64_t *seconds)
{
	uint64_t now = clock_now();
	unsigned k;

	for (k = 0; k < count; k++) {
		if (all[k].until > now && i-- == 0) {
			*seconds = (all[k].until - now) / (1000 * CLOCK_MS);
			return all[k].target;
		}
	}
	return NULL;
}

static size_t
list(const struct hub *hub, char *text, size_t cap)
{
	const struct controller_options *options = hub->options;
	uint64_t ms = (uint64_t)options->linger_ms + (options->dead_ms != 0 ?
	    options->dead_ms : LINK_DEAD_MS);
	char name[TARGET_TEXT_MAX];
	const struct list *l;
	size_t used = 0;

	for (l = hub->links.next; l != &hub->links; l = l->next) {
		const struct target_link *link = LIST_OF(l,
		    const struct target_link, link);

		if (link->state < TARGET_LINK_UP ||
		    link->state > TARGET_LINK_PARKED) {
			continue;
		}
		target_format(&link->target, name);
		used += (size_t)snprintf(text + used, cap - used,
		    "%" PRIu64 " %s\n", ms, name);
	}
	return used;
}

void
found_write(const struct hub *hub)
{
	static char text[SIZE_MAX_READ];
	char path[PATHS_MAX], temp[PATHS_MAX + 16];
	size_t len = list(hub, text, sizeof(text));
	struct error ignored;
	int fd, ok;

	if (hub->handed_over) {
		return;			/* another's file by now */
	}
	if (paths_join(path, sizeof(path), hub->options->directory,
	    PATHS_SESSIONS, &ignored) < 0) {
		return;
	}
	if (len == 0) {
		unlink(path);
		return;
	}
	snprintf(temp, sizeof(temp), "%s.new", path);
	unlink(temp);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ok = fd >= 0 && write(fd, text, len) == (ssize_t)len &&
	    rename(temp, path) == 0;
	if (fd >= 0) {
		close(fd);
	}
	if (!ok) {
		log_write(LOG_WARNING, "%s: %s", path, strerror(errno));
	}
}
