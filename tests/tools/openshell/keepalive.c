/* SPDX-License-Identifier: MIT */
/* keepalive.c - pings by connection, counted when silence lasts. */
#include "keepalive.h"

#include "state.h"
#include "wire.h"

#include <sys/socket.h>
#include <unistd.h>

#define KEEPALIVE_MAX 4

static void
close_ping(struct keepalive *k)
{
	if (k->fd != -1) {
		(void)close(k->fd);
		k->fd = -1;
	}
}

void
keepalive_heard(struct keepalive *k, int64_t now, int64_t interval)
{
	close_ping(k);
	k->missed = 0;
	k->next_ns = interval > 0 ? now + interval : 0;
}

static int
answered(const struct keepalive *k)
{
	uint8_t head[WIRE_HEAD];

	return k->fd != -1 &&
	    recv(k->fd, head, sizeof(head), MSG_DONTWAIT) > 0;
}

int
keepalive_tick(struct keepalive *k, const char *name, int64_t now,
    int64_t interval)
{
	char dir[STATE_PATH];

	if (k->next_ns == 0 || now < k->next_ns) {
		return 0;
	}
	k->next_ns = now + interval;
	if (answered(k)) {
		k->missed = 0;
	}
	close_ping(k);
	if (k->missed > KEEPALIVE_MAX) {
		return -1;
	}
	k->missed++;		/* until its answer is there */
	state_link_dir(dir, name);
	k->fd = wire_connect_now(dir, "sock");
	if (k->fd != -1) {
		(void)wire_send(k->fd, WIRE_PING, NULL, 0);
	}
	return 0;
}

void
keepalive_stop(struct keepalive *k)
{
	close_ping(k);
	k->next_ns = 0;
}
