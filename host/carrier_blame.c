/* SPDX-License-Identifier: MIT */
/*
 * carrier_blame.c - why a carrier ended, in one line for people.
 */
#include "carrier.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "quote.h"

#define SHOWN 140u	/* bytes quoted from each end */
#define ADVICE 180u	/* room kept for what to try */

/* Remote bytes without the blanks at their end and without NULs. */
static size_t
quote(char *out, size_t cap, size_t used, const uint8_t *data, size_t len)
{
	while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r')) {
		len--;
	}
	for (; len > 0 && used + 1 < cap; len--, data++) {
		out[used++] = *data == '\0' ? '?' : (char)*data;
	}
	out[used] = '\0';
	return used;
}

/* What stood where the hello was due: its start and, if long, its end. */
static size_t
quote_noise(const struct carrier *c, char *text, size_t cap, size_t used)
{
	uint8_t all[2 * LINK_QUOTE];
	size_t n = c->head_len + c->noise_tail_len;

	memcpy(all, c->noise_head, c->head_len);
	memcpy(all + c->head_len, c->noise_tail, c->noise_tail_len);
	used = quote_add(text, cap, used, "; %zu bytes came before the hello: \"",
	    c->noise);
	if (n <= 2 * SHOWN) {
		used = quote(text, cap, used, all, n);
	} else {
		used = quote(text, cap, used, all, SHOWN);
		used = quote_add(text, cap, used, "\" ... \"");
		used = quote(text, cap, used, all + n - SHOWN, SHOWN);
	}
	return quote_add(text, cap, used, "\"");
}

static size_t
quote_stderr(const struct carrier *c, char *text, size_t cap, size_t used)
{
	size_t n = c->tail_len < 2 * SHOWN ? c->tail_len : 2 * SHOWN;

	if (n > 0) {
		used = quote_add(text, cap, used, "; stderr: \"");
		used = quote(text, cap, used, c->tail + c->tail_len - n, n);
		used = quote_add(text, cap, used, "\"");
	}
	return used;
}

static const char *
advice(const struct carrier *c)
{
	if (c->wrong_version) {
		return "; install the same sandmux on both sides";
	}
	if (c->timed_out && c->noise == 0 && c->tail_len == 0) {
		return "; if this transport buffers stdin until its end, or "
		    "a login file waits, no hello can come: try a "
		    "terminal transport or look at the login files";
	}
	if (c->login && c->noise > 0) {
		return "; a login file may print, wait or exec something "
		    "else: look at ~/.bash_profile and ~/.profile there";
	}
	return "";
}

void
carrier_blame(const struct carrier *c, const char *target,
    struct error *error)
{
	char *text = error->text, ended[64];
	size_t cap = sizeof(error->text), used;

	error->number = 0;
	error->step = c->up_at == 0 ? WIRE_STEP_START : WIRE_STEP_LINK;
	child_words(&c->child, ended, sizeof(ended));
	used = quote_add(text, cap, 0, "%s: ", target);
	if (c->up_at != 0) {
		used = quote_add(text, cap, used, "%.300s; the transport's process "
		    "%s", c->error.text, c->child.exited ? ended :
		    "was killed for it");
		quote_stderr(c, text, cap, used);
		return;
	}
	if (c->wrong_version) {
		used = quote_add(text, cap, used, "the agent there speaks versions "
		    "%s, this program %04x-%04x", c->versions,
		    WIRE_VERSION_MIN, WIRE_VERSION_MAX);
	} else if (c->timed_out) {
		used = quote_add(text, cap, used, "no hello from the agent within "
		    "%u s", (unsigned)((c->deadline - c->started) /
		    (1000 * CLOCK_MS)));
	} else {
		used = quote_add(text, cap, used, "the transport's process %s before "
		    "the agent answered (%.200s)", ended, c->error.text);
	}
	used = quote_stderr(c, text, cap - ADVICE, used);
	if (c->noise > 0) {
		used = quote_noise(c, text, cap - ADVICE, used);
	}
	quote_add(text, cap, used, "%s", advice(c));
}

int
carrier_idle(struct carrier *carrier, uint64_t since)
{
	if (carrier->link == NULL) {
		return -1;
	}
	if (link_pong_at(carrier->link) > since) {
		return !link_peer_busy(carrier->link);
	}
	if (carrier->asked <= since) {
		carrier->asked = clock_now();
		link_ping(carrier->link);
	}
	return -1;
}
