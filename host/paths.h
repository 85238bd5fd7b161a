/* SPDX-License-Identifier: MIT */
/*
 * paths.h - where sandmux keeps its files on the host, and whose they are.
 *
 * The runtime directory holds the controller's socket, lock and log.  Whoever
 * can write there can drive every target, so it must be a real directory of
 * our own that nobody else can enter.
 */
#ifndef PATHS_H
#define PATHS_H

#include <stddef.h>

#include "error.h"

#define PATHS_SOCKET "socket"
#define PATHS_LOCK "lock"
#define PATHS_LOG "log"
#define PATHS_SESSIONS "sessions"	/* see found.h */
#define PATHS_MAX 1024			/* enough for any path made here */

/*
 * The runtime directory, absolute, into buf[cap]: $SANDMUX_DIR, else
 * $XDG_RUNTIME_DIR/sandmux (if that directory is ours), else
 * /tmp/sandmux-UID.  Made with mode 0700 where it is missing (its parents are
 * not).  0, or -1 with *error, which names a foreign owner.
 */
int paths_runtime(char *buf, size_t cap, struct error *error);

/* The same for a directory that was named (serve --dir). */
int paths_private(const char *dir, char *buf, size_t cap,
    struct error *error);

/*
 * $XDG_STATE_HOME/sandmux, else ~/.local/state/sandmux: what must outlive
 * the controller.  Made with its parents, mode 0700.  0, or -1 with *error.
 */
int paths_state(char *buf, size_t cap, struct error *error);

/* The same for one who has these variables; NULL: not set. */
int paths_state_of(const char *xdg_state, const char *home, char *buf,
    size_t cap, struct error *error);

/* dir/name into buf[cap]; 0, or -1 with *error if it does not fit. */
int paths_join(char *buf, size_t cap, const char *dir, const char *name,
    struct error *error);

/* "NAME (uid N)" or "uid N" for messages. */
void paths_owner(unsigned uid, char *buf, size_t cap);

#endif
