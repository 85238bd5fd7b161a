/* SPDX-License-Identifier: MIT */
/*
 * serve.h - what serves a request: the functions behind its session events.
 *
 * The app of every request that core.c has accepted points to a struct that
 * begins with a struct serve: an echo, a worker, a job or an attachment.
 */
#ifndef SERVE_H
#define SERVE_H

#include "session.h"

/* As the events of the same names in session.h; index 0: OUT, 1: ERR. */
struct serve_ops {
	size_t (*data)(struct session_request *req, const uint8_t *data,
	    size_t len);
	void (*ended)(struct session_request *req);
	size_t (*pull)(struct session_request *req, unsigned index,
	    uint8_t *buf, size_t max);
	void (*unwanted)(struct session_request *req, unsigned index);
	void (*cancel)(struct session_request *req);
	void (*signal)(struct session_request *req, int number);  /* or NULL */
	void (*resize)(struct session_request *req, unsigned rows,
	    unsigned columns);		/* or NULL */
};

struct serve {
	const struct serve_ops *ops;
};

#endif
