/* SPDX-License-Identifier: MIT */
/* link_hello.c - argv's words, hello and READY, and the noise before them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "link_private.h"

#define MAGIC "SANDMUX-HELLO "
#define MAGIC_LEN (sizeof(MAGIC) - 1)
#define AT_TOKEN (MAGIC_LEN + LINK_VERSIONS + 1)
#define AT_KEY (AT_TOKEN + LINK_TOKEN + 1)

_Static_assert(AT_KEY + 2 * SEAL_KEY + 1 == LINK_HELLO, "hello's length");
_Static_assert(LINK_PREAMBLE <= 512, "the preamble is small");

/* ---- versions and words ----------------------------------------------- */

static int
parse_versions(const char *text, unsigned *min, unsigned *max)
{
	uint8_t v[4];
	char hex[9];

	if (strlen(text) != LINK_VERSIONS || text[4] != '-') {
		return -1;
	}
	snprintf(hex, sizeof(hex), "%.4s%.4s", text, text + 5);
	if (seal_unhex(hex, v, 4) == -1) {
		return -1;
	}
	*min = (unsigned)v[0] << 8 | v[1];
	*max = (unsigned)v[2] << 8 | v[3];
	return *min <= *max ? 0 : -1;
}

void
link_our_versions(char out[LINK_VERSIONS + 1])
{
	snprintf(out, LINK_VERSIONS + 1, "%04x-%04x",
	    (unsigned)WIRE_VERSION_MIN & 0xffff,
	    (unsigned)WIRE_VERSION_MAX & 0xffff);
}

unsigned
link_common_version(const char *theirs)
{
	unsigned min, max;

	if (parse_versions(theirs, &min, &max) == -1 ||
	    min > WIRE_VERSION_MAX || max < WIRE_VERSION_MIN) {
		return 0;
	}
	return max < WIRE_VERSION_MAX ? max : WIRE_VERSION_MAX;
}

int
link_parse_terms(struct link_terms *terms, char *const words[5],
    const char **what)
{
	uint8_t scratch[SEAL_KEY];
	unsigned min, max;

	memset(terms, 0, sizeof(*terms));
	*what = "versions";
	if (parse_versions(words[0], &min, &max) == -1) {
		return -1;
	}
	*what = "token";
	if (strlen(words[1]) != LINK_TOKEN ||
	    seal_unhex(words[1], scratch, LINK_TOKEN / 2) == -1) {
		return -1;
	}
	*what = "session";
	if (strlen(words[2]) != LINK_SESSION ||
	    seal_unhex(words[2], scratch, LINK_SESSION / 2) == -1) {
		return -1;
	}
	*what = "link number";
	if (strlen(words[3]) != 8 || seal_unhex(words[3], scratch, 4) == -1) {
		return -1;
	}
	terms->number = (uint32_t)scratch[0] << 24 |
	    (uint32_t)scratch[1] << 16 | (uint32_t)scratch[2] << 8 |
	    scratch[3];
	if (terms->number == 0) {
		return -1;
	}
	*what = "host key";
	if (strlen(words[4]) != 2 * SEAL_KEY ||
	    seal_unhex(words[4], terms->host_key, SEAL_KEY) == -1) {
		return -1;
	}
	memcpy(terms->versions, words[0], LINK_VERSIONS);
	memcpy(terms->token, words[1], LINK_TOKEN);
	memcpy(terms->session, words[2], LINK_SESSION);
	return 0;
}

void
link_format_hello(const struct link_terms *terms, const uint8_t *key,
    uint8_t out[LINK_HELLO])
{
	char text[LINK_HELLO + 1], versions[LINK_VERSIONS + 1];
	char hex[2 * SEAL_KEY + 1];

	link_our_versions(versions);
	seal_hex(key, SEAL_KEY, hex);
	snprintf(text, sizeof(text), MAGIC "%s %s %s\n", versions,
	    terms->token, hex);
	memcpy(out, text, LINK_HELLO);
}

void
link_bind(const struct link *link, struct seal_binding *b)
{
	*b = (struct seal_binding){
		.versions = link->terms.versions, .token = link->terms.token,
		.session = link->terms.session, .link = link->terms.number,
		.host_key = link->terms.host_key, .hello = link->hello,
		.hello_len = LINK_HELLO
	};
}

/* ---- agent ------------------------------------------------------------ */

void
link_hello_send(struct link *link, const struct link_config *config)
{
	struct wire msg = { .type = WIRE_READY };
	struct seal_binding b;

	link_format_hello(&link->terms, seal_public(link->seal), link->hello);
	memcpy(link->out_buf, link->hello, LINK_HELLO);
	link_bind(link, &b);
	if (seal_derive(link->seal, link->secret, &b, link->terms.host_key,
	    link->out_buf + LINK_HELLO) == -1) {
		link_fail(link, WIRE_STEP_LINK, 0, "the host key is refused");
		return;
	}
	link->out_end = LINK_HELLO + SEAL_HEADER;
	msg.u.ready.version =
	    (uint16_t)link_common_version(link->terms.versions);
	msg.u.ready.link = link->terms.number;
	msg.u.ready.uid = (uint32_t)getuid();
	msg.u.ready.unlinked = config->unlinked;
	msg.u.ready.switches = config->switches;
	msg.u.ready.terminals = config->terminals;
	link_seal_message(link, &msg);
}

/* ---- host ------------------------------------------------------------- */

/* n bytes at the start of the input are noise: keep the first and last. */
static void
skip(struct link *link, size_t n)
{
	const uint8_t *at = link->in_buf + link->in_start;
	size_t head = LINK_QUOTE - link->head_len, keep;

	head = head < n ? head : n;
	memcpy(link->head + link->head_len, at, head);
	link->head_len += head;
	at += head;
	n -= head;
	keep = n < LINK_QUOTE ? n : LINK_QUOTE;
	if (link->tail_len + keep > LINK_QUOTE) {
		size_t drop = link->tail_len + keep - LINK_QUOTE;

		memmove(link->tail, link->tail + drop, link->tail_len - drop);
		link->tail_len -= drop;
	}
	memcpy(link->tail + link->tail_len, at + n - keep, keep);
	link->tail_len += keep;
	link->noise += head + n;
	link->in_start += head + n;
}

static size_t
magic_at(const uint8_t *data, size_t len)
{
	size_t i;
	const uint8_t *s;

	for (i = 0; i < len; i++) {
		s = memchr(data + i, MAGIC[0], len - i);
		if (s == NULL) {
			return len;
		}
		i = (size_t)(s - data);
		/* A cut magic at the end counts: the rest may come. */
		if (memcmp(s, MAGIC, len - i < MAGIC_LEN ? len - i :
		    MAGIC_LEN) == 0) {
			return i;
		}
	}
	return len;
}

/* The hello's own form, our token, and a range that meets ours. */
static bool
hello_fits(struct link *link, const uint8_t *hello, uint8_t key[SEAL_KEY])
{
	char text[LINK_HELLO + 1], versions[LINK_VERSIONS + 1];
	unsigned min, max;

	memcpy(text, hello, LINK_HELLO);
	text[LINK_HELLO] = '\0';
	if (text[LINK_HELLO - 1] != '\n' || text[AT_TOKEN - 1] != ' ' ||
	    text[AT_KEY - 1] != ' ' ||
	    memcmp(text + AT_TOKEN, link->terms.token, LINK_TOKEN) != 0) {
		return false;
	}
	text[LINK_HELLO - 1] = '\0';
	memcpy(versions, text + MAGIC_LEN, LINK_VERSIONS);
	versions[LINK_VERSIONS] = '\0';
	if (seal_unhex(text + AT_KEY, key, SEAL_KEY) == -1 ||
	    parse_versions(versions, &min, &max) == -1) {
		return false;
	}
	if (link_common_version(versions) == 0) {
		memcpy(link->wrong_version, versions, sizeof(versions));
		return false;
	}
	return true;
}

static bool
ready_fits(struct link *link, const uint8_t *plain, const uint8_t *hello)
{
	char versions[LINK_VERSIONS + 1] = { 0 };
	struct wire msg;
	uint32_t i;

	memcpy(versions, hello + MAGIC_LEN, LINK_VERSIONS);
	if (wire_decode(plain + WIRE_NUMBER, WIRE_READY_BYTES, &msg) !=
	    WIRE_OK || msg.type != WIRE_READY ||
	    msg.u.ready.version != link_common_version(versions) ||
	    msg.u.ready.link != link->terms.number) {
		return false;
	}
	for (i = 0; i < msg.u.ready.pad.len; i++) {
		if (msg.u.ready.pad.at[i] != 0) {
			return false;
		}
	}
	link->ready = msg.u.ready;
	link->ready.pad = (struct wire_bytes){ NULL, 0 };
	return true;
}

/* Try the window at the start of the input; true: this is the agent. */
static bool
try_window(struct link *link, const uint8_t key[SEAL_KEY])
{
	const uint8_t *at = link->in_buf + link->in_start;
	const uint8_t *record = at + LINK_HELLO + SEAL_HEADER;
	uint8_t ours[SEAL_HEADER];
	struct seal_binding b;
	size_t n = LINK_READY_RECORD - LINK_RECORD;

	memcpy(link->hello, at, LINK_HELLO);
	link_bind(link, &b);
	if (record[0] != 0 || record[1] != 0 || record[2] != 0 ||
	    record[3] != n ||
	    seal_derive(link->seal, link->secret, &b, key, ours) == -1 ||
	    seal_accept(link->seal, at + LINK_HELLO) == -1 ||
	    seal_open(link->seal, link->plain, record + LINK_RECORD, n,
	    record, LINK_RECORD) == -1 ||
	    !ready_fits(link, link->plain, at) ||
	    seal_settle(link->seal, link->secret, &b) == -1) {
		return false;
	}
	memcpy(link->out_buf, ours, SEAL_HEADER);
	link->out_end = SEAL_HEADER;
	return true;
}

static void
ready_opened(struct link *link)
{
	struct error error;

	link->in_start += LINK_PREAMBLE;
	link->state = LINK_RESUME_WAIT;
	link->resume_due = true;
	link->heard = link->turn;
	/* Nothing was said before link 1: the first frames may go. */
	if (link->terms.number == 1 &&
	    link_attach(link, 0, &error) == -1) {
		link_fail(link, error.step, error.number, error.text);
	}
}

void
link_hello_search(struct link *link)
{
	uint8_t key[SEAL_KEY];
	size_t have;

	while (link->state == LINK_HELLO_WAIT) {
		have = link->in_end - link->in_start;
		skip(link, magic_at(link->in_buf + link->in_start, have));
		have = link->in_end - link->in_start;
		if (link->noise > LINK_NOISE_MAX) {
			link_fail(link, WIRE_STEP_LINK, 0,
			    "too much other output and no answer in it");
			return;
		}
		if (have < LINK_HELLO) {
			return;
		}
		if (!hello_fits(link, link->in_buf + link->in_start, key)) {
			skip(link, 1);
			continue;
		}
		if (have < LINK_PREAMBLE) {
			return;
		}
		if (++link->candidates > LINK_CANDIDATES) {
			link_fail(link, WIRE_STEP_LINK, 0,
			    "too many answers that are not from an agent");
			return;
		}
		if (try_window(link, key)) {
			ready_opened(link);
			return;
		}
		skip(link, 1);
	}
}

size_t
link_noise(const struct link *link, const uint8_t **head, size_t *head_len,
    const uint8_t **tail, size_t *tail_len)
{
	*head = link->head;
	*head_len = link->head_len;
	*tail = link->tail;
	*tail_len = link->tail_len;
	return link->noise;
}
