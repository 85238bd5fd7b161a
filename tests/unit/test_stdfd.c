/* SPDX-License-Identifier: MIT */
/* test_stdfd.c - no kind of descriptor blocks, none is changed. */
#include "stdfd.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define BIG 1048576

/* Fill it until it would block, then empty it: every byte once. */
static void
fill_and_drain(int reading, int writing, enum stdfd_way way)
{
	struct stdfd in, out;
	char *data = malloc(BIG), *back = malloc(BIG);
	size_t sent = 0, got = 0;
	ssize_t n;

	assert_non_null(data);
	assert_non_null(back);
	for (n = 0; n < BIG; n++) {
		data[n] = (char)(n * 7);
	}
	stdfd_open(&in, reading, false);
	stdfd_open(&out, writing, true);
	assert_int_equal(out.way, way);
	errno = 0;
	assert_int_equal(stdfd_read(&in, back, BIG), -1);
	assert_int_equal(errno, EAGAIN);
	while ((n = stdfd_write(&out, data + sent, BIG - sent)) > 0) {
		sent += (size_t)n;
		if (sent == BIG) {
			break;
		}
	}
	assert_true(sent >= 4096);
	if (sent < BIG) {
		assert_int_equal(n, -1);
		assert_int_equal(errno, EAGAIN);
	}
	while (got < sent &&
	    (n = stdfd_read(&in, back + got, BIG - got)) > 0) {
		got += (size_t)n;
	}
	assert_int_equal(got, sent);
	assert_memory_equal(data, back, sent);
	assert_int_equal(fcntl(reading, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(fcntl(writing, F_GETFL) & O_NONBLOCK, 0);
	stdfd_close(&out);
	close(writing);
	assert_int_equal(stdfd_read(&in, back, BIG), 0);
	stdfd_close(&in);
	close(reading);
	free(data);
	free(back);
}

static void
test_pipe(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	fill_and_drain(ends[0], ends[1], STDFD_OWN);
}

static void
test_socket(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	fill_and_drain(ends[0], ends[1], STDFD_SOCKET);
}

/* A pipe that cannot be opened again: small pieces, asked for. */
static void
test_asked_pipe(void **state)
{
	struct stdfd out;
	char piece[65536] = { 0 };
	size_t sent = 0;
	ssize_t n;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	stdfd_open(&out, ends[1], true);
	stdfd_close(&out);
	out = (struct stdfd){ .fd = ends[1], .way = STDFD_ASK,
	    .piece = 4096 };
	while ((n = stdfd_write(&out, piece, sizeof(piece))) > 0) {
		assert_true(n <= 4096);
		sent += (size_t)n;
	}
	assert_int_equal(errno, EAGAIN);
	assert_true(sent >= 4096);
	close(ends[0]);
	close(ends[1]);
}

static void
test_file(void **state)
{
	char path[] = "/tmp/sandmux-stdfd-XXXXXX", buf[8];
	int fd = mkstemp(path);
	struct stdfd std;

	(void)state;
	assert_true(fd >= 0);
	unlink(path);
	stdfd_open(&std, fd, true);
	assert_int_equal(std.way, STDFD_DIRECT);
	assert_int_equal(std.fd, fd);
	assert_int_equal(stdfd_write(&std, "abc", 3), 3);
	stdfd_close(&std);
	/* It was borrowed: still open, and where we left it. */
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 3);
	assert_int_equal(lseek(fd, 1, SEEK_SET), 1);
	stdfd_open(&std, fd, false);
	assert_int_equal(stdfd_read(&std, buf, sizeof(buf)), 2);
	assert_int_equal(stdfd_read(&std, buf, sizeof(buf)), 0);
	stdfd_close(&std);
	close(fd);
}

static void
test_null(void **state)
{
	int fd = open("/dev/null", O_RDWR);
	struct stdfd std;
	char buf[8];

	(void)state;
	stdfd_open(&std, fd, false);
	assert_int_equal(stdfd_read(&std, buf, sizeof(buf)), 0);
	stdfd_close(&std);
	stdfd_open(&std, fd, true);
	assert_int_equal(stdfd_write(&std, "abc", 3), 3);
	stdfd_close(&std);
	close(fd);
	stdfd_open(&std, -1, true);
	assert_int_equal(stdfd_write(&std, "abc", 3), -1);
	assert_int_equal(errno, EBADF);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_socket),
		cmocka_unit_test(test_asked_pipe),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
