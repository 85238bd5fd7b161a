/* SPDX-License-Identifier: MIT */
/*
 * run.h - carries one request over a client's connection, with its bytes.
 *
 * Used by exec and by every other command that opens a request: descriptors
 * or callbacks give and take the bytes, signals cancel, and the end comes
 * back as a value.  A stopped stdout stops neither stderr nor the end of the
 * command's stdin.
 */
#ifndef RUN_H
#define RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "client.h"
#include "stdfd.h"

/* How the request ended. */
struct run_end {
	bool complete;			/* RESULT came; else error says why */
	enum wire_outcome outcome;
	int code;			/* status or signal number */
	struct error error;		/* step NONE: none */
	uint64_t in, out, err;		/* bytes */
	uint64_t wall_us;
	bool new_agent, detached;
	int signal;			/* the one that we got, 0: none */
	uint8_t *info;			/* owned: a *_INFO message */
	uint32_t info_len;
};

/* Where bytes come from and go to; an unused one has give or take NULL. */
struct run_flow {
	struct stdfd fd;		/* to poll; fd.fd -1: not used */
	const char *name;		/* for errors */
	/*
	 * Move up to len bytes; like stdfd_read() and stdfd_write(), which
	 * are used where it is NULL.
	 */
	ssize_t (*move)(void *ctx, void *buf, size_t len);
	void *ctx;
};

struct run {
	struct client *client;		/* borrowed, opened with run_events */
	struct run_flow in, out, err;
	bool has_in;			/* in.fd or in.move is there */
	bool catch;			/* interrupt.h: cancel on a signal */
	bool leave;			/* a signal leaves at once instead */
	bool terminal;			/* the job has one: pass sizes on */
	bool raw;			/* in.fd is tty.h's */
	/* Called each turn, may wake the loop (for progress); or NULL. */
	void (*turn)(void *ctx, struct pollset *set);
	void *ctx;

	/* private */
	struct session_request *req;
	struct run_end *end;
	bool over, in_done;
	unsigned signals;
	size_t slot_in, slot_out[2], slot_signal;
};

/* For client_config.events; its ctx is the struct run. */
extern const struct session_events run_events;

/*
 * Open the request of msg and carry it to its end.  Fills *end in any case;
 * 0 if end->complete.  run_end_free() frees what it holds.
 */
int run_request(struct run *run, const struct wire *msg, struct run_end *end);
/* In a move or turn: end the request; its result is still waited for. */
void run_cancel(struct run *run);
/* In a move of run.out: run.in has bytes again after EAGAIN. */
void run_ready(struct run *run);
void run_end_free(struct run_end *end);

/* The EXEC_INFO that came with the result, borrowing from end; false: none. */
bool run_exec_info(const struct run_end *end, struct wire_exec_info *info);

/* exec's exit statuses beyond the command's own. */
enum run_status {
	RUN_NO_JOB = 1,			/* of commands that name a job */
	RUN_TIMED_OUT = 124,
	RUN_UNREACHED = 125,
	RUN_NOT_STARTED = 126,
	RUN_NOT_FOUND = 127,
	RUN_SIGNAL = 128
};

/* The exit status that says how it ended. */
int run_exit_status(const struct run_end *end);

/* The errno or signal in words, one line; false if there is nothing to say. */
bool run_complaint(const struct run_end *end, struct error *error);

#endif
