/* SPDX-License-Identifier: MIT */
/*
 * list.h - a doubly linked ring whose links live inside its members.
 *
 * A head and an unlinked member point at themselves, so removing twice does
 * no harm.  Nothing here owns memory.
 */
#ifndef LIST_H
#define LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

/* The struct of type t whose member m is the list l. */
#define LIST_OF(l, t, m) ((t *)(void *)((char *)(l) - offsetof(t, m)))

static inline void
list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool
list_empty(const struct list *l)
{
	return l->next == l;
}

/* Append l to the ring of head; l must not be in a ring. */
static inline void
list_append(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void
list_remove(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#endif
