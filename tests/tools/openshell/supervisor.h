/* SPDX-License-Identifier: MIT */
/*
 * supervisor.h - what its files share.  Pid 1 of the container accepts one
 * connection an exec and gives each a thread (session.c); the main thread
 * reaps every child and hands statuses to sessions (reaper.c).
 */
#ifndef SUPERVISOR_H
#define SUPERVISOR_H

#include <stdint.h>
#include <sys/types.h>

struct cage;

/* One started command; every fd is -1 where the mode has none.  Owned. */
struct child {
	pid_t pid;
	int tty;	/* pty master, both directions */
	int in;		/* pipe to stdin */
	int out;	/* pipe from stdout */
	int err;	/* pipe from stderr */
	int exited;	/* becomes readable when the leader was reaped */
	int slot;
};

struct spawn_request {
	const char *command;	/* borrowed, for bash -lc */
	char *const *argv;	/* instead of command: the main process */
	uint32_t flags;		/* enum wire_flag */
	uint32_t cols;
	uint32_t rows;
};

/* spawn.c: keeps the pointers for the whole life of the program. */
void spawn_init(const struct cage *cage, char *const *user_env, int n);
/* 0 with the child filled, or -1 + errno and nothing left open. */
int spawn_start(struct child *ch, const struct spawn_request *rq);
/* Closes what is open; takes the empty child. */
void spawn_close(struct child *ch);

/* reaper.c: locked around fork so that no exit is missed. */
void reaper_lock(void);
void reaper_unlock(void);
/* With the lock held.  An eventfd in *fd; the slot, or -1 when all are full. */
int reaper_add(pid_t pid, int *fd);
/* The raw wait status once exited was readable; frees the slot. */
int reaper_take(int slot);
/* Frees the slot of a child whose end nobody will ask for. */
void reaper_forget(int slot);
/* Reaps what is there; returns 1 when the pid watched as main has ended. */
int reaper_run(void);
void reaper_set_main(pid_t pid);
int reaper_main_status(void);

/* session.c: takes the connected socket; runs until the link is over. */
void session_start(int fd);

#endif
