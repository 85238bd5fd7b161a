/* SPDX-License-Identifier: MIT */
/* survey.c - records beside what the transports list. */
#include "survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One call of a transport's list(), for those in the same place. */
struct looking {
	struct survey *survey;
	const struct transport *transport;
	const struct items *select;
	bool failed;
};

const char *
survey_words(enum survey_state state)
{
	static const char *const words[] = {
		"creating", "ready", "stopped", "gone", "removing", "orphan",
		"unknown"
	};

	return words[state];
}

static struct survey_entry *
add(struct survey *v, struct sandbox *s)
{
	struct survey_entry *grown = realloc(v->entries, (v->count + 1) *
	    sizeof(*grown));

	if (grown == NULL) {
		error_set(&v->error, WIRE_STEP_START, ENOMEM, "the list");
		sandbox_release(s);
		return NULL;
	}
	v->entries = grown;
	grown[v->count] = (struct survey_entry){ .sandbox = s,
	    .transport = transport_find(s->transport),
	    .state = SURVEY_UNKNOWN };
	return &grown[v->count++];
}

static int
records(struct survey *v, const struct lifecycle *life)
{
	char **names = record_names(&life->store, &v->error);
	struct error error;
	struct sandbox *s;
	size_t i;

	for (i = 0; names != NULL && names[i] != NULL; i++) {
		s = record_get(&life->store, names[i], &error);
		if (s != NULL) {
			add(v, s);
		} else if (error.number != ENOENT) {
			v->error = error;
		}
	}
	record_free_names(names);
	return names == NULL ? -1 : 0;
}

/* ---- what transports say ---------------------------------------------- */

static bool
same_items(const struct items *a, const struct items *b)
{
	return a->len == b->len && (a->len == 0 ||
	    memcmp(a->data, b->data, a->len) == 0);
}

static bool
is_in(const struct survey_entry *e, const struct looking *l)
{
	return e->transport == l->transport &&
	    same_items(&e->sandbox->select, l->select);
}

static void
orphan(struct looking *l, const struct transport_found *found)
{
	struct sandbox *s = sandbox_new();
	struct survey_entry *e;

	if (s == NULL || sandbox_set(&s->name, found->name) < 0 ||
	    sandbox_set(&s->container, found->id) < 0 ||
	    sandbox_set(&s->key, found->key) < 0 ||
	    sandbox_set(&s->transport, l->transport->scheme) < 0) {
		sandbox_release(s);
		return;
	}
	e = add(l->survey, s);
	if (e != NULL) {
		e->state = SURVEY_ORPHAN;
		e->known = true;
	}
}

static void
take(void *ctx, const struct transport_found *found)
{
	struct looking *l = ctx;
	struct survey_entry *e;
	size_t i;

	for (i = 0; i < l->survey->count; i++) {
		e = &l->survey->entries[i];
		if (e->state == SURVEY_ORPHAN || !is_in(e, l) ||
		    strcmp(e->sandbox->name, found->name) != 0) {
			continue;
		}
		e->known = true;
		if (e->sandbox->container == NULL) {
			sandbox_set(&e->sandbox->container, found->id);
		}
		e->state = found->running ? SURVEY_READY : SURVEY_STOPPED;
		return;
	}
	if (!found->unmarked) {
		orphan(l, found);
	}
}

/* Ask one place; what it does not tell of is gone. */
static void
look(struct looking *l, const struct lifecycle *life)
{
	struct error error;
	size_t i, count = l->survey->count;

	l->failed = lifecycle_list(life, l->transport, l->select, take, l,
	    &error) < 0;
	if (l->failed) {
		l->survey->error = error;
	}
	for (i = 0; i < count; i++) {
		struct survey_entry *e = &l->survey->entries[i];

		if (is_in(e, l) && !e->known) {
			e->known = true;
			e->state = l->failed ? SURVEY_UNKNOWN : SURVEY_GONE;
		}
	}
}

/* The record's word where that says more than whether it runs. */
static void
judge(struct survey_entry *e)
{
	enum sandbox_state state = e->sandbox->state;

	if (e->state == SURVEY_ORPHAN) {
		return;
	}
	if (state == SANDBOX_REMOVING) {
		e->state = SURVEY_REMOVING;
	} else if (state == SANDBOX_CREATING) {
		e->state = SURVEY_CREATING;
	}
}

static int
compare(const void *a, const void *b)
{
	const struct survey_entry *x = a, *y = b;

	if (x->sandbox->created != y->sandbox->created) {
		return x->sandbox->created < y->sandbox->created ? -1 : 1;
	}
	return strcmp(x->sandbox->name, y->sandbox->name);
}

/* Every place that a record names, and each transport's place as of now. */
static void
look_everywhere(struct survey *v, const struct lifecycle *life)
{
	struct looking l = { .survey = v };
	const struct transport *t;
	size_t i, recorded = v->count;

	for (i = 0; i < recorded; i++) {
		const struct survey_entry *e = &v->entries[i];
		struct items select;

		if (e->transport == NULL || e->transport->life == NULL ||
		    e->known) {
			continue;
		}
		if (e->transport->life->list == NULL) {
			v->entries[i].known = true;
			v->entries[i].state =
			    e->transport->life->there(e->sandbox) ?
			    SURVEY_READY : SURVEY_GONE;
			continue;
		}
		/* Entries move when others are added. */
		select = e->sandbox->select;
		l.transport = e->transport;
		l.select = &select;
		look(&l, life);
	}
	for (i = 0; (t = transport_at(i)) != NULL; i++) {
		struct items select = { 0 };
		struct error before = v->error;
		size_t j;

		if (t->life == NULL || t->life->list == NULL) {
			continue;
		}
		lifecycle_select(t, &select);
		l.transport = t;
		l.select = &select;
		for (j = 0; j < recorded &&
		    !is_in(&v->entries[j], &l); j++) {
		}
		if (j == recorded) {
			look(&l, life);
			if (l.failed) {
				/* One that nobody uses here is no fault. */
				v->error = before;
			}
		}
		items_free(&select);
	}
}

int
survey_take(struct survey *v, const struct lifecycle *life)
{
	size_t i;

	*v = (struct survey){ .error.step = WIRE_STEP_NONE };
	if (records(v, life) < 0) {
		return -1;
	}
	look_everywhere(v, life);
	for (i = 0; i < v->count; i++) {
		judge(&v->entries[i]);
	}
	if (v->count > 0) {
		qsort(v->entries, v->count, sizeof(*v->entries), compare);
	}
	return 0;
}

void
survey_free(struct survey *v)
{
	size_t i;

	for (i = 0; i < v->count; i++) {
		sandbox_release(v->entries[i].sandbox);
	}
	free(v->entries);
	v->entries = NULL;
	v->count = 0;
}
