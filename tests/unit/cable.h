/* SPDX-License-Identifier: MIT */
/*
 * cable.h - two links, a clock that stands still, and someone between them.
 *
 * A cable joins a host's link and an agent's over socketpairs.  In the middle
 * it sees whole records, may change, drop, repeat or swap one, hold or cut
 * either direction at any byte, or let single bytes drip.  Time passes only
 * when nothing else happens.
 *
 * Include after cmocka.h.  It defines clock.h's functions.
 */
#ifndef CABLE_H
#define CABLE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "link.h"
#include "link_private.h"
#include "rig.h"

/* ---- the clock --------------------------------------------------------- */

static uint64_t cable_now = 1000000;

uint64_t
clock_now(void)
{
	return cable_now;
}

int
clock_poll_ms(uint64_t now, uint64_t deadline)
{
	(void)now;
	(void)deadline;
	return 0;
}

/* ---- the cable --------------------------------------------------------- */

#define CABLE_NEVER UINT64_MAX

enum cable_op {
	CABLE_PASS, CABLE_FLIP, CABLE_DROP, CABLE_TWICE, CABLE_SWAP,
	CABLE_INSERT
};

enum cable_way { TO_HOST, TO_AGENT };

struct cable_dir {
	int from, to;			/* descriptors, borrowed from cable */
	uint8_t *in, *out;		/* not looked at yet; to be written */
	size_t in_len, out_len, in_size, out_size;
	unsigned unit;			/* 0: preamble or header; records */
	uint64_t passed;		/* bytes written */
	uint64_t limit;			/* cut or hold when passed reaches it */
	size_t drip;			/* bytes a step, 0: all */
	enum cable_op op;		/* done to this unit */
	unsigned op_unit;
	size_t op_at;			/* the byte that is flipped */
	bool eof;			/* the writer is gone */
	bool record;			/* keep what passes in log */
	uint8_t *log;
	size_t log_len, log_size;
	uint64_t ends[1024];		/* where units end, as received */
	uint8_t *held;			/* a unit that changes places */
	size_t held_len;
};

struct cable {
	int host, agent;		/* the mid-points, -1: cut */
	bool hold;			/* at the limit: hold, don't cut */
	bool hit;			/* a limit was reached */
	bool blocked[2];		/* nothing passes until cleared */
	struct cable_dir dir[2];
	uint64_t moved;
};

static inline void
cable_append(uint8_t **buf, size_t *len, size_t *size, const uint8_t *data,
    size_t n)
{
	if (*buf == NULL || *len + n > *size) {
		*size = (*len + n) * 2 + 1;
		*buf = realloc(*buf, *size);
		assert_non_null(*buf);
	}
	memcpy(*buf + *len, data, n);
	*len += n;
}

static inline void
cable_out(struct cable_dir *d, const void *data, size_t n)
{
	cable_append(&d->out, &d->out_len, &d->out_size, data, n);
}

/* Both ends get a descriptor of their own, non-blocking. */
static inline struct cable *
cable_new(int *host, int *agent)
{
	struct cable *c = calloc(1, sizeof(*c));
	int a[2], b[2];

	assert_non_null(c);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK |
	    SOCK_CLOEXEC, 0, a), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK |
	    SOCK_CLOEXEC, 0, b), 0);
	*host = a[0];
	*agent = b[0];
	c->host = a[1];
	c->agent = b[1];
	c->dir[TO_HOST].from = c->dir[TO_AGENT].to = c->agent;
	c->dir[TO_HOST].to = c->dir[TO_AGENT].from = c->host;
	c->dir[0].limit = c->dir[1].limit = CABLE_NEVER;
	return c;
}

static inline void
cable_cut(struct cable *c)
{
	if (c->host != -1) {
		close(c->host);
		close(c->agent);
		c->host = c->agent = -1;
	}
}

static inline void
cable_free(struct cable *c)
{
	unsigned i;

	if (c == NULL) {
		return;
	}
	cable_cut(c);
	for (i = 0; i < 2; i++) {
		free(c->dir[i].in);
		free(c->dir[i].out);
		free(c->dir[i].held);
		free(c->dir[i].log);
	}
	free(c);
}

/* The length of the unit at the input's start, 0: incomplete. */
static inline size_t
cable_unit(const struct cable *c, const struct cable_dir *d)
{
	size_t n;

	if (d->unit == 0) {
		n = d == &c->dir[TO_HOST] ? LINK_PREAMBLE : SEAL_HEADER;
	} else if (d->in_len < LINK_RECORD) {
		return 0;
	} else {
		n = LINK_RECORD + ((size_t)d->in[0] << 24 |
		    (size_t)d->in[1] << 16 | (size_t)d->in[2] << 8 |
		    d->in[3]);
		assert_true(n <= LINK_RECORD + SEAL_OVERHEAD +
		    WIRE_RECORD_PLAIN);
	}
	return d->in_len < n ? 0 : n;
}

static inline void
cable_pass_unit(struct cable_dir *d, size_t n)
{
	static const uint8_t garbage[40] = { 0, 0, 0, 36, 1, 2, 3 };

	if (d->unit < 1024) {
		d->ends[d->unit] = n + (d->unit == 0 ? 0 :
		    d->ends[d->unit - 1]);
	}
	if (d->held != NULL) {			/* the one before this */
		cable_out(d, d->in, n);
		cable_out(d, d->held, d->held_len);
		free(d->held);
		d->held = NULL;
	} else if (d->op == CABLE_PASS || d->unit != d->op_unit) {
		cable_out(d, d->in, n);
	} else if (d->op == CABLE_FLIP) {
		d->in[d->op_at % n] ^= 0x10;
		cable_out(d, d->in, n);
	} else if (d->op == CABLE_TWICE) {
		cable_out(d, d->in, n);
		cable_out(d, d->in, n);
	} else if (d->op == CABLE_INSERT) {
		cable_out(d, garbage, sizeof(garbage));
		cable_out(d, d->in, n);
	} else if (d->op == CABLE_SWAP) {
		d->held = malloc(n);
		memcpy(d->held, d->in, n);
		d->held_len = n;
	}
	memmove(d->in, d->in + n, d->in_len - n);
	d->in_len -= n;
	d->unit++;
}

static inline void
cable_dir_step(struct cable *c, struct cable_dir *d)
{
	uint8_t buf[65536];
	ssize_t n;
	size_t max, unit;

	while ((n = read(d->from, buf, sizeof(buf))) > 0) {
		cable_append(&d->in, &d->in_len, &d->in_size, buf,
		    (size_t)n);
		c->moved += (uint64_t)n;
	}
	d->eof = n == 0 || errno != EAGAIN;
	while ((unit = cable_unit(c, d)) > 0) {
		cable_pass_unit(d, unit);
	}
	max = d->drip != 0 && d->drip < d->out_len ? d->drip : d->out_len;
	if (c->blocked[d == &c->dir[TO_AGENT]]) {
		return;
	}
	if (max >= d->limit - d->passed) {
		max = (size_t)(d->limit - d->passed);
		c->hit = true;
	}
	if (max > 0 && (n = write(d->to, d->out, max)) > 0) {
		if (d->record) {
			cable_append(&d->log, &d->log_len, &d->log_size,
			    d->out, (size_t)n);
		}
		memmove(d->out, d->out + n, d->out_len - (size_t)n);
		d->out_len -= (size_t)n;
		d->passed += (uint64_t)n;
		c->moved += (uint64_t)n;
	}
}

/* Bytes move; at a limit the cable is cut, or all is held. */
static inline void
cable_step(struct cable *c)
{
	unsigned i;

	if (c->host == -1) {
		return;
	}
	cable_dir_step(c, &c->dir[TO_HOST]);
	cable_dir_step(c, &c->dir[TO_AGENT]);
	for (i = 0; i < 2; i++) {
		if (c->dir[i].eof && !c->hold && !c->blocked[i] &&
		    c->dir[i].out_len == 0) {
			cable_cut(c);
			return;
		}
	}
	if (!c->hit) {
		return;
	}
	if (c->hold) {
		c->blocked[0] = c->blocked[1] = true;
	} else {
		cable_cut(c);
	}
}

/* ---- both ends --------------------------------------------------------- */

#define WORLD_LINKS 64u

struct world {
	struct rig *rig;
	struct seal_secret *hs, *cs;
	struct link_terms terms;	/* the host's: session and number */
	uint32_t ping_ms, dead_ms;
	struct link *host, *agents[WORLD_LINKS];
	struct cable *host_cable, *cables[WORLD_LINKS];
	unsigned links;			/* of the agent's side, in all */
	unsigned committed;		/* index + 1, 0: none yet */
	uint32_t newest;		/* the core's: see link_config */
	uint32_t linger_ms;
	bool keep_old;			/* the core is slow to drop it */
	bool still;			/* time does not pass */
	uint64_t moved, deadline;
	unsigned idle;
};

static inline struct world *
world_new(unsigned seed)
{
	struct world *w = calloc(1, sizeof(*w));
	uint8_t name[LINK_SESSION / 2];

	assert_int_equal(seal_init(), 0);
	signal(SIGPIPE, SIG_IGN);
	w->rig = rig_new(seed, true);
	w->hs = seal_secret_new();
	w->cs = seal_secret_new();
	seal_random(name, sizeof(name));
	seal_hex(name, sizeof(name), w->terms.session);
	link_our_versions(w->terms.versions);
	return w;
}

static inline void
world_drop(struct world *w, unsigned i)
{
	link_free(w->agents[i]);
	w->agents[i] = NULL;
}

static inline void
world_free(struct world *w)
{
	unsigned i;

	link_free(w->host);
	for (i = 0; i < w->links; i++) {
		world_drop(w, i);
		cable_free(w->cables[i]);
	}
	seal_secret_free(w->hs);
	seal_secret_free(w->cs);
	rig_free(w->rig);
	free(w);
}

/* The agent's terms as they come through argv. */
static inline void
world_words(const struct link_terms *terms, struct link_terms *got)
{
	char number[9], key[2 * SEAL_KEY + 1], versions[LINK_VERSIONS + 1];
	char token[LINK_TOKEN + 1], session[LINK_SESSION + 1];
	char *words[5] = { versions, token, session, number, key };
	const char *what;

	strcpy(versions, terms->versions);
	strcpy(token, terms->token);
	strcpy(session, terms->session);
	snprintf(number, sizeof(number), "%08x", (unsigned)terms->number);
	seal_hex(terms->host_key, SEAL_KEY, key);
	if (link_parse_terms(got, words, &what) == -1) {
		fail_msg("bad %s", what);
	}
}

/* The host's half of a new attempt; the agent's descriptor in *agent. */
static inline struct cable *
world_dial(struct world *w, int *agent)
{
	struct link_config config = { .session = w->rig->opener,
	    .secret = w->hs, .ping_ms = w->ping_ms, .dead_ms = w->dead_ms,
	    .linger_ms = w->linger_ms };
	struct cable *c;
	int fd;

	assert_null(w->host);
	assert_true(w->links < WORLD_LINKS);
	w->terms.number++;
	config.terms = w->terms;
	assert_int_equal(link_prepare(&config), 0);
	w->terms = config.terms;
	c = cable_new(&fd, agent);
	config.in = config.out = fd;
	w->host = link_new_host(&config);
	assert_non_null(w->host);
	w->host_cable = w->cables[w->links] = c;
	return c;
}

/* The agent's half. */
static inline struct link *
world_answer(struct world *w, int fd)
{
	struct link_config config = { .session = w->rig->server,
	    .secret = w->cs, .in = fd, .out = fd, .unlinked = 1,
	    .committed = &w->newest };
	struct link *link;

	world_words(&w->terms, &config.terms);
	link = link_new_agent(&config);
	assert_non_null(link);
	w->agents[w->links++] = link;
	return link;
}

static inline struct cable *
world_connect(struct world *w)
{
	int fd;
	struct cable *c = world_dial(w, &fd);

	world_answer(w, fd);
	return c;
}

static inline void
world_run_link(struct world *w, struct link *link)
{
	struct pollset set = { 0 };

	if (link == NULL) {
		return;
	}
	pollset_clear(&set);
	link_interest(link, &set);
	assert_int_equal(pollset_wait(&set), 0);
	pollset_wake(&set, w->deadline);
	w->deadline = set.deadline;
	link_run(link, &set);
	pollset_free(&set);
}

/* What the core does: the first link that is up takes over. */
static inline void
world_commit(struct world *w)
{
	unsigned i, k;

	for (i = w->links; i-- > 0; ) {
		if (w->agents[i] == NULL) {
			continue;
		}
		if (link_state(w->agents[i]) == LINK_UP && i + 1 >
		    w->committed) {
			w->committed = i + 1;
			for (k = 0; k < i && !w->keep_old; k++) {
				world_drop(w, k);
			}
		} else if (link_state(w->agents[i]) >= LINK_CLOSED &&
		    !w->keep_old) {
			world_drop(w, i);
		}
	}
}

/* One turn of everything; time passes if nothing else happened. */
static inline void
world_step(struct world *w)
{
	uint64_t moved = 0;
	unsigned i;

	w->deadline = CLOCK_NEVER;
	rig_turn(w->rig);
	for (i = w->links; i-- > 0; ) {
		world_run_link(w, w->agents[i]);
		world_commit(w);
	}
	world_run_link(w, w->host);
	rig_turn(w->rig);
	for (i = 0; i < w->links; i++) {
		if (w->agents[i] != NULL) {
			link_flush(w->agents[i]);
		}
	}
	if (w->host != NULL) {
		link_flush(w->host);
	}
	if (w->host_cable != NULL && w->links == 0) {
		cable_step(w->host_cable);
		moved += w->host_cable->moved;
	}
	for (i = 0; i < w->links; i++) {
		cable_step(w->cables[i]);
		moved += w->cables[i]->moved;
	}
	w->idle = moved == w->moved ? w->idle + 1 : 0;
	w->moved = moved;
	if (w->idle > 2 && !w->still) {
		w->idle = 0;
		cable_now = w->deadline != CLOCK_NEVER && w->deadline >
		    cable_now ? w->deadline : cable_now + 1000;
	}
}

static inline bool
world_lost(const struct world *w)
{
	return link_state(w->host) >= LINK_CLOSED;
}

/* The host gives its link up; the next one is world_connect(). */
static inline void
world_hang_up(struct world *w)
{
	link_free(w->host);
	w->host = NULL;
}

static inline void
world_fail(const struct world *w)
{
	const struct link *agent = w->agents[w->links - 1];

	fail_msg("link %u: %s; agent %d: %s", (unsigned)w->terms.number,
	    link_error(w->host)->text,
	    agent == NULL ? -1 : (int)link_state(agent),
	    agent == NULL ? "" : link_error(agent)->text);
}

/* Steps until both ends of the newest link are up. */
static inline void
world_up(struct world *w)
{
	unsigned steps = 0;

	while (link_state(w->host) != LINK_UP || w->committed != w->links) {
		world_step(w);
		if (world_lost(w)) {
			world_fail(w);
		}
		assert_true(++steps < 2000);
	}
}

/* Steps until all requests are over on the present link. */
static inline void
world_finish(struct world *w)
{
	unsigned steps = 0;

	while (!rig_over(w->rig)) {
		world_step(w);
		if (world_lost(w)) {
			world_fail(w);
		}
		if (++steps > 20000) {
			fail_msg("stuck on link %u",
			    (unsigned)w->terms.number);
		}
	}
}

#endif
