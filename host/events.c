/* SPDX-License-Identifier: MIT */
/* events.c - a copy's events for --events, never waiting for the reader. */
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "system.h"

int
events_open(struct events *events, const char *path, struct error *error)
{
	events->cut = false;
	/* Not blocking: a pipe without a reader is an error. */
	events->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY |
	    O_NONBLOCK | O_CLOEXEC, 0666);
	if (events->fd < 0) {
		error_set(error, WIRE_STEP_NONE, errno, "--json %.256s",
		    path);
		return -1;
	}
	interrupt_guard();
	return 0;
}

void
events_begin(struct json *json, const char *event)
{
	*json = (struct json){ 0 };
	json_object(json, NULL);
	json_string(json, "event", event);
}

static void
send_text(struct events *events, const char *text, size_t len, bool last)
{
	ssize_t n;

	while (len > 0) {
		n = write(events->fd, text, len);
		if (n < 0 && errno == EINTR && !last) {
			continue;
		}
		if (n < 0) {
			return;
		}
		text += n;
		len -= (size_t)n;
		events->cut = len > 0;
	}
}

void
events_send(struct events *events, struct json *json, bool last)
{
	const char *text;

	json_end_object(json);
	text = json_text(json);
	if (events->fd >= 0 && text != NULL) {
		if (last) {
			system_nonblock(events->fd, 0);
		}
		if (events->cut) {
			send_text(events, "\n", 1, last);
		}
		if (!events->cut || last) {
			send_text(events, text, strlen(text), last);
			send_text(events, "\n", 1, last);
		}
	}
	json_free(json);
}

void
events_close(struct events *events)
{
	if (events->fd >= 0) {
		close(events->fd);
		events->fd = -1;
	}
}
