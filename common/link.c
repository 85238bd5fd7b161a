/* SPDX-License-Identifier: MIT */
/* link.c - one sealed link: records in and out, keepalive, its end. */
#include "link.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "link_private.h"

#define OUT_FULL 65536u			/* seal no more than this at once */
#define RESUME_MS 10000u		/* agent: READY to RESUME */

_Static_assert(LINK_OUT >= OUT_FULL + LINK_RECORD + LINK_RECORD_MAX,
    "room for link frames and one more record");

int
link_prepare(struct link_config *config)
{
	uint8_t token[LINK_TOKEN / 2];

	config->seal = seal_new(SEAL_HOST);
	if (config->seal == NULL) {
		return -1;
	}
	seal_random(token, sizeof(token));
	seal_hex(token, sizeof(token), config->terms.token);
	memcpy(config->terms.host_key, seal_public(config->seal), SEAL_KEY);
	return 0;
}

static struct link *
link_new(struct link_config *config, enum seal_role role)
{
	struct link *link = mmap(NULL, sizeof(*link), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (link == MAP_FAILED) {
		return NULL;
	}
#ifdef MADV_DONTFORK
	madvise(link->plain, sizeof(*link) - offsetof(struct link, plain),
	    MADV_DONTFORK);
#endif
	link->role = role;
	link->terms = config->terms;
	link->session = config->session;
	link->secret = config->secret;
	link->seal = config->seal;
	link->in = config->in;
	link->terminal = isatty(config->in) == 1;
	link->hands_over = config->hands_over;
	link->linger_ms = config->linger_ms;
	link->committed = config->committed;
	link->out = config->out;
	link->ping = (config->ping_ms ? config->ping_ms : LINK_PING_MS) *
	    (uint64_t)CLOCK_MS;
	link->dead = (config->dead_ms ? config->dead_ms : LINK_DEAD_MS) *
	    (uint64_t)CLOCK_MS;
	link->turn = link->heard = clock_now();
	link->ack_at = CLOCK_NEVER;
	link->in_slot = link->out_slot = POLLSET_NONE;
	return link;
}

struct link *
link_new_host(struct link_config *config)
{
	struct link *link = link_new(config, SEAL_HOST);
	int saved = errno;

	if (link == NULL) {
		seal_free(config->seal);
		close(config->in);
		if (config->out != config->in) {
			close(config->out);
		}
		errno = saved;
		return NULL;
	}
	link->state = LINK_HELLO_WAIT;
	link->deadline = link->turn + LINK_HELLO_MS * (uint64_t)CLOCK_MS;
	return link;
}

struct link *
link_new_agent(struct link_config *config)
{
	struct link *link;

	config->seal = seal_new(SEAL_CORE);
	link = config->seal == NULL ? NULL : link_new(config, SEAL_CORE);
	if (link == NULL) {
		seal_free(config->seal);
		close(config->in);
		close(config->out);
		return NULL;
	}
	link->state = LINK_RESUME_WAIT;
	link->deadline = link->turn + RESUME_MS * (uint64_t)CLOCK_MS;
	link_hello_send(link, config);
	link_flush(link);
	return link;
}

void
link_free(struct link *link)
{
	int saved = errno;

	if (link == NULL) {
		return;
	}
	seal_free(link->seal);
	if (link->in != -1) {
		close(link->in);
	}
	if (link->out != link->in) {
		close(link->out);
	}
	munmap(link, sizeof(*link));
	errno = saved;
}

void
link_wipe(struct link *link)
{
	if (link != NULL) {
		seal_wipe(link->seal);
		close(link->in);
		close(link->out);
	}
}

/* ---- ends ------------------------------------------------------------- */

/* An attempt has nothing yet, a replaced link nothing any more. */
static bool
has_session(const struct link *link)
{
	return link->attachment != 0 &&
	    link->attachment == session_attachment(link->session);
}

void
link_end(struct link *link, enum link_state state)
{
	if (link->state < LINK_CLOSED) {
		link->state = state;
		if (has_session(link)) {
			session_detach(link->session);
		}
	}
}

int
link_attach(struct link *link, uint64_t next, struct error *error)
{
	if (session_attach(link->session, next, error) == -1) {
		return -1;
	}
	link->attachment = session_attachment(link->session);
	return 0;
}

/* Another link has the session: nothing of this one counts any more. */
bool
link_replaced(struct link *link)
{
	if (link->attachment == 0 || has_session(link)) {
		return false;
	}
	if (link->state < LINK_CLOSED) {
		error_set(&link->error, WIRE_STEP_LINK, 0,
		    "another link has taken over");
		link_end(link, LINK_CLOSED);
	}
	return true;
}

void
link_fail(struct link *link, enum wire_step step, int number,
    const char *what)
{
	if (link->state < LINK_CLOSED) {
		error_set(&link->error, step, number, "%s", what);
		link_end(link, LINK_FAILED);
	}
}

/* ---- sealing ---------------------------------------------------------- */

void
link_seal(struct link *link, const uint8_t *plain, size_t len)
{
	uint8_t *at = link->out_buf + link->out_end;
	size_t n = len + SEAL_OVERHEAD;

	wire_number_put(at, n, LINK_RECORD);
	if (seal_push(link->seal, at + LINK_RECORD, plain, len, at,
	    LINK_RECORD) == -1) {
		link_fail(link, WIRE_STEP_LINK, 0, "a record was not sealed");
		return;
	}
	link->out_end += LINK_RECORD + n;
}

void
link_seal_message(struct link *link, const struct wire *msg)
{
	uint8_t plain[128] = { 0 };	/* link frames carry number 0 */
	size_t len;

	if (wire_encode(msg, plain + WIRE_NUMBER, sizeof(plain) - WIRE_NUMBER,
	    &len) == WIRE_OK) {
		link_seal(link, plain, len + WIRE_NUMBER);
	}
}

static void
seal_control(struct link *link)
{
	struct wire msg = { 0 };

	if (link->resume_due && link->hands_over &&
	    link->role == SEAL_HOST) {
		link->resume_due = false;
		msg.type = WIRE_TERMINAL;
		link_seal_message(link, &msg);
	}
	if (link->resume_due) {
		link->resume_due = false;
		msg.type = WIRE_RESUME;
		msg.u.resume.next = session_expected(link->session);
		if (link->role == SEAL_HOST) {
			msg.u.resume.ping_ms =
			    (uint32_t)(link->ping / CLOCK_MS);
			msg.u.resume.dead_ms =
			    (uint32_t)(link->dead / CLOCK_MS);
			msg.u.resume.linger_ms = link->linger_ms;
		}
		link_seal_message(link, &msg);
		link->unacked = 0;
	}
	if (link->pong_due) {
		link->pong_due = false;
		msg.type = WIRE_PONG;
		msg.u.pong = (struct wire_pong){ link->pong_id, link->busy };
		link_seal_message(link, &msg);
	}
	if (link->ping_due) {
		link->ping_due = false;
		msg.type = WIRE_PING;
		msg.u.ping.id = link->ping_id = clock_now();
		link_seal_message(link, &msg);
	}
	if (link->close_due > 0) {
		msg.type = WIRE_CLOSE;
		msg.u.close.session = link->close_due == 2;
		msg.u.close.park_s = link->park_s;
		link->close_due = 0;
		link_seal_message(link, &msg);
	}
}

static void
seal_ack(struct link *link)
{
	struct wire msg = { .type = WIRE_ACK };

	msg.u.ack.next = session_expected(link->session);
	link->unacked = 0;
	link->ack_due = false;
	link->ack_at = CLOCK_NEVER;
	link_seal_message(link, &msg);
}

/* Seal what is due; false if there was nothing. */
static bool
fill(struct link *link)
{
	const struct session_frame *f;

	if (link_replaced(link) ||
	    (link->state != LINK_UP && !link->resume_due)) {
		return false;
	}
	seal_control(link);
	if (link->ack_due) {
		seal_ack(link);
	}
	while (link->out_end < OUT_FULL && has_session(link) &&
	    (f = session_next(link->session)) != NULL) {
		link_seal(link, f->bytes, f->length);
	}
	/* A write happens anyway: an acknowledgement costs little with it. */
	if (link->out_end > 0 && link->unacked > 0) {
		seal_ack(link);
	}
	return link->out_end > 0;
}

int
link_drain(struct link *link)
{
	ssize_t n;

	while (link->out_start < link->out_end) {
		n = write(link->out, link->out_buf + link->out_start,
		    link->out_end - link->out_start);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0 && errno == EAGAIN) {
			return 1;
		}
		if (n < 0) {
			/* What it said last may still be readable. */
			link->out_dead = true;
			return -1;
		}
		link->out_start += (size_t)n;
	}
	link->out_start = link->out_end = 0;
	return 0;
}

void
link_flush(struct link *link)
{
	unsigned i;

	link->more = false;
	for (i = 0; i < POLLSET_WRITES; i++) {
		if (link->out_dead || link_drain(link) != 0) {
			return;
		}
		if (link->state >= LINK_TERMINAL || !fill(link)) {
			return;
		}
	}
	link->more = true;
}

int
link_answer_terminal(struct link *link, uint32_t error)
{
	struct wire msg = { .type = WIRE_TERMINAL,
	    .u.terminal.error = error };

	link_seal_message(link, &msg);
	return link->state == LINK_TERMINAL && link_drain(link) == 0 ? 0 : -1;
}

void
link_take_terminal(struct link *link, int *in, int *out)
{
	*in = link->in;
	*out = link->out;
	link->in = link->out = -1;
}

/* ---- time ------------------------------------------------------------- */

/*
 * A process that was stopped, or whose machine slept, has heard nothing
 * because it did not listen: a gap counts as one ping interval at most.
 */
static void
time_passes(struct link *link, uint64_t now)
{
	uint64_t gap = now - link->turn;

	link->turn = now;
	if (gap > link->ping) {
		/* What came after the gap is not moved into the future. */
		link->heard += gap - link->ping;
		link->heard = link->heard < now ? link->heard : now;
	}
	if (link->state >= LINK_TERMINAL) {
		return;
	}
	if (link->state < LINK_UP) {
		if (now >= link->deadline) {
			link_fail(link, WIRE_STEP_LINK, ETIMEDOUT,
			    link->role == SEAL_HOST ? "no answer in time" :
			    "no RESUME in time");
		}
		return;
	}
	if (now >= link->heard + link->dead) {
		link_fail(link, WIRE_STEP_LINK, ETIMEDOUT,
		    "silent for too long");
		return;
	}
	if (now >= link->heard + link->ping && now >= link->pinged +
	    link->ping) {
		link->pinged = now;
		link->ping_due = true;
		session_trim(link->session);
		link_trim(link);
	}
	if (now >= link->ack_at) {
		link->ack_due = true;
	}
}

void
link_trim(struct link *link)
{
#ifdef MADV_DONTNEED
	uintptr_t from = ((uintptr_t)link->in_buf + link->in_end + 4095) &
	    ~(uintptr_t)4095;
	uintptr_t to = ((uintptr_t)link->in_buf + LINK_IN) & ~(uintptr_t)4095;

	if (to > from) {
		madvise((void *)from, to - from, MADV_DONTNEED);
	}
#endif
}

void
link_interest(struct link *link, struct pollset *set)
{
	uint64_t ping;
	bool write_due = link->out_start < link->out_end || link->more ||
	    link->resume_due || (link->state == LINK_UP &&
	    (link->close_due > 0 || link->ping_due ||
	    session_pending(link->session)));

	link->in_slot = link->out_slot = POLLSET_NONE;
	if (link->state >= LINK_TERMINAL) {
		return;
	}
	link->in_slot = pollset_add(set, link->in, POLLIN);
	if (write_due && !link->out_dead) {
		link->out_slot = pollset_add(set, link->out, POLLOUT);
	}
	if (link->state < LINK_UP) {
		pollset_wake(set, link->deadline);
		return;
	}
	ping = link->heard + link->ping;
	if (ping < link->pinged + link->ping) {
		ping = link->pinged + link->ping;
	}
	pollset_wake(set, ping);
	pollset_wake(set, link->heard + link->dead);
	pollset_wake(set, link->ack_at);
}

void
link_run(struct link *link, const struct pollset *set)
{
	if (pollset_ready(set, link->in_slot) != 0) {
		link_receive(link);
	}
	time_passes(link, clock_now());
	link_flush(link);
}

void
link_close(struct link *link, bool session, uint32_t park_s)
{
	link->close_due = session ? 2 : 1;
	link->park_s = session ? 0 : park_s;
}

uint64_t
link_stay(const struct link *link)
{
	/* What broke the session itself no other link can mend. */
	return link->error.step == WIRE_STEP_LINK ||
	    link->error.step == WIRE_STEP_SHUTDOWN ? link->stay : 0;
}

bool
link_committed(const struct link *link)
{
	return link->newest;
}

/* ---- answers ---------------------------------------------------------- */

enum link_state
link_state(const struct link *link)
{
	return link->state;
}

const struct error *
link_error(const struct link *link)
{
	return &link->error;
}

bool
link_session_closed(const struct link *link)
{
	return link->session_closed;
}

bool
link_drained(const struct link *link)
{
	return link->out_start == link->out_end && !link->more &&
	    link->close_due == 0;
}

const struct wire_ready *
link_ready(const struct link *link)
{
	return &link->ready;
}

const char *
link_wrong_version(const struct link *link)
{
	return link->wrong_version[0] != '\0' ? link->wrong_version : NULL;
}

uint64_t
link_rtt(const struct link *link)
{
	return link->rtt;
}

void
link_set_busy(struct link *link, bool busy)
{
	link->busy = busy;
}

bool
link_peer_busy(const struct link *link)
{
	return link->peer_busy;
}

void
link_ping(struct link *link)
{
	link->ping_due = true;
}

uint64_t
link_pong_at(const struct link *link)
{
	return link->pong_at;
}
