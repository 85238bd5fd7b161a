/* SPDX-License-Identifier: MIT */
/* peer.c - one client's connection: greeting, requests, its end. */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "handover.h"
#include "log.h"
#include "record.h"
#include "relay.h"
#include "system.h"
#include "version.h"

/* One hash over each part's hash, so that no two lists look alike. */
static void
chain(uint8_t sum[SEAL_KEY], const char *part)
{
	uint8_t both[2 * SEAL_KEY];

	memcpy(both, sum, SEAL_KEY);
	seal_hash(part, strlen(part), both + SEAL_KEY);
	seal_hash(both, sizeof(both), sum);
}

/* The name and all that reaches it, PATH as it is: resolved only later. */
static void
make_alias(struct peer *peer)
{
	char *const *env;
	char made[48];

	memset(peer->alias, 0, SEAL_KEY);
	chain(peer->alias, peer->target.scheme);
	chain(peer->alias, peer->target.name);
	if (peer->sandbox != NULL) {
		/* Another one of this name has another time. */
		snprintf(made, sizeof(made), "sandbox %llu",
		    (unsigned long long)peer->sandbox->created);
		chain(peer->alias, made);
	}
	for (env = peer->env->child; *env != NULL; env++) {
		chain(peer->alias, *env);
	}
}

/* A bare name: what its record says stands for it from here on. */
static int
take_sandbox(struct peer *peer)
{
	const char *xdg = transport_getenv(peer->env->all, "XDG_STATE_HOME");
	const char *home = transport_getenv(peer->env->all, "HOME");
	struct target *target = &peer->target;
	struct record_store store;
	struct sandbox *s;

	if (xdg == NULL && home == NULL) {
		/* No look-up of a user here, which may ask the network. */
		error_set(&peer->error, WIRE_STEP_TARGET, 0, "%s: the client "
		    "names neither XDG_STATE_HOME nor HOME, where its record "
		    "would be", target->name);
		return -1;
	}
	if (record_open(&store, xdg, home, &peer->error) < 0) {
		return -1;
	}
	s = record_get(&store, target->name, &peer->error);
	if (s == NULL) {
		if (peer->error.number == ENOENT) {
			error_set(&peer->error, WIRE_STEP_TARGET, 0, "%s: "
			    "there is no sandbox of this name; `sandmux ls` "
			    "lists those that `sandmux up` made",
			    target->name);
		}
		return -1;
	}
	peer->sandbox = s;
	/* Also for STOP of one that is being removed. */
	snprintf(target->scheme, sizeof(target->scheme), "%s", s->transport);
	if (s->state == SANDBOX_REMOVING) {
		error_set(&peer->error, WIRE_STEP_TARGET, 0, "%s is "
		    "being removed", target->name);
		return -1;
	}
	peer->transport = transport_find(s->transport);
	return env_replace(&peer->env, peer->transport->life->select,
	    items_list(&s->select), &peer->error);
}

void
peer_take_target(struct peer *peer, struct wire_bytes text)
{
	char word[TARGET_TEXT_MAX];

	if (text.len == 0) {
		error_set(&peer->error, WIRE_STEP_USAGE, 0, "this request "
		    "needs a target");
		return;
	}
	peer->aimed = true;
	if (text.len >= sizeof(word) ||
	    memchr(text.at, '\0', text.len) != NULL) {
		error_set(&peer->error, WIRE_STEP_TARGET, 0, "a name of %u "
		    "bytes, or with a NUL", (unsigned)text.len);
		return;
	}
	memcpy(word, text.at, text.len);
	word[text.len] = '\0';
	if (target_parse(word, &peer->target, &peer->error) < 0) {
		return;
	}
	if (peer->target.scheme[0] == '\0') {
		if (take_sandbox(peer) < 0) {
			peer->transport = NULL;
		}
		return;
	}
	peer->transport = transport_find(peer->target.scheme);
	if (peer->transport == NULL) {
		error_set(&peer->error, WIRE_STEP_TARGET, 0, "%s: this "
		    "controller knows no such scheme", word);
	}
}

/* ---- making way ------------------------------------------------------------ */

static void
hand_over(struct peer *peer, uint32_t busy)
{
	struct wire welcome = { .type = WIRE_WELCOME, .u.welcome = {
		.version = peer->version, .pid = (uint32_t)getpid(),
		.busy = busy, .program = wire_string(SANDMUX_VERSION)
	} };
	struct hub *hub = peer->hub;
	bool ours = hub->successor == peer;
	struct error error;

	peer->closing = true;
	hub->successor = ours ? NULL : hub->successor;
	if (plain_greet(peer->plain, &welcome) < 0 || busy > 0 ||
	    hub->stopping || !ours) {
		return;
	}
	plain_flush(peer->plain);
	if (handover_give(hub, hub->listener, peer->fd, &error) < 0) {
		log_write(LOG_WARNING, "client %ld: %s: %s", (long)peer->pid,
		    error.text, strerror(error.number));
		return;
	}
	hub->handed_over = true;
	hub_stop(hub, "a newer program has taken over");
}

/*
 * Somebody may be about to ask: a client that has just come, or had an
 * answer, since copies ask twice.  One of another program will not: it waits
 * for this very handover.
 */
static bool
between(const struct hub *hub)
{
	const struct list *l;

	for (l = hub->peers.next; l != &hub->peers; l = l->next) {
		const struct peer *peer = LIST_OF(l, const struct peer, link);

		if (peer != hub->successor && !peer->closing &&
		    (!peer->greeted || peer->same_program)) {
			return true;
		}
	}
	return false;
}

void
peer_make_way(struct hub *hub)
{
	struct peer *peer = hub->successor;
	uint64_t now = clock_now();
	bool late = now >= hub->make_way_by;

	if (peer == NULL) {
		return;
	}
	if (hub->clients.requests > 0 || handover_unsettled(hub) > 0) {
		hub->quiet_since = 0;
	} else if (hub->quiet_since == 0) {
		hub->quiet_since = now;
	}
	if (hub->stopping || late || (hub->quiet_since != 0 &&
	    (!between(hub) || now - hub->quiet_since >= HANDOVER_QUIET_MS *
	    (uint64_t)CLOCK_MS))) {
		hand_over(peer, hub->stopping ? 0 : hub->clients.requests +
		    handover_held(hub));
	}
}

/* No new clients from here on; they wait for whoever is here then. */
static void
want_place(struct peer *peer)
{
	struct hub *hub = peer->hub;

	if (hub->stopping || hub->successor != NULL) {
		/* It gets nothing, and looks who is here then. */
		hand_over(peer, 0);
		return;
	}
	hub->successor = peer;
	hub->quiet_since = 0;
	hub->make_way_by = clock_now() +
	    HANDOVER_DRAIN_MS * (uint64_t)CLOCK_MS;
}

static void
welcome(struct peer *peer, const struct wire_hello *hello)
{
	struct wire msg = { .type = WIRE_WELCOME, .u.welcome = {
		.pid = (uint32_t)getpid(), .busy = hub_busy(peer->hub),
		.program = wire_string(SANDMUX_VERSION)
	} };

	if (hello->min <= WIRE_VERSION_MAX && hello->max >=
	    WIRE_VERSION_MIN) {
		msg.u.welcome.version = hello->max < WIRE_VERSION_MAX ?
		    hello->max : WIRE_VERSION_MAX;
		peer->version = msg.u.welcome.version;
	} else {
		peer->closing = true;
	}
	if ((hello->flags & WIRE_HELLO_HAND_OVER) != 0 && !peer->closing) {
		want_place(peer);
		return;
	}
	if ((hello->flags & WIRE_HELLO_STOP_IF_IDLE) != 0) {
		peer->closing = true;
		if (msg.u.welcome.busy == 0) {
			hub_stop(peer->hub, "a newer program takes over");
		}
	}
	if (plain_greet(peer->plain, &msg) < 0) {
		peer->closing = true;
	}
}

static int
greeting(void *ctx, const struct wire *message, struct error *error)
{
	const struct wire_hello *hello = &message->u.hello;
	struct peer *peer = ctx;

	if (message->type != WIRE_HELLO) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "no HELLO");
		return -1;
	}
	peer->env = env_new(hello->env, error);
	if (peer->env == NULL) {
		return -1;
	}
	peer->greeted = true;
	peer->same_program = hello->program.len == strlen(SANDMUX_VERSION) &&
	    memcmp(hello->program.at, SANDMUX_VERSION,
	    hello->program.len) == 0;
	peer->strict = (hello->flags & WIRE_HELLO_SAME_AGENT) != 0;
	peer_take_target(peer, hello->target);
	make_alias(peer);
	welcome(peer, hello);
	return 0;
}

/* Takes over fd on every outcome. */
static struct peer *
peer_new(struct hub *hub, int fd)
{
	struct peer *peer = calloc(1, sizeof(*peer));
	struct session_config session = {
		.events = &relay_client_events, .ctx = peer,
		.budget = &hub->clients, .server = true
	};
	struct plain_config plain = {
		.fd = fd, .greeting = greeting, .ctx = peer
	};

	if (peer == NULL) {
		close(fd);
		return NULL;
	}
	list_init(&peer->link);
	peer->hub = hub;
	peer->session = session_new(&session);
	if (peer->session == NULL) {
		close(fd);
		free(peer);
		return NULL;
	}
	plain.session = peer->session;
	peer->plain = plain_new(&plain);
	if (peer->plain == NULL) {
		session_free(peer->session);
		free(peer);
		return NULL;
	}
	return peer;
}

void
peer_accept(struct hub *hub, int fd)
{
	struct peer *peer;
	uid_t uid;
	pid_t pid;

	if (system_peer(fd, &uid, &pid) < 0 || uid != geteuid()) {
		log_write(LOG_WARNING, "a client of another user was refused");
		close(fd);
		return;
	}
	if (hub->peer_count >= HUB_PEERS + HUB_PEERS_REFUSED) {
		log_write(LOG_WARNING, "client %ld: %u are connected already",
		    (long)pid, hub->peer_count);
		close(fd);
		return;
	}
	peer = peer_new(hub, fd);
	if (peer == NULL) {
		log_write(LOG_ERROR, "client %ld: no memory", (long)pid);
		return;
	}
	peer->pid = pid;
	peer->fd = fd;
	peer->refused = hub->peer_count >= HUB_PEERS;
	peer->hello_by = clock_now() + PEER_HELLO_MS * (uint64_t)CLOCK_MS;
	list_append(&hub->peers, &peer->link);
	hub->peer_count++;
}

void
peer_interest(struct peer *peer, struct pollset *set)
{
	plain_interest(peer->plain, set);
	if (!peer->greeted) {
		pollset_wake(set, peer->hello_by);
	}
}

void
peer_run(struct peer *peer, const struct pollset *set)
{
	plain_run(peer->plain, set);
}

bool
peer_trim(struct peer *peer)
{
	struct session_figures figures;

	session_figures(peer->session, &figures);
	if (figures.sent + figures.received != peer->moved) {
		peer->moved = figures.sent + figures.received;
		peer->dirty = true;
	} else if (peer->dirty) {
		peer->dirty = false;
		session_trim(peer->session);
		plain_trim(peer->plain);
	}
	return peer->dirty;
}

bool
peer_over(const struct peer *peer)
{
	return plain_error(peer->plain) != NULL ||
	    (peer->closing && plain_drained(peer->plain)) ||
	    (!peer->greeted && clock_now() >= peer->hello_by);
}

static void
orphan(void *ctx, struct session_request *req)
{
	(void)ctx;
	if (req->app != NULL) {
		relay_free(req->app);
	}
}

void
peer_free(struct peer *peer)
{
	const struct error *error = plain_error(peer->plain);

	if (error != NULL && error->step != WIRE_STEP_LINK) {
		log_write(LOG_WARNING, "client %ld: %s", (long)peer->pid,
		    error->text);
	}
	session_each(peer->session, orphan, NULL);
	session_free(peer->session);
	plain_free(peer->plain);
	env_release(peer->env);
	sandbox_release(peer->sandbox);
	if (peer->hub->successor == peer) {
		peer->hub->successor = NULL;
	}
	list_remove(&peer->link);
	peer->hub->peer_count--;
	free(peer);
}
