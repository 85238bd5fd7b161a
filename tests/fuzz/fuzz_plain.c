/* SPDX-License-Identifier: MIT */
/*
 * fuzz_plain.c - the client socket's carrier against a hostile far end.
 *
 * The far end is the harness: it sends raw bytes or frames of the input in
 * pieces, reads or does not, shuts down.  The carrier is the controller's
 * (server) or a client's (opener), with a small app.
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "fuzz_app.h"
#include "plain.h"

#define STEPS_MAX 300u
#define OUT_MAX (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct far {
	struct app app;
	struct plain *plain;
	int fd;
	bool greeted, refuse;
	uint8_t rest[WIRE_FRAME_MAX + 4];	/* read and not a whole frame */
	size_t rest_len;
	uint64_t read;
};

static int
greeting(void *ctx, const struct wire *message, struct error *error)
{
	struct far *far = ctx;
	struct wire answer = { .type = WIRE_WELCOME, .u.welcome = {
	    .version = 1, .program = wire_string("0.1.0") } };

	CHECK(!far->greeted);
	CHECK(message->type == WIRE_HELLO || message->type == WIRE_WELCOME);
	far->greeted = true;
	if (far->refuse) {
		error_set(error, WIRE_STEP_PROTOCOL, 0, "refused");
		return -1;
	}
	if (far->app.session->config.server) {
		CHECK(plain_greet(far->plain, &answer) == 0);
	}
	return 0;
}

static void
turn(struct far *far)
{
	struct pollset set = { 0 };

	pollset_clear(&set);
	plain_interest(far->plain, &set);
	set.deadline = 0;
	CHECK(pollset_wait(&set) == 0);
	plain_run(far->plain, &set);
	(void)plain_drained(far->plain);
	pollset_free(&set);
	if (plain_error(far->plain) != NULL) {
		app_check_error(plain_error(far->plain));
	}
}

static void
send_all(struct far *far, const uint8_t *data, size_t len)
{
	unsigned tries = 0;
	ssize_t n;

	while (len > 0 && tries < 64) {
		n = send(far->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		} else if (errno != EAGAIN) {
			return;
		}
		tries++;
		if (len > 0) {
			turn(far);
		}
	}
}

static void
send_frame(struct far *far, const uint8_t *frame, size_t len)
{
	uint8_t head[4] = { 0, 0, (uint8_t)(len >> 8), (uint8_t)len };

	send_all(far, head, sizeof(head));
	send_all(far, frame, len);
}

/* What the carrier says must be whole frames that decode. */
static void
read_some(struct far *far, size_t most)
{
	struct wire msg;
	size_t n, at = 0;
	ssize_t got;

	most = most < sizeof(far->rest) - far->rest_len ? most :
	    sizeof(far->rest) - far->rest_len;
	got = recv(far->fd, far->rest + far->rest_len, most, MSG_DONTWAIT);
	if (got <= 0) {
		return;
	}
	far->rest_len += (size_t)got;
	far->read += (size_t)got;
	while (far->rest_len - at >= 4) {
		n = (size_t)far->rest[at + 2] << 8 | far->rest[at + 3];
		CHECK(far->rest[at] == 0 && far->rest[at + 1] == 0);
		CHECK(n > 0 && n <= WIRE_FRAME_MAX);
		if (far->rest_len - at < 4 + n) {
			break;
		}
		CHECK(wire_decode(far->rest + at + 4, n, &msg) == WIRE_OK);
		at += 4 + n;
	}
	memmove(far->rest, far->rest + at, far->rest_len - at);
	far->rest_len -= at;
}

static void
say_hello(struct far *far)
{
	static const uint8_t none[4] = { 0 };
	struct wire msg = { .type = WIRE_HELLO, .u.hello = { .min = 1,
	    .max = 1, .program = wire_string("1"),
	    .target = wire_string("local"), .env = { 0, { none, 0 } } } };
	uint8_t frame[256];
	size_t len;

	if (!far->app.session->config.server) {
		msg = (struct wire){ .type = WIRE_WELCOME, .u.welcome = {
		    .version = 1, .program = wire_string("1") } };
	}
	CHECK(wire_encode(&msg, frame, sizeof(frame), &len) == WIRE_OK);
	send_frame(far, frame, len);
}

static void
step(struct far *far, struct input *in)
{
	static const uint8_t zeros[WIRE_FRAME_MAX];
	uint8_t op = input_u8(in);
	const uint8_t *bytes;
	size_t len, i;

	switch (op & 15) {
	case 0:
	case 1:
		app_step(&far->app, in);
		plain_flush(far->plain);
		return;
	case 2:
		bytes = input_bytes(in, op & 0x80 ? input_u16(in) :
		    input_u8(in), &len);
		send_all(far, bytes, len);
		return;
	case 3:
		/* Dripped byte by byte. */
		bytes = input_bytes(in, input_u8(in) & 63, &len);
		for (i = 0; i < len; i++) {
			send_all(far, bytes + i, 1);
			turn(far);
		}
		return;
	case 4:
	case 5:
	case 6:
	case 7:
		bytes = input_bytes(in, input_u8(in), &len);
		send_frame(far, bytes, len);
		return;
	case 8:
		send_all(far, zeros, input_u16(in) % sizeof(zeros));
		return;
	case 9:
	case 10:
		read_some(far, (size_t)input_u8(in) * 256);
		return;
	case 11:
		say_hello(far);
		return;
	case 12:
		shutdown(far->fd, op & 0x80 ? SHUT_RDWR : op & 0x40 ?
		    SHUT_RD : SHUT_WR);
		return;
	case 13:
		plain_trim(far->plain);
		return;
	default:
		turn(far);
		return;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct far far;
	struct input in = { data, size };
	struct plain_config config = { .greeting = greeting, .ctx = &far };
	uint8_t how = input_u8(&in);
	int pair[2], room = 4608;
	unsigned steps;

	signal(SIGPIPE, SIG_IGN);
	memset(&far, 0, sizeof(far));
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	if (how & 4) {
		setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room,
		    sizeof(room));
	}
	far.fd = pair[1];
	far.refuse = (how & 2) != 0;
	app_start(&far.app, (how & 1) == 0, false);
	config.fd = pair[0];
	config.session = far.app.session;
	far.plain = plain_new(&config);
	CHECK(far.plain != NULL);
	for (steps = 0; !input_done(&in) && steps < STEPS_MAX; steps++) {
		step(&far, &in);
		turn(&far);
		app_check(&far.app);
		CHECK(far.read < OUT_MAX);
	}
	plain_free(far.plain);
	app_stop(&far.app);
	close(far.fd);
	return 0;
}
