/* SPDX-License-Identifier: MIT */
/* lifecycle.c - the steps that make and remove one sandbox, in order. */
#include "lifecycle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "client.h"
#include "clock.h"
#include "env.h"
#include "jobs.h"
#include "run.h"
#include "seal.h"
#include "trust.h"

#define LIST_MS 30000u
#define LATE_MS 4000u			/* for a create that lost its client */
#define LATE_S 60u			/* none is so late */
#define PAUSE_MS 250u
#define LET_GO_MS 30000u		/* for a controller to end a link */
#define TICK_MS 5u
#define LOCK_MS 60000u			/* for another's removal */
#define MAKING_MS 1000u			/* until it is surely an `up` */

extern char **environ;

int
lifecycle_init(struct lifecycle *life, struct error *error)
{
	if (seal_init() < 0) {
		error_set(error, WIRE_STEP_START, 0, "libsodium");
		return -1;
	}
	/* No child_init(): a controller that is started has our umask. */
	return record_open(&life->store, getenv("XDG_STATE_HOME"),
	    getenv("HOME"), error) < 0 || record_owner(&life->store,
	    life->owner, error) < 0 || trust_open(error) < 0 ? -1 : 0;
}

/* ---- a transport's work ----------------------------------------------- */

/* The environment that transport is to see; NULL with *error. */
static struct env *
environment(const struct transport *transport, const struct items *select,
    struct error *error)
{
	struct items all = { 0 };
	struct env *env = NULL;
	char **at;

	for (at = environ; *at != NULL; at++) {
		if (strchr(*at, '=') != NULL && (*at)[0] != '=') {
			items_text(&all, *at);
		}
	}
	if (all.failed) {
		error_set(error, WIRE_STEP_START, ENOMEM, "the environment");
	} else {
		env = env_new(items_list(&all), error);
	}
	items_free(&all);
	if (env != NULL && env_replace(&env, transport->life->select,
	    items_list(select), error) < 0) {
		env_release(env);
		env = NULL;
	}
	return env;
}

struct work {
	const struct transport *transport;
	struct transport_place *place;	/* owned */
	struct env *env;		/* owned */
};

/* Ready for one of transport's life functions; 0, or -1 with *error. */
static int
work_begin(struct work *w, const struct lifecycle *life,
    const struct transport *transport, const struct sandbox *sandbox,
    const struct items *select, struct error *error)
{
	*w = (struct work){ .transport = transport };
	w->place = calloc(1, sizeof(*w->place));
	if (w->place == NULL) {
		error_set(error, WIRE_STEP_START, errno, "memory");
		return -1;
	}
	w->env = environment(transport, select, error);
	if (w->env == NULL) {
		free(w->place);
		return -1;
	}
	w->place->transport = transport;
	snprintf(w->place->target.scheme, sizeof(w->place->target.scheme),
	    "%s", transport->scheme);
	if (sandbox != NULL) {
		snprintf(w->place->target.name,
		    sizeof(w->place->target.name), "%s", sandbox->name != NULL
		    ? sandbox->name : "");
	}
	w->place->env = w->env->all;
	w->place->child_env = w->env->child;
	w->place->sandbox = sandbox;
	w->place->owner = life->owner;
	return 0;
}

static void
work_end(struct work *w)
{
	env_release(w->env);
	free(w->place);
}

static uint64_t
deadline(uint64_t ms)
{
	return clock_now() + ms * CLOCK_MS;
}

int
lifecycle_build(const struct lifecycle *life, struct sandbox *sandbox,
    struct error *error)
{
	const struct transport *builder = transport_find(sandbox->transport);
	struct items select = { 0 };
	struct work w;
	int rc;

	if (sandbox->build == NULL) {
		return 0;
	}
	if (!builder->life->builds) {
		builder = transport_find("docker");
	}
	lifecycle_select(builder, &select);
	rc = work_begin(&w, life, builder, sandbox, &select, error);
	if (rc == 0) {
		rc = transport_build(w.place, deadline(sandbox->build_ms),
		    error);
		work_end(&w);
	}
	items_free(&select);
	return rc;
}

/* ---- up --------------------------------------------------------------- */

void
lifecycle_select(const struct transport *transport, struct items *select)
{
	const char *const *name = transport->life->select;
	const char *value;
	char *text;

	items_free(select);
	for (; *name != NULL; name++) {
		value = getenv(*name);
		if (value != NULL && asprintf(&text, "%s=%s", *name,
		    value) > 0) {
			items_text(select, text);
			free(text);
		}
	}
}

/* What can be known before there is a record; 0, or -1 with *error. */
static int
look_ahead(const struct lifecycle *life, struct sandbox *s,
    const struct transport *transport, struct error *error)
{
	const struct transport_life *how = transport->life;
	struct work w;
	int rc = 0;

	if (how->program != NULL) {
		if (work_begin(&w, life, transport, s, &s->select,
		    error) < 0) {
			return -1;
		}
		rc = transport_program(w.place, how->program, how->cure,
		    error);
		work_end(&w);
	}
	return rc == 0 && how->plan != NULL ? how->plan(s, error) : rc;
}

int
lifecycle_plan(const struct lifecycle *life, struct sandbox *s,
    const char *name, int *lock, struct error *error)
{
	const struct transport *transport = transport_find(s->transport);
	struct error none;
	struct sandbox *had;

	s->name = name != NULL ? strdup(name) : sandbox_make_name();
	*lock = -1;
	if (s->name == NULL) {
		error_set(error, WIRE_STEP_START, errno, "a name");
		return -1;
	}
	*lock = record_lock(&life->store, s->name, error);
	if (*lock < 0) {
		return -1;
	}
	had = record_get(&life->store, s->name, &none);
	if (had != NULL || none.number != ENOENT) {
		sandbox_release(had);
		error_set(error, WIRE_STEP_USAGE, 0, "there is a sandbox of "
		    "this name already; `sandmux down %s` removes it",
		    s->name);
	} else {
		s->state = SANDBOX_CREATING;
		s->created = (uint64_t)time(NULL);
		lifecycle_select(transport, &s->select);
		if (look_ahead(life, s, transport, error) == 0 &&
		    record_put(&life->store, s, error) == 0) {
			return 0;
		}
	}
	record_unlock(&life->store, s->name, *lock);
	*lock = -1;
	return -1;
}

static int
ask_fs(const struct sandbox *s, const struct wire_fs *fs,
    struct error *error)
{
	const struct wire msg = { .type = WIRE_FS, .u.fs = *fs };
	struct text text = { 0 };
	int rc = jobs_ask(s->name, &msg, &text, error);

	text_free(&text);
	return rc;
}

/*
 * The link is up and the working directory there: made as the sandbox's user
 * if that may, else by root for that user.
 */
static int
prove(const struct sandbox *s, const struct transport *transport,
    struct error *error)
{
	bool own = (transport->traits & TRANSPORT_OWN_DIR) != 0;
	struct wire_fs make = { .op = WIRE_FS_MKDIR,
	    .flags = WIRE_FS_PARENTS, .path = wire_string(s->workdir) };
	struct wire_fs give = { .op = WIRE_FS_CHOWN,
	    .user = wire_string("0"), .path = wire_string(s->workdir),
	    .second = wire_string(s->user != NULL ? s->user : "") };
	struct error first;

	if (own && s->user != NULL) {
		/* The whole of it is that user's. */
		give.path = wire_string(s->directory);
		if (ask_fs(s, &give, error) < 0) {
			return -1;
		}
	}
	if (ask_fs(s, &make, error) == 0) {
		return 0;
	}
	if (error->number != EACCES && error->number != EPERM) {
		return -1;
	}
	first = *error;
	make.user = wire_string("0");
	if (s->user == NULL || ask_fs(s, &make, error) < 0 ||
	    ask_fs(s, &give, error) < 0) {
		/* What the user may not is the better reason. */
		*error = first;
		return -1;
	}
	return 0;
}

int
lifecycle_make(const struct lifecycle *life, struct sandbox *s,
    struct error *error)
{
	const struct transport *transport = transport_find(s->transport);
	struct error why;
	struct work w;
	int rc;

	if (work_begin(&w, life, transport, s, &s->select, error) < 0) {
		return -1;
	}
	rc = transport->life->create(w.place, s, deadline(s->create_ms),
	    error);
	if (rc == 0 && (transport->traits & TRANSPORT_SHARED_UID) != 0) {
		trust_make(s->transport, w.place->facts.id);
	}
	work_end(&w);
	/* Also after a failure: what there is must be known to be removed. */
	if (record_put(&life->store, s, &why) < 0 && rc == 0) {
		*error = why;
		rc = -1;
	}
	if (rc < 0 || prove(s, transport, error) < 0) {
		return -1;
	}
	s->state = SANDBOX_READY;
	return record_put(&life->store, s, error);
}

/* ---- down ------------------------------------------------------------- */

/* A controller that runs lets go of it and ends what runs there. */
static int
ask_to_let_go(const struct sandbox *s, struct error *error)
{
	const struct wire msg = { .type = WIRE_STOP };
	struct run run = { .out.fd.fd = -1, .err.fd.fd = -1 };
	struct client_config config = { .target = s->name,
	    .flags = CLIENT_ANY_PROGRAM, .events = &run_events, .ctx = &run };
	struct run_end end;
	int rc;

	run.client = client_open(&config, error);
	if (run.client == NULL) {
		return error->step == WIRE_STEP_NONE ? 0 : -1;
	}
	run_request(&run, &msg, &end);
	rc = run_complaint(&end, error) ? -1 : 0;
	run_end_free(&end);
	client_close(run.client);
	return rc;
}

/* The same in a process of its own: a controller may hang, we may not. */
static int
let_go(const struct sandbox *s, struct error *error)
{
	const struct timespec pause = { .tv_nsec = TICK_MS * 1000000L };
	uint64_t until = deadline(LET_GO_MS);
	struct child child;
	pid_t pid = child_fork(&child);

	if (pid == 0) {
		_exit(ask_to_let_go(s, error) < 0 ? 1 : 0);
	}
	while (pid > 0 && !child.exited && clock_now() < until) {
		nanosleep(&pause, NULL);
		child_reap();
	}
	if (pid > 0 && child.exited && child.status == 0) {
		return 0;
	}
	child_drop(&child);
	error_set(error, WIRE_STEP_START, 0, "the controller does not let go "
	    "of %s; `sandmux stop` ends it, and what runs there", s->name);
	return -1;
}

static int
remove_once(const struct lifecycle *life, const struct sandbox *s,
    struct error *error)
{
	const struct transport *transport = transport_find(s->transport);
	struct work w;
	int rc;

	if (work_begin(&w, life, transport, s, &s->select, error) < 0) {
		return -1;
	}
	rc = transport->life->remove(w.place, deadline(s->delete_ms), error);
	work_end(&w);
	return rc;
}

/*
 * A create whose client was killed may still be at work at the other end:
 * nothing there now is not the last word.
 */
static int
remove_late(const struct lifecycle *life, const struct sandbox *s,
    bool settled, struct error *error)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
	uint64_t now = (uint64_t)time(NULL), until = deadline(LATE_MS);
	int rc = remove_once(life, s, error);

	settled |= s->container != NULL || now > s->created + LATE_S;
	while (rc == 1 && !settled && clock_now() < until) {
		nanosleep(&pause, NULL);
		rc = remove_once(life, s, error);
	}
	return rc;
}

static int
remove_all_of(const struct lifecycle *life, struct sandbox *s,
    unsigned flags, struct error *error)
{
	bool settled = (flags & LIFECYCLE_SETTLED) != 0 ||
	    s->state == SANDBOX_READY;
	bool own = (transport_find(s->transport)->traits &
	    TRANSPORT_OWN_DIR) != 0;
	int rc;

	s->state = SANDBOX_REMOVING;
	if (record_put(&life->store, s, error) < 0) {
		return -1;
	}
	/* Where nothing else ends what runs there, that is a failure. */
	if (let_go(s, error) < 0 && own) {
		return -1;
	}
	rc = remove_late(life, s, settled, error);
	if (rc < 0) {
		return -1;
	}
	trust_forget(s->transport, s->container != NULL ? s->container :
	    s->name);
	trust_forget(s->transport, s->name);
	return record_remove(&life->store, s->name, error);
}

/*
 * Its lock; one that another process removes already is waited for.  -1 with
 * *error, whose number is ENOENT if it is gone by then.
 */
static int
lock_for_removal(const struct lifecycle *life, const char *name,
    struct error *error)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
	uint64_t making = deadline(MAKING_MS), removing = deadline(LOCK_MS);
	struct sandbox *s;
	struct error busy;
	int lock;

	while ((lock = record_lock(&life->store, name, &busy)) < 0 &&
	    busy.number == EWOULDBLOCK) {
		s = record_get(&life->store, name, error);
		if (s == NULL) {
			return -1;
		}
		if (clock_now() >= (s->state == SANDBOX_REMOVING ? removing :
		    making)) {
			busy.number = 0;
			sandbox_release(s);
			break;
		}
		sandbox_release(s);
		nanosleep(&pause, NULL);
	}
	if (lock < 0) {
		*error = busy;
	}
	return lock;
}

int
lifecycle_remove(const struct lifecycle *life, const char *name,
    unsigned flags, struct error *error)
{
	struct sandbox *s;
	int lock = -1, rc = -1;

	if ((flags & LIFECYCLE_LOCKED) == 0) {
		lock = lock_for_removal(life, name, error);
		if (lock < 0) {
			return error->number == ENOENT ? 1 : -1;
		}
	}
	s = record_get(&life->store, name, error);
	if (s != NULL) {
		rc = remove_all_of(life, s, flags, error);
	} else if (error->number == ENOENT) {
		rc = 1;
	}
	sandbox_release(s);
	record_unlock(&life->store, name, lock);
	return rc;
}

int
lifecycle_remove_orphan(const struct lifecycle *life,
    const struct transport *transport, const char *name, const char *id,
    struct error *error)
{
	struct sandbox *s = sandbox_new();
	int rc = -1;

	error_set(error, WIRE_STEP_START, ENOMEM, "%s", name);
	if (s != NULL && sandbox_set(&s->name, name) == 0 &&
	    sandbox_set(&s->transport, transport->scheme) == 0 &&
	    sandbox_set(&s->container, id) == 0) {
		lifecycle_select(transport, &s->select);
		s->delete_ms = LIST_MS * 10;
		rc = remove_once(life, s, error);
	}
	sandbox_release(s);
	return rc;
}

/* ---- ls --------------------------------------------------------------- */

int
lifecycle_list(const struct lifecycle *life,
    const struct transport *transport, const struct items *select,
    void (*found)(void *ctx, const struct transport_found *found), void *ctx,
    struct error *error)
{
	struct work w;
	int rc;

	if (work_begin(&w, life, transport, NULL, select, error) < 0) {
		return -1;
	}
	rc = transport->life->list(w.place, found, ctx, deadline(LIST_MS),
	    error);
	work_end(&w);
	return rc;
}

void
lifecycle_json(struct json *json, const struct sandbox *s)
{
	json_string(json, "key", s->key);
	json_string(json, "name", s->name);
	json_string(json, "target", s->name);
	json_string(json, "transport", s->transport);
	json_string_or_null(json, "container", s->container);
	json_string_or_null(json, "workdir", s->workdir);
	json_string_or_null(json, "user", s->user);
}
