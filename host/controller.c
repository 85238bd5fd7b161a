/* SPDX-License-Identifier: MIT */
/* controller.c - the daemon's start, its loop and its end. */
#include "controller.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "clock.h"
#include "daemon.h"
#include "found.h"
#include "handover.h"
#include "hub.h"
#include "listener.h"
#include "log.h"
#include "peer.h"
#include "seal.h"
#include "system.h"
#include "target_link.h"
#include "trust.h"
#include "version.h"

#define CHECK_SOCKET (5000u * CLOCK_MS)	/* is our name still there? */
#define STOP_MS (5000u * CLOCK_MS)	/* for all links to end */
#define ANSWER_MS (1000u * CLOCK_MS)	/* to write the last answers */
#define TRIM (250u * CLOCK_MS)		/* quiet clients give memory back */
#define ACCEPTS 16			/* in one turn */
#define REST (100u * CLOCK_MS)		/* from accepting without files */

/* The daemon; everything that lives as long as it does. */
struct controller {
	struct hub hub;
	struct listener listener;
	struct pollset set;
	size_t listen_slot, signal_slot;
	uint64_t check_at, accept_at, trim_at, idle_since;
	uint64_t stop_by, answer_by;
	bool trim_due;
	bool again;			/* state changed after its turn */
};

/* ---- the hub ---------------------------------------------------------- */

unsigned
hub_busy(const struct hub *hub)
{
	unsigned busy = hub->clients.requests;
	const struct list *l;

	for (l = hub->links.next; l != &hub->links; l = l->next) {
		busy += target_link_left(LIST_OF((struct list *)(uintptr_t)l,
		    struct target_link, link));
	}
	return busy;
}

void
hub_stop(struct hub *hub, const char *why)
{
	struct error error;
	struct list *l, *next;

	if (hub->stopping) {
		return;
	}
	hub->stopping = true;
	log_write(LOG_NOTE, "ending: %s", why);
	error_set(&error, WIRE_STEP_SHUTDOWN, 0, "%s", why);
	for (l = hub->links.next; l != &hub->links; l = next) {
		next = l->next;
		target_link_close(LIST_OF(l, struct target_link, link),
		    &error);
	}
}

/* ---- a turn ----------------------------------------------------------- */

static void
interest(struct controller *c, uint64_t now)
{
	struct hub *hub = &c->hub;
	struct list *l;

	pollset_clear(&c->set);
	/* Before the clients say what they have to send. */
	pollset_wake(&c->set, session_budget_check(&hub->clients, now));
	c->signal_slot = pollset_add(&c->set, daemon_signal_fd(),
	    POLLIN);
	c->listen_slot = POLLSET_NONE;
	if (hub->successor != NULL) {
		pollset_wake(&c->set, hub->make_way_by);
		if (hub->quiet_since != 0) {
			pollset_wake(&c->set, hub->quiet_since +
			    HANDOVER_QUIET_MS * (uint64_t)CLOCK_MS);
		}
	} else if (hub->handed_over) {
		/* Who comes now is the other one's. */
		c->listen_slot = POLLSET_NONE;
	} else if (now >= c->accept_at) {
		c->listen_slot = pollset_add(&c->set, c->listener.fd, POLLIN);
	} else {
		pollset_wake(&c->set, c->accept_at);
	}
	for (l = hub->peers.next; l != &hub->peers; l = l->next) {
		peer_interest(LIST_OF(l, struct peer, link), &c->set);
	}
	for (l = hub->links.next; l != &hub->links; l = l->next) {
		target_link_interest(LIST_OF(l, struct target_link, link),
		    &c->set);
	}
	pollset_wake(&c->set, c->check_at);
	pollset_wake(&c->set, c->trim_at);
	if (c->idle_since != 0 && hub->options->idle_exit_ms != 0) {
		pollset_wake(&c->set, c->idle_since +
		    hub->options->idle_exit_ms * CLOCK_MS);
	}
	if (hub->stopping) {
		pollset_wake(&c->set, now + 20 * CLOCK_MS);
	}
	if (c->again) {
		pollset_wake(&c->set, now);
	}
}

static void
take_signals(struct controller *c)
{
	if (pollset_ready(&c->set, c->signal_slot) != 0 &&
	    daemon_take_signals()) {
		child_reap();
	}
	if (daemon_stop_signal() != 0) {
		hub_stop(&c->hub, "a signal");
	}
}

static void
take_clients(struct controller *c)
{
	int i, fd;

	if (pollset_ready(&c->set, c->listen_slot) == 0) {
		return;
	}
	for (i = 0; i < ACCEPTS; i++) {
		fd = system_accept(c->listener.fd);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE ||
			    errno == ENOMEM) {
				log_write(LOG_ERROR, "cannot take a client: "
				    "%s", strerror(errno));
				c->accept_at = clock_now() + REST;
			}
			return;
		}
		peer_accept(&c->hub, fd);
	}
}

static void
flush_peers(struct hub *hub)
{
	struct list *l;

	for (l = hub->peers.next; l != &hub->peers; l = l->next) {
		plain_flush(LIST_OF(l, struct peer, link)->plain);
	}
}

/*
 * Clients first, so that what they ask leaves in this turn; then the links,
 * and what they brought goes to the clients; then the credit this freed.
 */
static void
work(struct controller *c)
{
	struct hub *hub = &c->hub;
	struct list *l, *next;

	for (l = hub->peers.next; l != &hub->peers; l = l->next) {
		peer_run(LIST_OF(l, struct peer, link), &c->set);
	}
	for (l = hub->links.next; l != &hub->links; l = next) {
		next = l->next;
		target_link_run(LIST_OF(l, struct target_link, link),
		    &c->set);
	}
	flush_peers(hub);
	if (relay_settle(hub)) {
		flush_peers(hub);
	}
	for (l = hub->links.next; l != &hub->links; l = l->next) {
		carrier_flush(&LIST_OF(l, struct target_link, link)->carrier);
	}
}

/* Free what is over, once no loop stands on it. */
static void
sweep(struct controller *c)
{
	struct hub *hub = &c->hub;
	struct list *l, *next;

	c->again = false;
	for (l = hub->peers.next; l != &hub->peers; l = next) {
		struct peer *peer = LIST_OF(l, struct peer, link);

		next = l->next;
		if (peer_over(peer)) {
			peer_free(peer);
			c->again = true;
		}
	}
	for (l = hub->links.next; l != &hub->links; l = next) {
		struct target_link *link = LIST_OF(l, struct target_link,
		    link);

		next = l->next;
		if (link->state == TARGET_LINK_GONE) {
			target_link_free(link);
			c->again = true;
		}
	}
	if (hub->sessions_changed) {
		hub->sessions_changed = false;
		found_write(hub);
	}
}

static bool
unwritten(const struct hub *hub)
{
	const struct list *l;

	for (l = hub->peers.next; l != &hub->peers; l = l->next) {
		const struct peer *peer = LIST_OF(l, const struct peer, link);

		if (!plain_drained(peer->plain) ||
		    session_count(peer->session) > 0) {
			return true;
		}
	}
	return false;
}

/* Stopping: all links gone, then STOP is answered, then we end. */
static bool
finished(struct controller *c, uint64_t now)
{
	struct hub *hub = &c->hub;

	if (!hub->stopping) {
		return false;
	}
	if (c->stop_by == 0) {
		c->stop_by = now + STOP_MS;
	}
	if (!list_empty(&hub->links) && now < c->stop_by) {
		return false;
	}
	while (!list_empty(&hub->stops)) {
		relay_finish(LIST_OF(hub->stops.next, struct relay, link));
	}
	if (c->answer_by == 0) {
		c->answer_by = now + ANSWER_MS;
	}
	flush_peers(hub);
	return !unwritten(hub) || now >= c->answer_by;
}

/* Many quiet clients must not hold what each used at its busiest. */
static void
trim(struct controller *c, uint64_t now)
{
	struct hub *hub = &c->hub;
	bool again = false;
	struct list *l;

	if (c->trim_at != CLOCK_NEVER && now < c->trim_at) {
		return;
	}
	for (l = hub->peers.next; l != &hub->peers; l = l->next) {
		again |= peer_trim(LIST_OF(l, struct peer, link));
	}
	for (l = hub->links.next; l != &hub->links; l = l->next) {
		again |= target_link_trim(LIST_OF(l, struct target_link,
		    link));
	}
	if (again) {
		c->trim_due = true;
	} else if (c->trim_due) {
		c->trim_due = false;
		pool_trim(&hub->clients.chunks);
	}
	c->trim_at = again ? now + TRIM : CLOCK_NEVER;
}

/* Our own end for want of work, or because our name leads elsewhere. */
static void
look_around(struct controller *c, uint64_t now)
{
	struct hub *hub = &c->hub;
	uint64_t idle = hub->options->idle_exit_ms * CLOCK_MS;

	if (now >= c->check_at) {
		c->check_at = now + CHECK_SOCKET;
		if (!listener_there(&c->listener)) {
			hub_stop(hub, "the socket was removed");
		}
	}
	if (hub->peer_count > 0 || hub->link_count > 0) {
		c->idle_since = 0;
	} else if (c->idle_since == 0) {
		c->idle_since = now;
	} else if (idle != 0 && now - c->idle_since >= idle) {
		hub_stop(hub, "nothing to do");
	}
}

static int
loop(struct controller *c)
{
	uint64_t now = clock_now();

	while (!finished(c, now)) {
		interest(c, now);
		if (pollset_wait(&c->set) < 0) {
			log_write(LOG_ERROR, "poll: %s", strerror(errno));
			return 1;
		}
		take_signals(c);
		take_clients(c);
		work(c);
		sweep(c);
		peer_make_way(&c->hub);
		now = clock_now();
		look_around(c, now);
		trim(c, now);
	}
	return 0;
}

/* ---- start and end ---------------------------------------------------- */

static int
prepare(struct controller *c, struct error *error)
{
	const struct controller_options *options = c->hub.options;
	char log[PATHS_MAX];
	struct error ignored;

	error_set(error, WIRE_STEP_START, 0, "libsodium");
	if (seal_init() < 0) {
		return -1;
	}
	if (paths_join(log, sizeof(log), options->directory, PATHS_LOG,
	    error) < 0) {
		return -1;
	}
	child_init();
	system_keep_heap_small();
	if (log_open(options->log_path != NULL ? options->log_path : log,
	    options->log_level) < 0) {
		error_set(error, WIRE_STEP_START, errno, "the log %s",
		    options->log_path != NULL ? options->log_path : log);
		return -1;
	}
	if (!options->take_over) {
		found_read(options->directory);
	}
	if (trust_open(&ignored) < 0) {
		log_write(LOG_WARNING, "no records of sandboxes: %s",
		    ignored.text);
	}
	if (daemon_catch_signals() < 0 || session_budget_init(&c->hub.clients,
	    HUB_REQUESTS) < 0) {
		error_set(error, WIRE_STEP_START, errno, "the start");
		return -1;
	}
	return 0;
}

static void
end(struct controller *c)
{
	struct hub *hub = &c->hub;

	while (!list_empty(&hub->links)) {
		struct target_link *link = LIST_OF(hub->links.next,
		    struct target_link, link);

		target_link_kill(link);
		target_link_free(link);
	}
	found_write(hub);
	while (!list_empty(&hub->peers)) {
		peer_free(LIST_OF(hub->peers.next, struct peer, link));
	}
	listener_close(&c->listener);
	session_budget_free(&hub->clients);
	pollset_free(&c->set);
	log_write(LOG_NOTE, "ended");
	log_close();
}

/* As listener_open(). */
static int
take_place(struct controller *c, struct handover *handover,
    struct error *error)
{
	const struct controller_options *options = c->hub.options;

	if (!options->take_over) {
		return listener_open(&c->listener, options->directory, error);
	}
	if (handover_take(options->directory, options->take_from, handover,
	    error) < 0) {
		return -1;
	}
	return listener_adopt(&c->listener, options->directory,
	    handover->lock, handover->fd, error) < 0 ? -1 : 1;
}

static int
serve(const struct controller_options *options, struct error *error)
{
	static struct controller c;
	static struct handover handover;
	int rc, ready = options->ready_fd;

	c.hub.options = options;
	list_init(&c.hub.peers);
	list_init(&c.hub.links);
	list_init(&c.hub.settle);
	list_init(&c.hub.stops);
	c.hub.started = clock_now();
	c.check_at = c.hub.started + CHECK_SOCKET;
	c.trim_at = CLOCK_NEVER;
	if (options->daemon && daemon_detach(&ready) < 0) {
		error_set(error, WIRE_STEP_START, errno, "the daemon");
		daemon_report(&ready, error);
		return -1;
	}
	c.hub.listener = &c.listener;
	c.listener = (struct listener){ .lock = -1, .fd = -1 };
	/* What it takes must not be lost to a log that cannot be opened. */
	rc = options->take_over ? prepare(&c, error) : 0;
	rc = rc < 0 ? rc : take_place(&c, &handover, error);
	if (rc == 0) {
		daemon_report(&ready, NULL);
		return 0;
	}
	if (rc < 0 || (!options->take_over && prepare(&c, error) < 0)) {
		listener_close(&c.listener);
		daemon_report(&ready, error);
		return -1;
	}
	log_write(LOG_NOTE, "sandmux %s listens on %s", SANDMUX_VERSION,
	    c.listener.path);
	if (options->take_over) {
		handover_adopt(&c.hub, &handover);
	}
	daemon_report(&ready, NULL);
	rc = loop(&c);
	end(&c);
	return rc;
}

int
controller_main(const struct controller_options *options,
    struct error *error)
{
	pid_t pid;

	if (options->daemon) {
		pid = fork();
		if (pid < 0) {
			error_set(error, WIRE_STEP_START, errno, "fork");
		}
		if (pid != 0) {
			if (options->ready_fd >= 0) {
				close(options->ready_fd);
			}
			return pid < 0 ? -1 : 0;
		}
	}
	return serve(options, error);
}
