/* SPDX-License-Identifier: MIT */
/*
 * state.h - the stand-in's directory and the sandboxes recorded in it.
 *
 * STANDIN_DIR/gateway.sock, /gateway.log, /start.lock, /last and
 * /sandboxes/NAME/{record,link}; link is mounted into the container.  It
 * outlives the gateway, so sandboxes survive a restart.
 */
#ifndef STATE_H
#define STATE_H

#include <stdint.h>

#define STATE_PATH 4096
#define STATE_NAME_MAX 19

struct state_sandbox {
	char name[64];
	char id[40];
	char container[128];
	char image[512];
	char labels[1024];	/* "K=V\n" each */
	int64_t created;	/* seconds since 1970 */
};

/* The directory, made when missing; NULL + errno when it cannot be. */
const char *state_dir(void);
/* NULL when the name may be used, else what is wrong with it. */
const char *state_check_name(const char *name);
/* Where the supervisor of this sandbox listens. */
void state_link_dir(char path[STATE_PATH], const char *name);

/* 0; -1 + errno: EEXIST for a name that is taken. */
int state_add(const struct state_sandbox *sb);
int state_load(struct state_sandbox *sb, const char *name);
void state_remove(const char *name);
/* Names in order, NULL at the end; owned by the caller, each and all. */
char **state_names(void);
void state_free_names(char **names);

/* Ready, Error, Stopped or Provisioning. */
const char *state_phase(const char *name);

#endif
