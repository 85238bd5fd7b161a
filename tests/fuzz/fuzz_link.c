/* SPDX-License-Identifier: MIT */
/*
 * fuzz_link.c - the record layer: a host link, an agent link, and between
 * them the input.
 *
 * Both ends are the real ones, so what they say is properly sealed; the input
 * chooses what becomes of it: passed on in pieces, cut, flipped, dropped,
 * doubled, exchanged for raw bytes.  It can also make either end seal any
 * plaintext, which is what a hostile peer that holds the keys can do, let
 * time pass, and move the session to a new link.  Randomness and the clock
 * are fixed, so an input always does the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "fuzz_app.h"
#include "link_private.h"

#define STEPS_MAX 300u
#define PIPE_MAX 400000u		/* bytes under way in one direction */
#define SESSION "00112233445566778899aabbccddeeff"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* ---- time and randomness are the input's ------------------------------- */

static uint64_t fuzz_now;
static uint64_t fuzz_seed;

uint64_t
clock_now(void)
{
	return ++fuzz_now;
}

int
clock_poll_ms(uint64_t now, uint64_t deadline)
{
	(void)now;
	(void)deadline;
	return 0;
}

static void
random_fill(void *const out, const size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		fuzz_seed = fuzz_seed * 6364136223846793005u +
		    1442695040888963407u;
		((uint8_t *)out)[i] = (uint8_t)(fuzz_seed >> 56);
	}
}

static uint32_t
random_word(void)
{
	uint32_t word;

	random_fill(&word, sizeof(word));
	return word;
}

static const char *
random_name(void)
{
	return "fuzz";
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct randombytes_implementation source = {
		.implementation_name = random_name, .random = random_word,
		.buf = random_fill
	};

	(void)argc;
	(void)argv;
	signal(SIGPIPE, SIG_IGN);
	randombytes_set_implementation(&source);
	return seal_init();
}

/* ---- two ends and what lies between ------------------------------------- */

struct end {
	struct app app;
	struct link *link, *old;	/* NULL: gone */
	struct seal_secret *secret;
	int fd, old_fd;			/* our ends of their sockets */
	uint8_t *under_way;		/* what it said and nobody got yet */
	size_t len;
};

struct world {
	struct end host, agent;
	uint32_t number;
	uint32_t newest;		/* of the agent's, committed */
	bool tight;			/* small socket buffers */
};

static int
socket_pair(const struct world *w, int *ours)
{
	int pair[2], room = 4608;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	if (w->tight) {
		setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room,
		    sizeof(room));
	}
	*ours = pair[1];
	return pair[0];
}

static void
drop_old(struct end *e)
{
	if (e->old != NULL) {
		if (e->old->attachment != 0 && e->old->attachment ==
		    session_attachment(e->app.session)) {
			session_detach(e->app.session);
		}
		link_free(e->old);
		close(e->old_fd);
	}
	e->old = NULL;
	e->old_fd = -1;
}

static void
drop_link(struct end *e)
{
	if (e->link != NULL) {
		link_free(e->link);
		close(e->fd);
	}
	e->link = NULL;
	e->fd = -1;
	e->len = 0;
	session_detach(e->app.session);
}

/* Make room for a new link: the one before may live beside it for a while. */
static void
set_aside(struct end *e, bool keep)
{
	drop_old(e);
	if (!keep) {
		drop_link(e);
		return;
	}
	e->old = e->link;
	e->old_fd = e->fd;
	e->link = NULL;
	e->len = 0;
}

/* argv's words, perhaps not as they should be. */
static void
check_words(const struct link_terms *terms, struct input *in)
{
	char number[9], key[2 * SEAL_KEY + 1], changed[80];
	char *words[5] = { (char *)(uintptr_t)terms->versions,
	    (char *)(uintptr_t)terms->token,
	    (char *)(uintptr_t)terms->session, number, key };
	struct link_terms parsed;
	const uint8_t *bytes;
	const char *what;
	uint8_t which = input_u8(in);
	size_t len;

	snprintf(number, sizeof(number), "%08x", (unsigned)terms->number);
	seal_hex(terms->host_key, SEAL_KEY, key);
	CHECK(link_parse_terms(&parsed, words, &what) == 0);
	CHECK(memcmp(&parsed, terms, sizeof(parsed)) == 0);
	bytes = input_bytes(in, which >> 3 & 15, &len);
	snprintf(changed, sizeof(changed), "%s", words[which % 5]);
	if (len > 0) {
		memcpy(changed + (which & 0x80 ? 0 : strlen(changed) / 2),
		    bytes, len);
	}
	words[which % 5] = changed;
	if (link_parse_terms(&parsed, words, &what) == -1) {
		CHECK(what[0] != '\0');
	} else {
		CHECK(parsed.number != 0);
		(void)link_common_version(parsed.versions);
	}
}

/*
 * The next link, as the controller and the stub start it; bits of how: keep
 * the old one, the host or the agent means to hand its descriptors over.
 */
static void
new_link(struct world *w, unsigned how)
{
	struct link_config host = { .session = w->host.app.session,
	    .secret = w->host.secret, .hands_over = (how & 2) != 0 };
	struct link_config agent = { .session = w->agent.app.session,
	    .secret = w->agent.secret, .hands_over = (how & 4) != 0,
	    .committed = &w->newest };

	set_aside(&w->host, how & 1);
	set_aside(&w->agent, how & 1);
	link_our_versions(host.terms.versions);
	memcpy(host.terms.session, SESSION, LINK_SESSION);
	host.terms.number = ++w->number;
	CHECK(link_prepare(&host) == 0);
	agent.terms = host.terms;
	host.in = host.out = socket_pair(w, &w->host.fd);
	agent.in = socket_pair(w, &w->agent.fd);
	agent.out = dup(agent.in);
	CHECK(agent.out != -1);
	w->host.link = link_new_host(&host);
	w->agent.link = link_new_agent(&agent);
	CHECK(w->host.link != NULL && w->agent.link != NULL);
}

static void
check_link(const struct end *e)
{
	const struct link *l = e->link;
	const uint8_t *head, *tail;
	size_t head_len, tail_len;

	if (l == NULL) {
		return;
	}
	CHECK(l->in_start <= l->in_end && l->in_end <= LINK_IN);
	CHECK(l->out_start <= l->out_end && l->out_end <= LINK_OUT);
	CHECK(l->candidates <= LINK_CANDIDATES + 1);
	CHECK(link_noise(l, &head, &head_len, &tail, &tail_len) <=
	    LINK_NOISE_MAX + LINK_IN);
	CHECK(head_len <= LINK_QUOTE && tail_len <= LINK_QUOTE);
	if (link_state(l) >= LINK_CLOSED) {
		app_check_error(link_error(l));
		CHECK(e->old != NULL || !e->app.session->attached);
	}
	if (link_state(l) == LINK_UP && l->role == SEAL_HOST) {
		CHECK(link_ready(l)->link == l->terms.number);
	}
	CHECK(link_wrong_version(l) == NULL ||
	    strlen(link_wrong_version(l)) == LINK_VERSIONS);
	(void)link_drained(l);
	(void)link_rtt(l);
	(void)link_pong_at(l);
	(void)link_peer_busy(l);
	(void)link_session_closed(l);
	/* What the session is owed is decided once, by what was sealed. */
	if (link_state(l) >= LINK_CLOSED && link_error(l)->step ==
	    WIRE_STEP_PROTOCOL) {
		CHECK(link_stay(l) == 0);
	}
	CHECK(!link_committed(l) || (l->role == SEAL_CORE &&
	    l->terms.number <= *l->committed));
	/* A number commits once, and a later link has a higher one. */
	CHECK(!link_committed(l) || e->old == NULL ||
	    !link_committed(e->old) ||
	    l->terms.number > e->old->terms.number);
}

static void
run_link(struct link *link)
{
	struct pollset set = { 0 };

	pollset_clear(&set);
	link_interest(link, &set);
	CHECK(pollset_wait(&set) == 0);
	link_run(link, &set);
	pollset_free(&set);
}

/* One turn of this end's loop, then what it said is under way. */
static void
turn(struct end *e)
{
	static uint8_t nowhere[65536];
	ssize_t n;

	if (e->old != NULL) {
		run_link(e->old);
		n = recv(e->old_fd, nowhere, sizeof(nowhere), MSG_DONTWAIT);
	}
	if (e->link == NULL) {
		return;
	}
	run_link(e->link);
	if (link_state(e->link) == LINK_TERMINAL &&
	    e->link->role == SEAL_CORE && link_drained(e->link)) {
		CHECK(e->link->hands_over);
		(void)link_answer_terminal(e->link, e->len & 1);
	}
	while (e->len < PIPE_MAX && (n = recv(e->fd, e->under_way + e->len,
	    PIPE_MAX - e->len, MSG_DONTWAIT)) > 0) {
		e->len += (size_t)n;
	}
	check_link(e);
}

/* Bytes arrive at this end, as many as its socket takes. */
static void
arrive(struct end *e, const uint8_t *data, size_t len)
{
	unsigned tries;
	ssize_t n;

	for (tries = 0; e->link != NULL && len > 0 && tries < 256; tries++) {
		n = send(e->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		} else if (errno != EAGAIN) {
			return;
		}
		turn(e);
	}
}

static void
forget(struct end *e, size_t n)
{
	memmove(e->under_way, e->under_way + n, e->len - n);
	e->len -= n;
}

/* n bytes that from said reach to. */
static void
pass(struct end *from, struct end *to, size_t n)
{
	static uint8_t copy[PIPE_MAX];

	n = n < from->len ? n : from->len;
	memcpy(copy, from->under_way, n);
	forget(from, n);
	arrive(to, copy, n);
}

static void
settle(struct world *w)
{
	unsigned i;

	for (i = 0; i < 20; i++) {
		turn(&w->agent);
		turn(&w->host);
		if (w->agent.len == 0 && w->host.len == 0) {
			return;
		}
		pass(&w->agent, &w->host, PIPE_MAX);
		pass(&w->host, &w->agent, PIPE_MAX);
	}
}

/* A peer that holds the keys seals what it likes. */
static void
seal_any(struct end *e, struct end *to, struct input *in)
{
	static uint8_t plain[WIRE_RECORD_PLAIN];
	size_t len, room, pad = input_u8(in);
	uint64_t number = to->app.session->expected;
	const uint8_t *frame = input_bytes(in, input_u8(in), &len);
	int i;

	room = pad & 0x80 ? (pad & 0x7f) * 256 : 0;
	if (room > sizeof(plain) - WIRE_NUMBER - len) {
		room = sizeof(plain) - WIRE_NUMBER - len;
	}
	if (e->link == NULL || e->link->out_end + LINK_RECORD +
	    SEAL_OVERHEAD + WIRE_NUMBER + len + room > LINK_OUT) {
		return;
	}
	if (len > 0 && wire_class(frame[0]) == WIRE_CLASS_LINK) {
		number = 0;
	}
	number += (pad & 0x7e) == 2;
	for (i = 0; i < 8; i++) {
		plain[i] = (uint8_t)(number >> 8 * (7 - i));
	}
	memset(plain + WIRE_NUMBER + len, 0, room);
	if (len > 0) {
		memcpy(plain + WIRE_NUMBER, frame, len);
	}
	len += room;
	if (WIRE_NUMBER + len <= sizeof(plain)) {
		link_seal(e->link, plain, WIRE_NUMBER + len);
	}
	turn(e);
}

/* An agent that holds the keys, with a READY of the input's. */
static void
liar(struct world *w, struct input *in)
{
	uint8_t preamble[LINK_PREAMBLE], *at = preamble + LINK_HELLO;
	uint8_t plain[WIRE_NUMBER + WIRE_READY_BYTES] = { 0 };
	struct seal_secret *secret = seal_secret_new();
	struct seal *seal = seal_new(SEAL_CORE);
	struct seal_binding b;
	const uint8_t *bytes;
	size_t len;

	bytes = input_bytes(in, input_u8(in) & 31, &len);
	plain[WIRE_NUMBER] = WIRE_READY;
	plain[WIRE_NUMBER + 2] = 1;
	plain[WIRE_NUMBER + 6] = (uint8_t)w->number;
	if (len > 0) {
		memcpy(plain + WIRE_NUMBER, bytes, len);
	}
	CHECK(secret != NULL && seal != NULL);
	if (w->host.link != NULL && w->host.link->terms.number == 1) {
		link_format_hello(&w->host.link->terms, seal_public(seal),
		    preamble);
		link_bind(w->host.link, &b);
		b.hello = preamble;
		CHECK(seal_derive(seal, secret, &b,
		    w->host.link->terms.host_key, at) == 0);
		at += SEAL_HEADER;
		memset(at, 0, LINK_RECORD);
		at[3] = LINK_READY_RECORD - LINK_RECORD;
		CHECK(seal_push(seal, at + LINK_RECORD, plain, sizeof(plain),
		    at, LINK_RECORD) == 0);
		arrive(&w->host, preamble, sizeof(preamble));
	}
	seal_free(seal);
	seal_secret_free(secret);
}

/* A hello of another kind: for the host's search. */
static void
false_hello(struct world *w, struct input *in)
{
	uint8_t hello[LINK_PREAMBLE] = { 0 }, at;
	unsigned how = input_u8(in);

	if (w->host.link == NULL) {
		return;
	}
	link_format_hello(&w->host.link->terms, how & 1 ? hello :
	    w->host.link->terms.host_key, hello);
	at = input_u8(in) % sizeof(hello);
	if (how & 2) {
		hello[at % LINK_HELLO] ^= (uint8_t)(1u << (how >> 5));
	}
	if (how & 4) {
		memcpy(hello + 14, "0007-0009", LINK_VERSIONS);
	}
	if (how & 8) {
		hello[LINK_HELLO + SEAL_HEADER + 3] = LINK_READY_RECORD -
		    LINK_RECORD;
	}
	arrive(&w->host, hello, how & 16 ? at : sizeof(hello));
}

static void
change(struct end *from, struct end *to, struct input *in, uint8_t op)
{
	static uint8_t again[PIPE_MAX];
	size_t at = input_u16(in), n, len;
	const uint8_t *bytes;

	switch (op) {
	case 0:
		if (at < from->len) {
			from->under_way[at] ^= (uint8_t)(1u <<
			    (input_u8(in) & 7));
		}
		return;
	case 1:
		n = at < from->len ? at : from->len;
		forget(from, n);
		return;
	case 2:
		/* The same bytes twice. */
		n = at < from->len ? at : from->len;
		memcpy(again, from->under_way, n);
		arrive(to, again, n);
		return;
	case 3:
		bytes = input_bytes(in, at & 0x3ff, &len);
		arrive(to, bytes, len);
		return;
	default:
		memset(again, (int)(at & 0xff), at);
		arrive(to, again, at);
		return;
	}
}

static void
other(struct end *e, struct input *in, uint8_t op)
{
	const uint8_t *bytes;
	size_t len;

	if (op == 0) {
		drop_link(e);
	} else if (op == 1 && e->old != NULL) {
		bytes = input_bytes(in, input_u8(in), &len);
		(void)!send(e->old_fd, bytes, len, MSG_DONTWAIT |
		    MSG_NOSIGNAL);
	} else if (op == 2) {
		drop_old(e);
	} else if (e->link != NULL && op == 3) {
		check_words(&e->link->terms, in);
	} else if (e->link != NULL && op == 4) {
		link_ping(e->link);
	} else if (e->link != NULL) {
		link_set_busy(e->link, op == 5);
	}
}

static void
step(struct world *w, struct input *in)
{
	uint8_t op = input_u8(in);
	bool up = (op & 1) != 0;
	struct end *from = up ? &w->host : &w->agent;
	struct end *to = up ? &w->agent : &w->host;

	switch (op >> 1 & 15) {
	case 0:
	case 1:
		app_step(&from->app, in);
		return;
	case 2:
		pass(from, to, input_u8(in));
		return;
	case 3:
		pass(from, to, input_u16(in));
		return;
	case 4:
	case 5:
		settle(w);
		return;
	case 6:
		change(from, to, in, op >> 5);
		return;
	case 7:
	case 8:
		seal_any(from, to, in);
		return;
	case 9:
		fuzz_now += (uint64_t)input_u16(in) * 2000;
		return;
	case 10:
		if (from->link != NULL) {
			link_close(from->link, (op & 32) != 0, op);
		}
		return;
	case 11:
		if (from->link != NULL) {
			shutdown(from->fd, op & 32 ? SHUT_RD : SHUT_WR);
		}
		return;
	case 12:
		new_link(w, op >> 5);
		return;
	case 13:
		if (op & 32) {
			liar(w, in);
		} else {
			false_hello(w, in);
		}
		return;
	case 14:
		if (op >> 5 == 7 && w->number > 1) {
			w->number--;	/* the next link is no newer */
		}
		other(from, in, op >> 5);
		return;
	default:
		turn(from);
		return;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t under_way[2][PIPE_MAX];
	struct input in = { data, size };
	struct world w = { .host = { .old_fd = -1 }, .agent = { .old_fd = -1 } };
	uint8_t how = input_u8(&in);
	unsigned steps;

	fuzz_now = 1000000;
	fuzz_seed = 1;
	w.tight = (how & 1) != 0;
	w.host.under_way = under_way[0];
	w.agent.under_way = under_way[1];
	app_start(&w.host.app, false, true);
	app_start(&w.agent.app, true, true);
	w.host.secret = seal_secret_new();
	w.agent.secret = seal_secret_new();
	CHECK(w.host.secret != NULL && w.agent.secret != NULL);
	new_link(&w, 0);
	if (how & 2) {
		settle(&w);
		CHECK(link_state(w.host.link) == LINK_UP);
		CHECK(link_state(w.agent.link) == LINK_UP);
	}
	for (steps = 0; !input_done(&in) && steps < STEPS_MAX; steps++) {
		step(&w, &in);
		turn(&w.host);
		turn(&w.agent);
		app_check(&w.host.app);
		app_check(&w.agent.app);
	}
	drop_link(&w.host);
	drop_link(&w.agent);
	drop_old(&w.host);
	drop_old(&w.agent);
	seal_secret_free(w.host.secret);
	seal_secret_free(w.agent.secret);
	app_stop(&w.host.app);
	app_stop(&w.agent.app);
	return 0;
}
