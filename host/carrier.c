/* SPDX-License-Identifier: MIT */
/* carrier.c - a transport child with the link on its stdio: start to end. */
#include "carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "clock.h"
#include "system.h"

#define STATUS_GRACE (1000u * CLOCK_MS)	/* to end by itself, with a status */
#define DRAIN_GRACE (500u * CLOCK_MS)	/* link bytes after the child's end */

/* The child's three descriptors and our ends of them. */
struct stdio {
	int child[3];
	int in, out, err;
};

void
carrier_clear(struct carrier *carrier)
{
	memset(carrier, 0, sizeof(*carrier));
	child_clear(&carrier->child);
	carrier->err = -1;
	carrier->slot = POLLSET_NONE;
	carrier->end_by = CLOCK_NEVER;
}

static void
stdio_close(struct stdio *s)
{
	int saved = errno, i;

	for (i = 0; i < 3; i++) {
		if (s->child[i] >= 0) {
			close(s->child[i]);
		}
	}
	if (s->in >= 0) {
		close(s->in);
	}
	if (s->out >= 0) {
		close(s->out);
	}
	if (s->err >= 0) {
		close(s->err);
	}
	errno = saved;
}

/* A raw terminal, so that not one byte is changed before the child is. */
static int
open_pty(struct stdio *s)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	struct termios tio;
	const char *name;

	s->out = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s->out < 0 || grantpt(s->out) < 0 || unlockpt(s->out) < 0 ||
	    (name = ptsname(s->out)) == NULL) {
		return -1;
	}
	s->child[0] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (s->child[0] < 0 || tcgetattr(s->child[0], &tio) < 0) {
		return -1;
	}
	cfmakeraw(&tio);
	ioctl(s->child[0], TIOCSWINSZ, &size);
	return tcsetattr(s->child[0], TCSANOW, &tio);
}

static int
pair(int *ours, int *theirs, int reads)
{
	int fds[2];

	if (system_pipe(fds) < 0) {
		return -1;
	}
	*ours = fds[reads ? 0 : 1];
	*theirs = fds[reads ? 1 : 0];
	return 0;
}

static int
stdio_open(struct stdio *s, bool pty)
{
	if ((pty ? open_pty(s) : pair(&s->out, &s->child[0], 0)) < 0) {
		return -1;
	}
	return pair(&s->in, &s->child[1], 1) < 0 ||
	    pair(&s->err, &s->child[2], 1) < 0 ? -1 : 0;
}

static void
build_argv(struct argv *argv, const struct carrier_spec *spec,
    const struct link_terms *terms)
{
	char key[2 * SEAL_KEY + 1];

	seal_hex(terms->host_key, SEAL_KEY, key);
	argv_init(argv);
	spec->transport->link(spec->place, argv);
	argv_add(argv, spec->agent);
	argv_add(argv, spec->number == 1 ? "start" : "attach");
	argv_add(argv, terms->versions);
	argv_add(argv, terms->token);
	argv_add(argv, terms->session);
	argv_format(argv, "%08x", (unsigned)terms->number);
	argv_add(argv, key);
	if (spec->hash != NULL) {
		argv_format(argv, "hash=%s", spec->hash);
		argv_add(argv, "unlink");
	}
	if (spec->user != NULL) {
		argv_format(argv, "user=%s", spec->user);
	}
	if (spec->groups != NULL && spec->groups[0] != '\0') {
		argv_format(argv, "groups=%s", spec->groups);
	}
	if (spec->keep_home) {
		argv_add(argv, "keep-home");
	}
}

static int
spawn(struct carrier *carrier, const struct carrier_spec *spec,
    const struct link_terms *terms, const struct stdio *s)
{
	const struct transport_place *place = spec->place;
	bool home = (spec->transport->traits & TRANSPORT_HOME) != 0;
	struct child_spec child = {
		.in = s->child[0], .out = s->child[1], .err = s->child[2]
	};
	struct argv *argv = malloc(sizeof(*argv));
	int rc;

	if (argv == NULL) {
		return -1;
	}
	build_argv(argv, spec, terms);
	child.argv = argv_words(argv);
	if (child.argv == NULL) {
		free(argv);
		errno = E2BIG;
		return -1;
	}
	child.path = child.argv[0][0] == '/' ? child.argv[0] :
	    place->facts.program;
	child.env = home ? place->env : place->child_env;
	child.cwd = home ? transport_getenv(place->env, "HOME") : NULL;
	rc = child_spawn(&carrier->child, &child);
	free(argv);
	return rc;
}

int
carrier_start(struct carrier *carrier, const struct carrier_spec *spec,
    struct error *error)
{
	struct stdio s = { { -1, -1, -1 }, -1, -1, -1 };
	struct link_config config = {
		.session = spec->session, .secret = spec->secret,
		.in = -1, .out = -1,
		.ping_ms = spec->ping_ms, .dead_ms = spec->dead_ms,
		.linger_ms = spec->linger_ms,
		.hands_over = spec->hands_over
	};

	carrier_clear(carrier);
	strcpy(config.terms.session, spec->id);
	snprintf(config.terms.versions, sizeof(config.terms.versions),
	    "%04x-%04x", WIRE_VERSION_MIN, WIRE_VERSION_MAX);
	config.terms.number = spec->number;
	if (link_prepare(&config) < 0 || stdio_open(&s,
	    (spec->transport->traits & TRANSPORT_PTY) != 0) < 0 ||
	    spawn(carrier, spec, &config.terms, &s) < 0) {
		goto fail;
	}
	/* An agent that does not read must not stop our loop. */
	if (system_nonblock(s.in, 1) < 0 || system_nonblock(s.out, 1) < 0) {
		goto fail;
	}
	config.in = s.in;
	config.out = s.out;
	s.in = s.out = -1;
	carrier->link = link_new_host(&config);
	config.seal = NULL;
	if (carrier->link == NULL) {
		goto fail;
	}
	carrier->err = s.err;
	s.err = -1;
	system_nonblock(carrier->err, 1);
	carrier->session = spec->hands_over ? NULL : spec->session;
	carrier->login = (spec->transport->traits & TRANSPORT_LOGIN) != 0;
	carrier->started = clock_now();
	carrier->deadline = carrier->started +
	    (spec->hello_ms != 0 ? spec->hello_ms : LINK_HELLO_MS) *
	    (uint64_t)CLOCK_MS;
	carrier->state = CARRIER_STARTING;
	stdio_close(&s);
	return 0;
fail:
	error_set(error, WIRE_STEP_START, errno, "the transport's process");
	seal_free(config.seal);
	stdio_close(&s);
	child_drop(&carrier->child);
	carrier_clear(carrier);
	return -1;
}

void
carrier_interest(struct carrier *carrier, struct pollset *set)
{
	carrier->slot = pollset_add(set, carrier->err, POLLIN);
	if (carrier->link != NULL) {
		link_interest(carrier->link, set);
	}
	if (carrier->state == CARRIER_STARTING) {
		pollset_wake(set, carrier->deadline);
	}
	pollset_wake(set, carrier->end_by);
}

/* Always read, so that the child never waits for us; the end is kept. */
static void
drain(struct carrier *carrier)
{
	uint8_t data[4096];
	size_t keep, len;
	ssize_t n;

	if (carrier->err < 0) {
		return;
	}
	n = read(carrier->err, data, sizeof(data));
	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			close(carrier->err);
			carrier->err = -1;
		}
		return;
	}
	len = (size_t)n < CARRIER_TAIL ? (size_t)n : CARRIER_TAIL;
	keep = CARRIER_TAIL - len < carrier->tail_len ? CARRIER_TAIL - len :
	    carrier->tail_len;
	memmove(carrier->tail, carrier->tail + carrier->tail_len - keep,
	    keep);
	memcpy(carrier->tail + keep, data + n - len, len);
	carrier->tail_len = keep + len;
}

/* What came before the hello, for messages and doctor. */
static void
remember_noise(struct carrier *carrier)
{
	const uint8_t *head, *tail;

	carrier->noise = link_noise(carrier->link, &head, &carrier->head_len,
	    &tail, &carrier->noise_tail_len);
	memcpy(carrier->noise_head, head, carrier->head_len);
	memcpy(carrier->noise_tail, tail, carrier->noise_tail_len);
}

/* What messages need of a link that goes. */
static void
remember(struct carrier *carrier)
{
	const char *versions;

	carrier->error = *link_error(carrier->link);
	remember_noise(carrier);
	versions = link_wrong_version(carrier->link);
	if (versions != NULL) {
		carrier->wrong_version = true;
		snprintf(carrier->versions, sizeof(carrier->versions), "%s",
		    versions);
	}
}

/* The link is over; the child has until then to end by itself. */
static void
end(struct carrier *carrier, uint64_t grace)
{
	bool before_ready = carrier->state == CARRIER_STARTING;

	remember(carrier);
	if (carrier->error.text[0] == '\0') {
		error_set(&carrier->error, WIRE_STEP_LINK, 0, "%s",
		    carrier->closing ? "closed" : carrier->timed_out ?
		    "no answer in time" : "the transport ended");
	}
	if (carrier->session != NULL) {
		session_detach(carrier->session);
	}
	link_free(carrier->link);
	carrier->link = NULL;
	carrier->state = CARRIER_ENDED;
	carrier->end_by = CLOCK_NEVER;
	if (carrier->child.exited) {
		return;
	}
	/* An orderly end and an early exit have a status worth a wait. */
	if (grace > 0 && (before_ready || carrier->closing) &&
	    !carrier->timed_out) {
		carrier->end_by = clock_now() + grace;
	} else {
		child_kill(&carrier->child, SIGKILL);
	}
}

static void
run_link(struct carrier *carrier, const struct pollset *set, uint64_t now)
{
	enum link_state state;

	link_run(carrier->link, set);
	state = link_state(carrier->link);
	if (carrier->state == CARRIER_STARTING && (carrier->session == NULL ?
	    state == LINK_TERMINAL :
	    state == LINK_RESUME_WAIT || state == LINK_UP)) {
		carrier->state = CARRIER_UP;
		carrier->up_at = now;
		carrier->ready = *link_ready(carrier->link);
		remember_noise(carrier);
	}
	if (state == LINK_CLOSED || state == LINK_FAILED) {
		end(carrier, STATUS_GRACE);
	} else if (carrier->state == CARRIER_STARTING &&
	    now >= carrier->deadline) {
		carrier->timed_out = true;
		end(carrier, 0);
	} else if (now >= carrier->end_by) {
		end(carrier, 0);
	} else if (carrier->child.exited &&
	    carrier->end_by > now + DRAIN_GRACE) {
		carrier->end_by = now + DRAIN_GRACE;
	}
}

void
carrier_run(struct carrier *carrier, const struct pollset *set)
{
	uint64_t now = clock_now();

	if (carrier->state == CARRIER_NONE) {
		return;
	}
	if (pollset_ready(set, carrier->slot) != 0 || carrier->child.exited) {
		drain(carrier);
	}
	if (carrier->link != NULL) {
		run_link(carrier, set, now);
	} else if (carrier->state == CARRIER_UP && carrier->child.exited) {
		carrier->state = CARRIER_ENDED;
	}
	if (carrier->state != CARRIER_ENDED) {
		return;
	}
	if (carrier->child.exited) {
		drain(carrier);
		if (carrier->err >= 0) {
			close(carrier->err);
			carrier->err = -1;
		}
		carrier->end_by = CLOCK_NEVER;
		carrier->state = CARRIER_NONE;
	} else if (now >= carrier->end_by) {
		child_kill(&carrier->child, SIGKILL);
		carrier->end_by = CLOCK_NEVER;
	}
}

void
carrier_flush(struct carrier *carrier)
{
	if (carrier->link != NULL && carrier->state == CARRIER_UP) {
		link_flush(carrier->link);
	}
}

void
carrier_close(struct carrier *carrier, uint64_t deadline)
{
	if (carrier->state != CARRIER_UP) {
		carrier_kill(carrier);
		return;
	}
	carrier->closing = true;
	link_close(carrier->link, true, 0);
	link_flush(carrier->link);
	carrier->end_by = deadline;
}

void
carrier_park(struct carrier *carrier, uint32_t park_s, uint64_t deadline)
{
	carrier->closing = true;
	link_close(carrier->link, false, park_s);
	link_flush(carrier->link);
	carrier->end_by = deadline;
}

bool
carrier_has_session(const struct carrier *carrier)
{
	return carrier->state == CARRIER_UP && carrier->link != NULL &&
	    link_state(carrier->link) == LINK_UP;
}

bool
carrier_no_session(const struct carrier *carrier)
{
	const struct child *child = &carrier->child;

	return carrier->up_at == 0 && child->exited &&
	    WIFEXITED(child->status) &&
	    WEXITSTATUS(child->status) == LINK_NO_SESSION;
}

void
carrier_take_terminal(struct carrier *carrier, int *in, int *out)
{
	link_take_terminal(carrier->link, in, out);
	link_free(carrier->link);
	carrier->link = NULL;
}

void
carrier_kill(struct carrier *carrier)
{
	if (carrier->link != NULL) {
		end(carrier, 0);
	}
	child_kill(&carrier->child, SIGKILL);
}

bool
carrier_may_inject(const struct carrier *carrier)
{
	return carrier->up_at == 0 && !carrier->timed_out;
}
