/* SPDX-License-Identifier: MIT */
/* client.c - from a command to a WELCOME: connecting, HELLO, the session. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "handover.h"
#include "interrupt.h"
#include "items.h"
#include "launch.h"
#include "paths.h"
#include "plain.h"
#include "quote.h"
#include "version.h"

#define CLIENT_REQUESTS 8u		/* at once, of one client */
#define CLIENT_PATIENCE_MS 10000u	/* with one that comes and goes */
#define CLIENT_PAUSE_MS 50

extern char **environ;

struct client {
	struct client_config config;
	struct session_budget budget;
	struct session *session;	/* owned */
	struct plain *plain;		/* owned */
	struct client_peer peer;
	bool welcome;			/* WELCOME is here */
	struct error error;
};

/* What selects a target, and what its transport's program needs. */
static const char *const names[] = {
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM",
	"KUBECONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
	"XDG_STATE_HOME", "SSH_AUTH_SOCK", "CONTAINER_HOST",
	"CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "SANDMUX_AGENT_USER"
};
static const char *const prefixes[] = {
	"DOCKER_", "CONTAINERS_", "OPENSHELL_"
};

static bool
wanted(const char *entry)
{
	size_t i, len;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		len = strlen(names[i]);
		if (strncmp(entry, names[i], len) == 0 && entry[len] == '=') {
			return true;
		}
	}
	for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0 &&
		    strchr(entry, '=') != NULL) {
			return true;
		}
	}
	return false;
}

static int
greeting(void *ctx, const struct wire *message, struct error *error)
{
	struct client *c = ctx;
	const struct wire_welcome *welcome = &message->u.welcome;

	if (message->type != WIRE_WELCOME) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "the controller did "
		    "not begin with WELCOME");
		return -1;
	}
	c->peer.version = welcome->version;
	c->peer.pid = welcome->pid;
	c->peer.busy = welcome->busy;
	quote_bytes(c->peer.program, sizeof(c->peer.program),
	    welcome->program.at, welcome->program.len);
	c->welcome = true;
	return 0;
}

static int
say_hello(struct client *c, uint32_t flags, struct error *error)
{
	struct items env = { 0 };
	char **entry;
	int rc;
	struct wire hello = { .type = WIRE_HELLO, .u.hello = {
		.min = WIRE_VERSION_MIN, .max = WIRE_VERSION_MAX,
		.flags = flags, .program = wire_string(SANDMUX_VERSION),
		.target = wire_string(c->config.target)
	} };

	for (entry = environ; *entry != NULL; entry++) {
		if (wanted(*entry)) {
			items_text(&env, *entry);
		}
	}
	hello.u.hello.env = items_list(&env);
	rc = env.failed ? -1 : plain_greet(c->plain, &hello);
	if (rc < 0) {
		error_set(error, WIRE_STEP_USAGE, 0, "PATH and the other "
		    "variables that reach a target are longer than %u bytes "
		    "in all", WIRE_INFO_MAX);
	}
	items_free(&env);
	return rc;
}

/* Turn the loop until WELCOME, an end or the deadline; 0, or -1. */
static int
wait_welcome(struct client *c, struct error *error)
{
	uint64_t deadline = clock_now() +
	    CLIENT_WELCOME_MS * (uint64_t)CLOCK_MS;
	struct pollset set = { 0 };
	int rc = 0;

	while (!c->welcome && plain_error(c->plain) == NULL) {
		if (clock_now() >= deadline) {
			error_set(error, WIRE_STEP_START, 0, "the controller "
			    "does not answer; is it stopped?  Its log is "
			    "beside its socket");
			rc = -1;
			break;
		}
		pollset_clear(&set);
		pollset_wake(&set, deadline);
		plain_interest(c->plain, &set);
		if (pollset_wait(&set) < 0) {
			error_set(error, WIRE_STEP_START, errno, "poll");
			rc = -1;
			break;
		}
		plain_run(c->plain, &set);
	}
	if (rc == 0 && !c->welcome) {
		*error = *plain_error(c->plain);
		rc = -1;
	}
	pollset_free(&set);
	return rc;
}

/* A connection over fd, which is taken in any case. */
static struct client *
greet(const struct client_config *config, int fd, uint32_t flags,
    struct error *error)
{
	struct client *c = calloc(1, sizeof(*c));
	struct session_config session = { .events = config->events };
	struct plain_config plain = { .fd = fd, .greeting = greeting };

	if (c == NULL || session_budget_init(&c->budget,
	    CLIENT_REQUESTS) < 0) {
		close(fd);
		goto fail;
	}
	c->config = *config;
	session.ctx = config->ctx;
	session.budget = &c->budget;
	c->session = session_new(&session);
	if (c->session == NULL) {
		close(fd);
		goto fail;
	}
	plain.session = c->session;
	plain.ctx = c;
	c->plain = plain_new(&plain);
	if (c->plain == NULL) {
		goto fail;
	}
	if (say_hello(c, flags, error) < 0 || wait_welcome(c, error) < 0) {
		client_close(c);
		return NULL;
	}
	return c;
fail:
	error_set(error, WIRE_STEP_START, errno, "the connection to the "
	    "controller");
	client_close(c);
	return NULL;
}

static void
pause_ms(unsigned ms)
{
	struct timespec ts = { .tv_nsec = (long)ms * 1000000 };

	nanosleep(&ts, NULL);
}

/* ---- replacing a controller of another version ----------------------- */

static bool
same_program(const struct client *c)
{
	return c->peer.version != 0 &&
	    strcmp(c->peer.program, SANDMUX_VERSION) == 0;
}

/* Another version is there, and does not make way for the reason given. */
static void
mismatch(const struct client *c, const char *more, struct error *error)
{
	error_set(error, WIRE_STEP_START, 0, "the controller (pid %u) is "
	    "version %s, this is %s, and %s or run `sandmux stop`",
	    (unsigned)c->peer.pid, c->peer.program, SANDMUX_VERSION, more);
}

/*
 * One try to get a greeted connection.  NULL with *error; its step is NONE
 * if there is nobody, or one who is about to go, and another try may help.
 */
static struct client *
attempt(const struct client_config *config, const char *dir,
    struct error *error)
{
	uint32_t flags = (config->flags & CLIENT_SAME_AGENT) != 0 ?
	    WIRE_HELLO_SAME_AGENT : 0;
	int fd = launch_connect(dir, error);
	struct client *c = fd < 0 ? NULL : greet(config, fd, flags, error);
	struct error why;

	if (c == NULL) {
		/* One that ends at this very moment closes on us. */
		if (fd >= 0 && error->step == WIRE_STEP_LINK) {
			error_set(error, WIRE_STEP_NONE, 0, "the controller "
			    "in %s hangs up; see its log there", dir);
		}
		return NULL;
	}
	if (same_program(c) || (config->flags & CLIENT_ANY_PROGRAM) != 0) {
		return c;
	}
	/* Ours takes its place, with all that nobody waits for there. */
	if (launch_start(dir, (pid_t)c->peer.pid, &why) < 0 &&
	    strstr(why.text, HANDOVER_BUSY) != NULL) {
		mismatch(c, why.text, error);
	} else {
		mismatch(c, "it does not make way", error);
		error->step = WIRE_STEP_NONE;
	}
	client_close(c);
	return NULL;
}

struct client *
client_open(const struct client_config *config, struct error *error)
{
	uint64_t deadline = 0;
	char dir[PATHS_MAX];
	struct client *c;

	interrupt_guard();
	if (paths_runtime(dir, sizeof(dir), error) < 0) {
		return NULL;
	}
	for (;;) {
		c = attempt(config, dir, error);
		if (c != NULL || error->step != WIRE_STEP_NONE ||
		    (config->flags & CLIENT_START) == 0) {
			return c;
		}
		if (deadline == 0) {
			deadline = clock_now() +
			    CLIENT_PATIENCE_MS * (uint64_t)CLOCK_MS;
		} else if (clock_now() >= deadline) {
			error->step = WIRE_STEP_START;
			return NULL;
		} else {
			pause_ms(CLIENT_PAUSE_MS);
		}
		if (launch_start(dir, 0, error) < 0) {
			return NULL;
		}
	}
}

void
client_close(struct client *c)
{
	int saved = errno;

	if (c == NULL) {
		return;
	}
	plain_free(c->plain);
	session_free(c->session);
	session_budget_free(&c->budget);
	free(c);
	errno = saved;
}

const struct client_peer *
client_peer(const struct client *c)
{
	return &c->peer;
}

struct session_request *
client_request(struct client *c, const struct wire *msg, struct error *error)
{
	struct session_request *req;
	uint8_t *body;
	uint32_t len;

	if (items_encode(msg, &body, &len) < 0) {
		error_set(error, WIRE_STEP_USAGE, errno, "the request");
		return NULL;
	}
	req = session_open(c->session, msg->type, body, len, NULL);
	if (req == NULL) {
		error_set(error, WIRE_STEP_USAGE, errno, "the request");
		free(body);
	}
	return req;
}

void
client_interest(struct client *c, struct pollset *set)
{
	plain_interest(c->plain, set);
}

void
client_run(struct client *c, const struct pollset *set)
{
	plain_run(c->plain, set);
}

const struct error *
client_error(const struct client *c)
{
	return plain_error(c->plain);
}
