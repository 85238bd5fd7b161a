/* SPDX-License-Identifier: MIT */
/*
 * nullpipe.c - the null pipeline: a file copy that only seals, pipes, opens
 * and writes, over the same hops and records as `sandmux cp`.
 *
 *   up:   client reads FILE -> unix socket -> relay seals -> transport ->
 *         peer opens -> pipe -> worker writes PATH
 *   down: worker reads PATH -> pipe -> peer seals -> transport ->
 *         relay opens -> unix socket -> client writes FILE
 *
 *   nullpipe peer                      in the target, on its stdio
 *   nullpipe host [-t] COMMAND [ARG]   on the host, see rawlink.c
 *
 * The host end takes "up FILE PATH" and "down PATH FILE" on its stdin and
 * answers each with megabytes (10^6) a second; "UP" and "DOWN" do the same
 * without sealing.  The key is no secret here.
 */
#include <sodium.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "bench.h"

#define NULLPIPE_PLAIN 32747
#define NULLPIPE_SEALED \
	(NULLPIPE_PLAIN + crypto_secretstream_xchacha20poly1305_ABYTES)
#define NULLPIPE_PATH 1024

struct nullpipe_command {
	char letter;			/* 'u' or 'd'; capital: unsealed */
	char path[NULLPIPE_PATH];
};

static const uint8_t nullpipe_key
    [crypto_secretstream_xchacha20poly1305_KEYBYTES];
static uint8_t nullpipe_plain[NULLPIPE_PLAIN];
static uint8_t nullpipe_record[4 + NULLPIPE_SEALED];
static uint8_t nullpipe_input[131072];	/* read from the link, not used yet */
static size_t nullpipe_first, nullpipe_last;

/* The next len bytes of the link, which is read as much as there is. */
static uint8_t *
nullpipe_need(int fd, size_t len)
{
	ssize_t got;

	if (nullpipe_last - nullpipe_first < len) {
		memmove(nullpipe_input, nullpipe_input + nullpipe_first,
		    nullpipe_last - nullpipe_first);
		nullpipe_last -= nullpipe_first;
		nullpipe_first = 0;
	}
	while (nullpipe_last - nullpipe_first < len) {
		got = read(fd, nullpipe_input + nullpipe_last,
		    sizeof(nullpipe_input) - nullpipe_last);
		if (got <= 0) {
			return NULL;
		}
		nullpipe_last += (size_t)got;
	}
	nullpipe_first += len;
	return nullpipe_input + nullpipe_first - len;
}

static void
nullpipe_fail(const char *what)
{
	errno = EPROTO;
	bench_die(what);
}

/* Seal all of in onto out; the last record has the final tag. */
static void
nullpipe_seal(int in, int out, int plain)
{
	uint8_t header[crypto_secretstream_xchacha20poly1305_HEADERBYTES];
	crypto_secretstream_xchacha20poly1305_state state;
	size_t got, sealed;
	uint8_t tag;

	crypto_secretstream_xchacha20poly1305_init_push(&state, header,
	    nullpipe_key);
	bench_write(out, header, sizeof(header));
	do {
		got = bench_read(in, nullpipe_plain, NULLPIPE_PLAIN);
		tag = got < NULLPIPE_PLAIN ?
		    crypto_secretstream_xchacha20poly1305_TAG_FINAL : 0;
		sealed = got + crypto_secretstream_xchacha20poly1305_ABYTES;
		nullpipe_record[0] = (uint8_t)(sealed >> 24);
		nullpipe_record[1] = (uint8_t)(sealed >> 16);
		nullpipe_record[2] = (uint8_t)(sealed >> 8);
		nullpipe_record[3] = (uint8_t)sealed;
		if (plain) {
			nullpipe_record[4] = tag;
			memcpy(nullpipe_record + 5, nullpipe_plain, got);
		} else {
			crypto_secretstream_xchacha20poly1305_push(&state,
			    nullpipe_record + 4, NULL, nullpipe_plain, got,
			    nullpipe_record, 4, tag);
		}
		bench_write(out, nullpipe_record, 4 + sealed);
	} while (tag == 0);
}

/* Open records of in onto out until the final one. */
static void
nullpipe_open(int in, int out, int plain)
{
	crypto_secretstream_xchacha20poly1305_state state;
	uint8_t *at, length[4], tag;
	size_t sealed;

	at = nullpipe_need(in,
	    crypto_secretstream_xchacha20poly1305_HEADERBYTES);
	if (at == NULL) {
		nullpipe_fail("header");
	}
	crypto_secretstream_xchacha20poly1305_init_pull(&state, at,
	    nullpipe_key);
	do {
		at = nullpipe_need(in, 4);
		if (at == NULL) {
			nullpipe_fail("the link ended");
		}
		memcpy(length, at, 4);
		sealed = (size_t)at[0] << 24 | (size_t)at[1] << 16 |
		    (size_t)at[2] << 8 | at[3];
		if (sealed > NULLPIPE_SEALED ||
		    sealed < crypto_secretstream_xchacha20poly1305_ABYTES ||
		    (at = nullpipe_need(in, sealed)) == NULL) {
			nullpipe_fail("record");
		}
		sealed -= crypto_secretstream_xchacha20poly1305_ABYTES;
		if (plain) {
			tag = at[0];
			bench_write(out, at + 1, sealed);
			continue;
		}
		if (crypto_secretstream_xchacha20poly1305_pull(&state,
		    nullpipe_plain, NULL, &tag, at, sealed +
		    crypto_secretstream_xchacha20poly1305_ABYTES, length, 4)
		    == -1) {
			nullpipe_fail("open");
		}
		bench_write(out, nullpipe_plain, sealed);
	} while (tag == 0);
}

/* Copy until the end of input; the worker's and the client's whole work. */
static void
nullpipe_copy(int in, int out)
{
	static uint8_t buf[65536];
	ssize_t got;

	while ((got = read(in, buf, sizeof(buf))) > 0) {
		bench_write(out, buf, (size_t)got);
	}
	if (got == -1) {
		bench_die("read");
	}
}

/*
 * Fork a process that copies between the file and one end of a pipe (or unix
 * socket); returns the other end.  reads: from the file.
 */
static int
nullpipe_fork(const char *path, int reads, int local, pid_t *pid)
{
	int fds[2], file, mine = reads ? 0 : 1;

	if (local ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds)) {
		bench_die("pipe");
	}
	if (!local) {
		fcntl(fds[0], F_SETPIPE_SZ, 262144);
	}
	*pid = fork();
	if (*pid == -1) {
		bench_die("fork");
	}
	if (*pid != 0) {
		close(fds[!mine]);
		return fds[mine];
	}
	close(fds[mine]);
	file = reads ? open(path, O_RDONLY) :
	    open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (file == -1) {
		bench_die(path);
	}
	if (reads) {
		nullpipe_copy(file, fds[1]);
	} else {
		nullpipe_copy(fds[0], file);
	}
	_exit(0);
}

static void
nullpipe_wait(int fd, pid_t pid)
{
	int status;

	close(fd);
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		errno = ECHILD;
		bench_die("a child failed");
	}
}

static int
nullpipe_peer(void)
{
	struct nullpipe_command command;
	uint8_t *at;
	pid_t pid;
	int fd, plain, down;

	bench_peer_start();
	while ((at = nullpipe_need(0, sizeof(command))) != NULL) {
		memcpy(&command, at, sizeof(command));
		command.path[NULLPIPE_PATH - 1] = '\0';
		plain = command.letter < 'a';
		down = (command.letter | 0x20) == 'd';
		fd = nullpipe_fork(command.path, down, 0, &pid);
		if (down) {
			nullpipe_seal(fd, 1, plain);
		} else {
			nullpipe_open(0, fd, plain);
		}
		nullpipe_wait(fd, pid);
		bench_write(1, "K", 1);
	}
	return 0;
}

static double
nullpipe_measure(const struct bench_link *link, char letter, const char *file,
    const char *path)
{
	struct nullpipe_command command;
	struct stat st;
	double start = bench_now();
	int fd, plain = letter < 'a', up = (letter | 0x20) == 'u';
	uint8_t *done;
	pid_t pid;

	memset(&command, 0, sizeof(command));
	command.letter = letter;
	snprintf(command.path, sizeof(command.path), "%s", path);
	fd = nullpipe_fork(file, up, 1, &pid);
	bench_write(link->out, &command, sizeof(command));
	if (up) {
		nullpipe_seal(fd, link->out, plain);
	} else {
		nullpipe_open(link->in, fd, plain);
	}
	nullpipe_wait(fd, pid);
	done = nullpipe_need(link->in, 1);
	if (done == NULL || *done != 'K') {
		nullpipe_fail("no answer");
	}
	start = bench_now() - start;
	if (stat(file, &st) == -1) {
		bench_die(file);
	}
	return (double)st.st_size / start / 1e6;
}

int
main(int argc, char *argv[])
{
	struct bench_link link;
	char line[4096], word[16], first[1024], second[1024];
	int pty, up;

	if (argc == 2 && strcmp(argv[1], "peer") == 0) {
		return nullpipe_peer();
	}
	pty = argc > 2 && strcmp(argv[2], "-t") == 0;
	if (argc < 3 + pty || strcmp(argv[1], "host") != 0) {
		fprintf(stderr, "usage: nullpipe peer | host [-t] COMMAND\n");
		return 2;
	}
	link = bench_start(argv + 2 + pty, pty);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "%15s %1023s %1023s", word, first,
		    second) != 3) {
			return 2;
		}
		up = (word[0] | 0x20) == 'u';
		printf("%.3f\n", nullpipe_measure(&link, word[0],
		    up ? first : second, up ? second : first));
		fflush(stdout);
	}
	kill(link.pid, SIGKILL);
	return 0;
}
