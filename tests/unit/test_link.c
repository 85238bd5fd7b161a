/* SPDX-License-Identifier: MIT */
/*
 * test_link.c - one link: noise before the hello, forged and changed records,
 * hostile frames, silence, ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cable.h"

/* ---- words and versions -------------------------------------------------- */

static void
test_versions(void **state)
{
	static const struct {
		const char *theirs;
		unsigned common;
	} cases[] = {
		{ "0001-0001", 1 }, { "0001-ffff", 1 }, { "0000-0001", 1 },
		{ "0000-ffff", 1 }, { "0002-0003", 0 }, { "0000-0000", 0 },
		{ "0001-0000", 0 }, { "", 0 }, { "1-1", 0 },
		{ "0001_0001", 0 }, { "0001-00011", 0 }, { "000A-00FF", 0 },
		{ "0001-000", 0 }, { "00 1-0001", 0 }, { "-0001-001", 0 }
	};
	char ours[LINK_VERSIONS + 1];
	size_t i;

	(void)state;
	link_our_versions(ours);
	assert_string_equal(ours, "0001-0001");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(link_common_version(cases[i].theirs),
		    cases[i].common);
	}
}

static const char *const good_words[5] = { "0001-00ff",
    "0123456789abcdef0123456789abcdef", "ffffffffffffffff0000000000000000",
    "0000002a", "000102030405060708090a0b0c0d0e0f"
    "101112131415161718191a1b1c1d1e1f" };

static int
parse(unsigned changed, const char *word, struct link_terms *terms,
    const char **what)
{
	char *words[5];
	unsigned i;
	int rc;

	for (i = 0; i < 5; i++) {
		words[i] = strdup(i == changed ? word : good_words[i]);
	}
	rc = link_parse_terms(terms, words, what);
	for (i = 0; i < 5; i++) {
		free(words[i]);
	}
	return rc;
}

static void
test_terms(void **state)
{
	static const char *const names[5] = { "versions", "token", "session",
	    "link number", "host key" };
	struct link_terms terms;
	const char *what;
	char word[100];
	unsigned i;

	(void)state;
	assert_int_equal(parse(9, "", &terms, &what), 0);
	assert_string_equal(terms.versions, good_words[0]);
	assert_string_equal(terms.token, good_words[1]);
	assert_string_equal(terms.session, good_words[2]);
	assert_int_equal(terms.number, 42);
	assert_int_equal(terms.host_key[31], 31);
	for (i = 0; i < 5; i++) {
		assert_int_equal(parse(i, "", &terms, &what), -1);
		assert_string_equal(what, names[i]);
		/* one digit more, one less, one that is none */
		snprintf(word, sizeof(word), "%s0", good_words[i]);
		assert_int_equal(parse(i, word, &terms, &what), -1);
		assert_string_equal(what, names[i]);
		word[strlen(good_words[i]) - 1] = '\0';
		assert_int_equal(parse(i, word, &terms, &what), -1);
		strcpy(word, good_words[i]);
		word[0] = 'A';
		assert_int_equal(parse(i, word, &terms, &what), -1);
		assert_string_equal(what, names[i]);
	}
	assert_int_equal(parse(3, "00000000", &terms, &what), -1);
	assert_int_equal(parse(3, "ffffffff", &terms, &what), 0);
	assert_int_equal(terms.number, UINT32_MAX);
	assert_int_equal(parse(0, "0002-0001", &terms, &what), -1);
}

static void
test_hello_form(void **state)
{
	struct link_terms terms = { .token = "0123456789abcdef"
	    "0123456789abcdef" };
	uint8_t key[SEAL_KEY], hello[LINK_HELLO];
	static const char want[] = "SANDMUX-HELLO 0001-0001 "
	    "0123456789abcdef0123456789abcdef "
	    "abababababababababababababababab"
	    "abababababababababababababababab\n";

	(void)state;
	memset(key, 0xab, sizeof(key));
	link_format_hello(&terms, key, hello);
	assert_int_equal(sizeof(want) - 1, LINK_HELLO);
	assert_memory_equal(hello, want, LINK_HELLO);
	assert_int_equal(LINK_PREAMBLE, 122 + 24 + 4 + 17 + 8 + 64);
}

/* ---- a link that works ---------------------------------------------------- */

static struct rig_plan
some_plan(void)
{
	struct rig_plan plan = rig_plan_new(20000);

	plan.in = 60000;
	plan.out[0] = 80000;
	plan.out[1] = 100;
	return plan;
}

static void
work(struct world *w)
{
	struct rig_plan plan = some_plan();

	assert_non_null(rig_open(w->rig, &plan));
	assert_non_null(rig_open(w->rig, &plan));
	world_finish(w);
	rig_verify_all(w->rig);
}

static void
test_up(void **state)
{
	struct world *w = world_new(1);

	(void)state;
	world_connect(w);
	assert_int_equal(link_state(w->host), LINK_HELLO_WAIT);
	world_up(w);
	assert_int_equal(link_ready(w->host)->version, 1);
	assert_int_equal(link_ready(w->host)->link, 1);
	assert_int_equal(link_ready(w->host)->uid, getuid());
	assert_int_equal(link_ready(w->host)->unlinked, 1);
	assert_null(link_wrong_version(w->host));
	work(w);
	world_free(w);
}

/* What the agent says passes byte by byte, and so does the host's. */
static void
test_drip(void **state)
{
	struct rig_plan plan = rig_plan_new(100);
	struct world *w = world_new(2);
	struct cable *c = world_connect(w);

	(void)state;
	plan.in = plan.out[0] = 500;
	c->dir[TO_HOST].drip = c->dir[TO_AGENT].drip = 1;
	assert_non_null(rig_open(w->rig, &plan));
	world_finish(w);
	rig_verify_all(w->rig);
	world_free(w);
}

/* ---- noise ----------------------------------------------------------------- */

struct noise {
	uint8_t *at;
	size_t len, size;
};

static void
noise_add(struct noise *n, const void *data, size_t len)
{
	cable_append(&n->at, &n->len, &n->size, data, len);
}

static void
noise_random(struct noise *n, size_t len, unsigned seed)
{
	uint8_t byte;

	while (len-- > 0) {
		byte = (uint8_t)(rand_r(&seed) >> 4);
		noise_add(n, &byte, 1);
	}
}

/* A hello with our token that is no agent's: argv had all it needs. */
static void
noise_hello(struct noise *n, const struct world *w, const char *versions)
{
	uint8_t hello[LINK_HELLO], key[SEAL_KEY];

	seal_random(key, sizeof(key));
	link_format_hello(&w->terms, key, hello);
	memcpy(hello + 14, versions, LINK_VERSIONS);
	noise_add(n, hello, LINK_HELLO);
}

/* The noise passes before all that the agent says. */
static void
play(struct cable *c, struct noise *n)
{
	cable_out(&c->dir[TO_HOST], n->at, n->len);
	free(n->at);
	n->at = NULL;
}

/* The link comes up behind the noise, which can be quoted. */
static void
up_behind(struct world *w, struct noise *n)
{
	const uint8_t *head, *tail;
	size_t head_len, tail_len, len = n->len;
	uint8_t *copy = malloc(len + 1);

	memcpy(copy, n->at, len);
	play(w->host_cable, n);
	world_up(w);
	w->host_cable->dir[TO_HOST].drip = 0;
	assert_int_equal(link_noise(w->host, &head, &head_len, &tail,
	    &tail_len), len);
	assert_int_equal(head_len, len < LINK_QUOTE ? len : LINK_QUOTE);
	assert_memory_equal(head, copy, head_len);
	assert_int_equal(tail_len, len - head_len < LINK_QUOTE ?
	    len - head_len : LINK_QUOTE);
	assert_memory_equal(tail, copy + len - tail_len, tail_len);
	free(copy);
	work(w);
	world_free(w);
}

/* It does not; returns when it is given up, which error() describes. */
static void
lost_behind(struct world *w, struct noise *n, enum link_state want,
    int number, const char *words)
{
	unsigned steps = 0;
	size_t len = n->len;
	const uint8_t *head, *tail;
	size_t a, b;

	play(w->host_cable, n);
	while (!world_lost(w)) {
		world_step(w);
		assert_true(++steps < 5000);
	}
	assert_int_equal(link_state(w->host), want);
	assert_int_equal(link_error(w->host)->step, WIRE_STEP_LINK);
	assert_int_equal(link_error(w->host)->number, number);
	if (strstr(link_error(w->host)->text, words) == NULL) {
		fail_msg("\"%s\" where \"%s\" was expected",
		    link_error(w->host)->text, words);
	}
	assert_true(link_noise(w->host, &head, &a, &tail, &b) <=
	    len + LINK_PREAMBLE);
	/* Nobody was believed, and nothing was said to whoever that was. */
	assert_int_equal(link_ready(w->host)->version, 0);
	assert_int_equal(w->host_cable->dir[TO_AGENT].passed, 0);
}

static struct world *
dialled(void)
{
	struct world *w = world_new(3);

	world_connect(w);
	return w;
}

/* As a transport whose far end never was an agent. */
static struct world *
no_agent(void)
{
	struct world *w = world_new(4);
	int fd;

	world_dial(w, &fd);
	w->links = 1;			/* its cable, without an agent */
	close(fd);
	return w;
}

static void
test_noise_sizes(void **state)
{
	static const size_t sizes[] = { 0, 1, 13, 14, 121, 122, 511, 512, 513,
	    1023, 1024, 1025, 65536, 204800, LINK_NOISE_MAX };
	struct noise n;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(&n, 0, sizeof(n));
		noise_add(&n, "", 0);
		noise_random(&n, sizes[i], (unsigned)i);
		up_behind(dialled(), &n);
	}
}

static void
test_noise_dripping(void **state)
{
	struct noise n = { 0 };
	struct world *w = dialled();

	(void)state;
	noise_add(&n, "motd SANDMUX-HELLO \r\n", 21);
	w->host_cable->dir[TO_HOST].drip = 1;
	up_behind(w, &n);
}

static void
test_too_much_noise(void **state)
{
	struct world *w = dialled();
	struct noise n = { 0 };

	(void)state;
	noise_random(&n, LINK_NOISE_MAX + 1, 1);
	lost_behind(w, &n, LINK_FAILED, 0, "too much other output");
	world_free(w);
	/* Starts of hellos without an end are noise as well. */
	w = dialled();
	n.len = n.size = 0;
	while (n.len <= LINK_NOISE_MAX + LINK_HELLO) {
		noise_add(&n, "SANDMUX-HELLO ", 14);
	}
	lost_behind(w, &n, LINK_FAILED, 0, "too much other output");
	world_free(w);
}

/* Half a hello of any length, the real one right behind it. */
static void
test_half_hello(void **state)
{
	size_t len;

	(void)state;
	for (len = 1; len < LINK_HELLO; len++) {
		struct noise n = { 0 };
		struct world *w = dialled();

		noise_hello(&n, w, "0001-0001");
		n.len = len;
		up_behind(w, &n);
	}
}

static void
copies(unsigned count, bool token, const char *behind, bool up)
{
	struct world *w = dialled();
	struct noise n = { 0 };
	unsigned i;

	for (i = 0; i < count; i++) {
		size_t at = n.len;

		noise_hello(&n, w, "0001-0001");
		if (!token) {
			n.at[at + 24] = n.at[at + 24] == '0' ? '1' : '0';
		}
		noise_add(&n, behind, strlen(behind));
	}
	if (up) {
		up_behind(w, &n);
		return;
	}
	lost_behind(w, &n, LINK_FAILED, 0,
	    "too many answers that are not from an agent");
	world_free(w);
}

static void
test_copied_hellos(void **state)
{
	(void)state;
	copies(1, true, "", true);
	copies(1, true, "\r\n$ ", true);
	copies(63, true, "", true);
	copies(64, true, "", false);
	copies(100, true, "", false);
	copies(100, true, "noise", false);
	copies(100, false, "", true);
	copies(1000, false, "x", true);
}

/* A key that X25519 refuses, and words that are no hello. */
static void
test_odd_hellos(void **state)
{
	static const struct {
		size_t at;
		char put;
	} cases[] = { { 13, '-' }, { 18, '_' }, { 14, 'x' }, { 23, '-' },
	    { 24, 'G' }, { 56, '0' }, { 57, 'A' }, { 121, ' ' } };
	struct noise n = { 0 };
	struct world *w = dialled();
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t at = n.len;

		noise_hello(&n, w, "0001-0001");
		n.at[at + cases[i].at] = (uint8_t)cases[i].put;
	}
	/* A window that is complete, with a key of small order. */
	i = n.len;
	noise_hello(&n, w, "0001-0001");
	memset(n.at + i + 57, '0', 64);
	noise_add(&n, "\0\0\0\x59", 4);
	noise_random(&n, 200, 9);
	up_behind(w, &n);
}

static void
test_wrong_version(void **state)
{
	struct noise n = { 0 };
	struct world *w = no_agent();

	(void)state;
	noise_hello(&n, w, "0007-0009");
	lost_behind(w, &n, LINK_CLOSED, 0, "transport ended");
	assert_string_equal(link_wrong_version(w->host), "0007-0009");
	world_free(w);
	/* Not with another's token. */
	w = no_agent();
	memset(&n, 0, sizeof(n));
	noise_hello(&n, w, "0007-0009");
	n.at[30] = n.at[30] == '0' ? '1' : '0';
	lost_behind(w, &n, LINK_CLOSED, 0, "transport ended");
	assert_null(link_wrong_version(w->host));
	world_free(w);
	/* A liar before the real one costs nothing. */
	w = dialled();
	memset(&n, 0, sizeof(n));
	noise_hello(&n, w, "0007-0009");
	up_behind(w, &n);
}

/* A login file that ends in `exec true`, or says something and hangs. */
static void
test_no_agent(void **state)
{
	struct noise n = { 0 };
	struct world *w = no_agent();
	const uint8_t *head, *tail;
	size_t a, b;
	uint64_t start;
	int fd;

	(void)state;
	noise_add(&n, "bash: no job control\r\n", 22);
	lost_behind(w, &n, LINK_CLOSED, 0, "the transport ended");
	assert_int_equal(link_noise(w->host, &head, &a, &tail, &b), 22);
	assert_int_equal(a, 22);
	assert_memory_equal(head, "bash: no job control\r\n", 22);
	world_free(w);

	w = world_new(5);
	world_dial(w, &fd);
	w->links = 1;
	memset(&n, 0, sizeof(n));
	noise_add(&n, "password: ", 10);
	start = cable_now;
	lost_behind(w, &n, LINK_FAILED, ETIMEDOUT, "no answer in time");
	assert_in_range(cable_now - start, LINK_HELLO_MS * 1000u,
	    LINK_HELLO_MS * 1000u + 10000);
	world_free(w);
	close(fd);
}

/* ---- READY ------------------------------------------------------------------ */

/* A hello and a READY of our own making, sealed with the right keys. */
static void
forge(struct noise *n, const struct world *w, const struct wire_ready *ready,
    size_t spoil)
{
	struct seal *seal = seal_new(SEAL_CORE);
	struct seal_secret *secret = seal_secret_new();
	uint8_t hello[LINK_HELLO], header[SEAL_HEADER];
	uint8_t plain[WIRE_NUMBER + WIRE_READY_BYTES] = { 0 };
	uint8_t record[LINK_READY_RECORD] = { 0, 0, 0,
	    LINK_READY_RECORD - LINK_RECORD };
	struct seal_binding b = { .versions = w->terms.versions,
	    .token = w->terms.token, .session = w->terms.session,
	    .link = w->terms.number, .host_key = w->terms.host_key,
	    .hello = hello, .hello_len = LINK_HELLO };
	struct wire msg = { .type = WIRE_READY, .u.ready = *ready };
	size_t len;

	link_format_hello(&w->terms, seal_public(seal), hello);
	assert_int_equal(seal_derive(seal, secret, &b, w->terms.host_key,
	    header), 0);
	assert_int_equal(wire_encode(&msg, plain + WIRE_NUMBER,
	    WIRE_READY_BYTES, &len), WIRE_OK);
	if (spoil != 0) {
		plain[spoil] ^= 1;
	}
	assert_int_equal(seal_push(seal, record + LINK_RECORD, plain,
	    sizeof(plain), record, LINK_RECORD), 0);
	noise_add(n, hello, sizeof(hello));
	noise_add(n, header, sizeof(header));
	noise_add(n, record, sizeof(record));
	seal_free(seal);
	seal_secret_free(secret);
}

static void
test_ready_fields(void **state)
{
	struct wire_ready good = { .version = 1, .link = 1, .uid = 5 };
	struct wire_ready cases[4];
	struct noise n = { 0 };
	struct world *w = no_agent();
	unsigned i;

	(void)state;
	forge(&n, w, &good, 0);
	play(w->host_cable, &n);
	for (i = 0; i < 3; i++) {
		world_step(w);
	}
	assert_int_equal(link_ready(w->host)->uid, 5);
	world_free(w);
	for (i = 0; i < 4; i++) {
		cases[i] = good;
	}
	cases[0].version = 2;
	cases[1].version = 0;
	cases[2].link = 2;
	cases[3].link = 0;
	for (i = 0; i < 6; i++) {
		w = no_agent();
		memset(&n, 0, sizeof(n));
		/* a byte of the padding, and the type */
		forge(&n, w, i < 4 ? &cases[i] : &good, i < 4 ? 0 :
		    i == 4 ? WIRE_NUMBER + WIRE_READY_BYTES - 1 :
		    WIRE_NUMBER);
		lost_behind(w, &n, LINK_CLOSED, 0, "transport ended");
		world_free(w);
	}
}

/* ---- replay ------------------------------------------------------------------ */

/* All that an agent ever said on a link, behind a fresh token. */
static void
test_replay_to_host(void **state)
{
	struct world *w = world_new(6);
	struct rig_plan plan = some_plan();
	struct noise n = { 0 };

	(void)state;
	world_connect(w);
	w->cables[0]->dir[TO_HOST].record = true;
	rig_open(w->rig, &plan);
	world_finish(w);
	noise_add(&n, w->cables[0]->dir[TO_HOST].log,
	    w->cables[0]->dir[TO_HOST].log_len);
	assert_true(n.len > plan.out[0]);
	world_free(w);

	w = no_agent();
	/* With the old token it does not even count as an answer. */
	lost_behind(w, &n, LINK_CLOSED, 0, "transport ended");
	assert_int_equal(w->host->candidates, 0);
	world_free(w);
}

/* The same with the new token written over the old: keys differ. */
static void
test_replay_new_token(void **state)
{
	struct world *w = dialled();
	struct noise n = { 0 };
	unsigned i;

	(void)state;
	w->host_cable->blocked[TO_HOST] = true;
	for (i = 0; i < 3; i++) {
		world_step(w);
	}
	noise_add(&n, w->host_cable->dir[TO_HOST].out,
	    w->host_cable->dir[TO_HOST].out_len);
	world_free(w);
	w = no_agent();
	memcpy(n.at + 24, w->terms.token, LINK_TOKEN);
	lost_behind(w, &n, LINK_CLOSED, 0, "transport ended");
	assert_int_equal(w->host->candidates, 1);
	world_free(w);
}

/* A recording of a host, played to a fresh agent. */
static void
test_replay_to_agent(void **state)
{
	struct world *w = dialled(), *v;
	struct rig_plan plan = some_plan();
	struct noise n = { 0 };
	unsigned i;

	(void)state;
	rig_open(w->rig, &plan);
	w->host_cable->blocked[TO_AGENT] = true;
	for (i = 0; i < 5; i++) {
		world_step(w);
	}
	noise_add(&n, w->host_cable->dir[TO_AGENT].out,
	    w->host_cable->dir[TO_AGENT].out_len);
	assert_true(n.len > 1000);
	world_free(w);

	v = world_new(7);
	world_connect(v);
	v->host_cable->blocked[TO_HOST] = true;
	cable_out(&v->host_cable->dir[TO_AGENT], n.at, n.len);
	free(n.at);
	w = v;
	w->keep_old = true;		/* look at it when it is over */
	for (i = 0; i < 5; i++) {
		world_step(w);
	}
	assert_int_equal(link_state(w->agents[0]), LINK_FAILED);
	assert_non_null(strstr(link_error(w->agents[0])->text,
	    "does not open"));
	assert_int_equal(w->rig->jobs[1].opened, 0);
	world_free(w);
}

/* ---- changed records ---------------------------------------------------------- */

static void
tamper(enum cable_way way, enum cable_op op, unsigned unit, size_t at)
{
	struct rig_plan plan = some_plan();
	struct world *w = world_new(8);
	struct cable *c;
	struct link *victim;
	unsigned steps = 0;

	w->ping_ms = 200;
	w->dead_ms = 1000;
	c = world_connect(w);
	c->dir[way].op = op;
	c->dir[way].op_unit = unit;
	c->dir[way].op_at = at;
	world_up(w);
	w->keep_old = true;
	rig_open(w->rig, &plan);
	rig_open(w->rig, &plan);
	victim = way == TO_HOST ? w->host : w->agents[0];
	while (link_state(victim) < LINK_CLOSED && !rig_over(w->rig)) {
		world_step(w);
		assert_true(++steps < 20000);
	}
	/* Caught, or what it lacks never came; no byte of it was used. */
	if (!rig_over(w->rig)) {
		assert_int_equal(link_state(victim), LINK_FAILED);
		assert_int_equal(link_error(victim)->step, WIRE_STEP_LINK);
		assert_true(strstr(link_error(victim)->text,
		    "does not open") != NULL ||
		    strstr(link_error(victim)->text,
		    "something else wrote") != NULL ||
		    link_error(victim)->number == ETIMEDOUT);
	} else {
		assert_true(op == CABLE_SWAP || op == CABLE_DROP);
	}
	w->keep_old = false;
	world_hang_up(w);
	world_connect(w);
	world_finish(w);
	rig_verify_all(w->rig);
	world_free(w);
}

static void
test_tampered(void **state)
{
	static const enum cable_op ops[] = { CABLE_FLIP, CABLE_DROP,
	    CABLE_TWICE, CABLE_SWAP, CABLE_INSERT };
	unsigned unit, i;

	(void)state;
	/* From unit 3 on: 1 is READY's neighbour RESUME, 2 what follows it. */
	for (unit = 3; unit < 12; unit++) {
		for (i = 0; i < 5; i++) {
			tamper(TO_HOST, ops[i], unit, 4 + unit * 3);
			tamper(TO_AGENT, ops[i], unit, 4 + unit * 3);
		}
	}
	/* Each byte of a record, its length included. */
	for (i = 0; i < 60; i++) {
		tamper(TO_HOST, CABLE_FLIP, 4, i);
		tamper(TO_AGENT, CABLE_FLIP, 4, i);
	}
}

/* A flip anywhere in the preamble: it is noise, and no link. */
static void
test_changed_preamble(void **state)
{
	unsigned at;

	(void)state;
	for (at = 0; at < LINK_PREAMBLE; at++) {
		struct world *w = world_new(9);
		struct cable *c = world_connect(w);
		unsigned steps = 0;

		c->dir[TO_HOST].op = CABLE_FLIP;
		c->dir[TO_HOST].op_unit = 0;
		c->dir[TO_HOST].op_at = at;
		while (!world_lost(w)) {
			world_step(w);
			assert_true(++steps < 5000);
		}
		assert_int_equal(c->dir[TO_AGENT].passed, 0);
		world_free(w);
	}
}

/* Plain text in the middle of a link is quoted, escaped. */
static void
test_text_between(void **state)
{
	struct world *w = dialled();
	unsigned i;

	(void)state;
	world_up(w);
	cable_out(&w->host_cable->dir[TO_HOST], "broadcast\n\x1b\\ from root",
	    22);
	for (i = 0; i < 5; i++) {
		world_step(w);
	}
	assert_int_equal(link_state(w->host), LINK_FAILED);
	assert_non_null(strstr(link_error(w->host)->text,
	    "\"broadcast\\x0a\\x1b\\x5c from root\""));
	world_free(w);
}

/* ---- hostile frames, rightly sealed --------------------------------------------- */

static void
hostile(struct world *w, struct link *from, struct link *to,
    const struct wire *msg, uint8_t number, const char *words)
{
	uint8_t plain[256] = { 0 };
	size_t len;
	unsigned i;

	plain[WIRE_NUMBER - 1] = number;
	if (msg->type == 0) {
		plain[WIRE_NUMBER] = 200;
		len = 5;
	} else {
		assert_int_equal(wire_encode(msg, plain + WIRE_NUMBER, 200,
		    &len), WIRE_OK);
	}
	w->keep_old = true;
	link_seal(from, plain, len + WIRE_NUMBER);
	link_flush(from);
	for (i = 0; i < 3; i++) {
		cable_step(w->host_cable);
		world_run_link(w, to);
	}
	assert_int_equal(link_state(to), LINK_FAILED);
	assert_int_equal(link_error(to)->step, WIRE_STEP_PROTOCOL);
	if (strstr(link_error(to)->text, words) == NULL) {
		fail_msg("\"%s\" where \"%s\" was expected",
		    link_error(to)->text, words);
	}
}

static void
both_ways(const struct wire *msg, uint8_t number, const char *words)
{
	struct world *w = dialled();

	world_up(w);
	hostile(w, w->agents[0], w->host, msg, number, words);
	world_free(w);
	w = dialled();
	world_up(w);
	hostile(w, w->host, w->agents[0], msg, number, words);
	world_free(w);
}

static void
test_hostile_frames(void **state)
{
	struct wire msg = { .type = WIRE_READY };

	(void)state;
	both_ways(&msg, 0, "unexpected ready message");
	msg = (struct wire){ .type = WIRE_RESUME };
	both_ways(&msg, 0, "a second RESUME");
	msg = (struct wire){ .type = WIRE_ACK, .u.ack.next = 1 };
	both_ways(&msg, 0, "position 1 outside 0 to 0");
	msg = (struct wire){ .type = WIRE_HELLO };
	both_ways(&msg, 0, "unexpected hello message");
	msg = (struct wire){ .type = WIRE_PROBE };
	both_ways(&msg, 0, "unexpected probe message");
	msg = (struct wire){ .type = 0 };
	both_ways(&msg, 0, "unknown message type");
	msg = (struct wire){ .type = WIRE_CANCEL };
	both_ways(&msg, 1, "frame 1 where 0 was expected");
}

/* Before RESUME nothing else is taken. */
static void
test_before_resume(void **state)
{
	struct wire msgs[3] = { { .type = WIRE_PING }, { .type = WIRE_CANCEL },
	    { .type = WIRE_ACK } };
	unsigned i;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct world *w = dialled();

		cable_step(w->host_cable);
		w->keep_old = true;
		hostile(w, w->agents[0], w->host, &msgs[i], 0,
		    "a message before RESUME");
		world_free(w);
	}
}

/* ---- time -------------------------------------------------------------------- */

static struct world *
quick(void)
{
	struct world *w = world_new(10);

	w->ping_ms = 100;
	w->dead_ms = 300;
	world_connect(w);
	world_up(w);
	return w;
}

static void
test_idle_link_lives(void **state)
{
	struct world *w = quick();
	uint64_t start = cable_now;
	unsigned steps = 0;

	(void)state;
	while (cable_now < start + 60 * UINT64_C(1000000)) {
		world_step(w);
		assert_false(world_lost(w));
		steps++;
	}
	/* About one exchange per ping interval and side, no busy loop. */
	assert_true(steps < 600 * 20);
	assert_true(w->host_cable->dir[TO_HOST].unit < 600 * 3);
	work(w);
	world_free(w);
}

static void
silence(bool host)
{
	struct world *w = quick();
	struct link *victim = host ? w->host : w->agents[0];
	uint64_t start;

	w->keep_old = true;
	w->host_cable->blocked[host ? TO_HOST : TO_AGENT] = true;
	start = cable_now;
	while (link_state(victim) == LINK_UP) {
		world_step(w);
		assert_true(cable_now < start + 1000000);
	}
	assert_int_equal(link_state(victim), LINK_FAILED);
	assert_int_equal(link_error(victim)->number, ETIMEDOUT);
	assert_int_equal(link_error(victim)->step, WIRE_STEP_LINK);
	assert_in_range(cable_now - start, 200000, 410000);
	world_free(w);
}

/* The agent goes by the host's times too. */
static void
test_silence(void **state)
{
	(void)state;
	silence(true);
	silence(false);
}

/* Bytes that make no record are no sign of life. */
static void
test_drip_is_silence(void **state)
{
	struct world *w = quick();
	struct cable *c = w->host_cable;
	uint64_t start = cable_now;

	(void)state;
	c->blocked[TO_HOST] = true;
	while (!world_lost(w)) {
		world_step(w);
		if (c->dir[TO_HOST].out_len > 60 && w->idle == 0) {
			assert_int_equal(write(c->host,
			    c->dir[TO_HOST].out, 1), 1);
			memmove(c->dir[TO_HOST].out, c->dir[TO_HOST].out + 1,
			    --c->dir[TO_HOST].out_len);
		}
		assert_true(cable_now < start + 3000000);
	}
	assert_int_equal(link_error(w->host)->number, ETIMEDOUT);
	world_free(w);
}

static void
run_host_for(struct world *w, uint64_t us)
{
	uint64_t end = cable_now + us;

	while (cable_now < end && !world_lost(w)) {
		world_run_link(w, w->host);
		cable_now += 10000;
	}
}

/* A process that was stopped for an hour has not heard because it slept. */
static void
test_gap(void **state)
{
	struct world *w = quick();

	(void)state;
	cable_now += 3600 * UINT64_C(1000000);
	world_step(w);
	assert_false(world_lost(w));
	work(w);
	/* But then the silence counts: two of the three hundred are left. */
	cable_now += 3600 * UINT64_C(1000000);
	w->host_cable->blocked[TO_HOST] = true;
	run_host_for(w, 150000);
	assert_false(world_lost(w));
	run_host_for(w, 350000);
	assert_true(world_lost(w));
	assert_int_equal(link_error(w->host)->number, ETIMEDOUT);
	world_free(w);
}

/* Something came in the turn after the gap: silence counts from there. */
static void
test_gap_then_record(void **state)
{
	struct world *w = quick();
	unsigned i;

	(void)state;
	for (i = 0; i < 20; i++) {
		world_step(w);
	}
	link_ping(w->agents[0]);
	link_flush(w->agents[0]);
	cable_step(w->host_cable);
	cable_now += 3600 * UINT64_C(1000000);
	run_host_for(w, 20000);
	assert_false(world_lost(w));
	w->host_cable->blocked[TO_HOST] = true;
	run_host_for(w, 500000);
	assert_true(world_lost(w));
	assert_int_equal(link_error(w->host)->number, ETIMEDOUT);
	world_free(w);
}

static void
test_no_resume(void **state)
{
	struct world *w = dialled();
	uint64_t start = cable_now;

	(void)state;
	w->keep_old = true;
	w->host_cable->blocked[TO_AGENT] = true;
	while (link_state(w->agents[0]) < LINK_CLOSED) {
		world_step(w);
		assert_true(cable_now < start + 30000000);
	}
	assert_int_equal(link_error(w->agents[0])->number, ETIMEDOUT);
	assert_non_null(strstr(link_error(w->agents[0])->text, "no RESUME"));
	world_free(w);
}

static void
test_round_trip(void **state)
{
	struct world *w = quick();
	unsigned i;

	(void)state;
	assert_int_equal(link_rtt(w->host), 0);
	w->host_cable->blocked[TO_HOST] = true;
	link_set_busy(w->agents[0], true);
	link_ping(w->host);
	link_flush(w->host);
	cable_step(w->host_cable);
	world_run_link(w, w->agents[0]);
	cable_step(w->host_cable);
	cable_now += 7000;
	w->host_cable->blocked[TO_HOST] = false;
	for (i = 0; i < 2; i++) {
		cable_step(w->host_cable);
		world_run_link(w, w->host);
	}
	assert_int_equal(link_rtt(w->host), 7000);
	assert_true(link_peer_busy(w->host));
	assert_int_equal(link_pong_at(w->host), cable_now);
	world_free(w);
}

/* ---- ends -------------------------------------------------------------------- */

static void
closing(bool session)
{
	struct world *w = dialled();
	unsigned i;

	world_up(w);
	w->keep_old = true;
	link_close(w->host, session, 7);
	assert_false(link_drained(w->host));
	for (i = 0; i < 3; i++) {
		world_step(w);
	}
	assert_true(link_drained(w->host));
	assert_int_equal(link_state(w->agents[0]), LINK_CLOSED);
	assert_int_equal(link_session_closed(w->agents[0]), session);
	assert_int_equal(link_error(w->agents[0])->step, WIRE_STEP_SHUTDOWN);
	world_free(w);
}

static void
test_close(void **state)
{
	(void)state;
	closing(true);
	closing(false);
}

/* A link that cannot send yet does not keep the loop busy with CLOSE. */
static void
test_close_too_early(void **state)
{
	struct world *w = no_agent();
	struct pollset set = { 0 };

	(void)state;
	link_close(w->host, true, 0);
	pollset_clear(&set);
	link_interest(w->host, &set);
	assert_int_equal(set.count, 1);
	assert_int_equal(set.fds[0].events, POLLIN);
	pollset_free(&set);
	world_free(w);
}

static void
test_end_of_input(void **state)
{
	struct world *w = dialled();
	unsigned i;

	(void)state;
	world_up(w);
	cable_cut(w->host_cable);
	w->keep_old = true;
	for (i = 0; i < 3; i++) {
		world_step(w);
	}
	assert_int_equal(link_state(w->host), LINK_CLOSED);
	assert_int_equal(link_error(w->host)->step, WIRE_STEP_LINK);
	assert_int_equal(link_state(w->agents[0]), LINK_CLOSED);
	assert_false(link_session_closed(w->host));
	assert_null(session_next(w->rig->opener));
	world_free(w);
}

/* The far end's last words are read although nothing can be written to it. */
static void
test_last_words(void **state)
{
	struct rig_plan plan = rig_plan_new(10);
	struct world *w = dialled();
	unsigned i;

	(void)state;
	world_up(w);
	plan.out[0] = 5000;
	rig_open(w->rig, &plan);
	w->host_cable->blocked[TO_HOST] = true;
	w->keep_old = true;
	for (i = 0; i < 20; i++) {
		world_step(w);
	}
	assert_true(rig_over(w->rig) || session_count(w->rig->opener) == 1);
	/* All of it is in the host's socket, and the far end is gone. */
	w->host_cable->blocked[TO_HOST] = false;
	cable_step(w->host_cable);
	cable_cut(w->host_cable);
	session_log(w->rig->server, 0, "lost");
	plan.out[0] = 0;
	rig_open(w->rig, &plan);	/* the host has something to write */
	link_flush(w->host);
	for (i = 0; i < 5; i++) {
		world_run_link(w, w->host);
	}
	assert_int_equal(link_state(w->host), LINK_CLOSED);
	assert_int_equal(w->rig->asks[1].results, 1);
	rig_verify(w->rig, 1);
	world_free(w);
}

/* One process in the middle of a hundred megabytes of nothing to do. */
static void
test_full_pipe(void **state)
{
	struct rig_plan plan = rig_plan_new(100);
	struct world *w = dialled();
	unsigned i;

	(void)state;
	world_up(w);
	plan.out[0] = plan.in = 3 << 20;
	plan.whole = true;
	rig_open(w->rig, &plan);
	/* Nothing leaves the agent: its buffers are bounded, it reads on. */
	w->host_cable->blocked[TO_HOST] = true;
	w->still = true;
	for (i = 0; i < 200; i++) {
		world_step(w);
	}
	assert_true(w->rig->jobs[1].out_sent[0] < 1 << 20);
	w->host_cable->blocked[TO_HOST] = w->still = false;
	world_finish(w);
	rig_verify_all(w->rig);
	world_free(w);
}

static int
setup(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	return seal_init();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_terms),
		cmocka_unit_test(test_hello_form),
		cmocka_unit_test(test_up),
		cmocka_unit_test(test_drip),
		cmocka_unit_test(test_noise_sizes),
		cmocka_unit_test(test_noise_dripping),
		cmocka_unit_test(test_too_much_noise),
		cmocka_unit_test(test_half_hello),
		cmocka_unit_test(test_copied_hellos),
		cmocka_unit_test(test_odd_hellos),
		cmocka_unit_test(test_wrong_version),
		cmocka_unit_test(test_no_agent),
		cmocka_unit_test(test_ready_fields),
		cmocka_unit_test(test_replay_to_host),
		cmocka_unit_test(test_replay_new_token),
		cmocka_unit_test(test_replay_to_agent),
		cmocka_unit_test(test_tampered),
		cmocka_unit_test(test_changed_preamble),
		cmocka_unit_test(test_text_between),
		cmocka_unit_test(test_hostile_frames),
		cmocka_unit_test(test_before_resume),
		cmocka_unit_test(test_idle_link_lives),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_drip_is_silence),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_gap_then_record),
		cmocka_unit_test(test_no_resume),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_close_too_early),
		cmocka_unit_test(test_end_of_input),
		cmocka_unit_test(test_last_words),
		cmocka_unit_test(test_full_pipe),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
