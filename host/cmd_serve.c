/* SPDX-License-Identifier: MIT */
/* cmd_serve.c - `sandmux serve`: be the controller, here or as a daemon. */
#include "cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller.h"
#include "link.h"
#include "options.h"
#include "paths.h"
#include "system.h"

static const char usage[] =
"usage: sandmux serve [OPTION]...\n"
"      --daemon          go to the background, return when it listens\n"
"      --take-over PID   from that controller, with its sessions; 0: any\n"
"      --dir DIR         runtime directory (else SANDMUX_DIR and so on)\n"
"      --log FILE        log file (else `log` in DIR)\n"
"      --log-level L     error, warning, note (default) or debug\n"
"      --idle SECONDS    close a link that nobody used so long; 0: never\n"
"      --park SECONDS    the agent behind a link closed so stays so long; 0:\n"
"                        not; without it: only where a new one could be\n"
"                        trusted less, as long as the sandbox\n"
"      --linger SECONDS  jobs go on so long without a link; 0: not (60)\n"
"      --idle-exit SECONDS  end when there was no link so long; 0: never\n"
"      --ping MS         keepalive: ask after so much silence\n"
"      --dead MS         keepalive: give up after so much silence\n"
"      --hello MS        how long an agent may take to start\n"
"A client starts it by itself; SANDMUX_SERVE_ARGS adds options to that.\n";

enum {
	DAEMON = 256, DIR, LOG_FILE, LOG_LEVEL, IDLE, IDLE_EXIT, PARK, LINGER,
	PING, DEAD, HELLO, TAKE_OVER
};

#define SERVE_SECONDS_MAX 100000000u
#define SERVE_MS_MAX 86400000u
#define SERVE_LINGER_MAX 2592000u	/* 30 days, in seconds */

static const struct options_entry table[] = {
	{ 'h', "help", OPTIONS_FLAG },
	{ DAEMON, "daemon", OPTIONS_FLAG },
	{ TAKE_OVER, "take-over", OPTIONS_VALUE },
	{ DIR, "dir", OPTIONS_VALUE },
	{ LOG_FILE, "log", OPTIONS_VALUE },
	{ LOG_LEVEL, "log-level", OPTIONS_VALUE },
	{ IDLE, "idle", OPTIONS_VALUE },
	{ IDLE_EXIT, "idle-exit", OPTIONS_VALUE },
	{ PARK, "park", OPTIONS_VALUE },
	{ LINGER, "linger", OPTIONS_VALUE },
	{ PING, "ping", OPTIONS_VALUE },
	{ DEAD, "dead", OPTIONS_VALUE },
	{ HELLO, "hello", OPTIONS_VALUE },
	OPTIONS_LAST
};

struct serve {
	struct controller_options options;
	const char *dir;
	char directory[PATHS_MAX];
	char log[PATH_MAX + PATHS_MAX];
	bool help;
};

static int
seconds(const char *value, const char *name, uint64_t *ms,
    struct error *error)
{
	if (options_number(value, name, SERVE_SECONDS_MAX, ms, error) < 0) {
		return -1;
	}
	*ms *= 1000;
	return 0;
}

static int
milliseconds(const char *value, const char *name, uint32_t *ms,
    struct error *error)
{
	uint64_t number;

	if (options_number(value, name, SERVE_MS_MAX, &number, error) < 0) {
		return -1;
	}
	*ms = (uint32_t)number;
	return 0;
}

/* The daemon's directory will be "/". */
static int
set_log(struct serve *s, const char *path, struct error *error)
{
	char here[PATH_MAX];

	if (path[0] == '/') {
		s->options.log_path = path;
		return 0;
	}
	if (getcwd(here, sizeof(here)) == NULL) {
		error_set(error, WIRE_STEP_USAGE, errno, "--log %s", path);
		return -1;
	}
	s->options.log_path = s->log;
	return paths_join(s->log, sizeof(s->log), here, path, error);
}

static int
take_option(struct serve *s, int id, const char *value, struct error *error)
{
	struct controller_options *o = &s->options;
	uint64_t number;

	switch (id) {
	case 'h':
		s->help = true;
		return 0;
	case DAEMON:
		o->daemon = true;
		return 0;
	case TAKE_OVER:
		if (options_number(value, "--take-over", INT_MAX, &number,
		    error) < 0) {
			return -1;
		}
		o->take_over = true;
		o->take_from = (pid_t)number;
		return 0;
	case DIR:
		s->dir = value;
		return 0;
	case LOG_FILE:
		return set_log(s, value, error);
	case LOG_LEVEL:
		if (log_parse(value, &o->log_level) < 0) {
			error_set(error, WIRE_STEP_USAGE, 0, "--log-level is "
			    "error, warning, note or debug");
			return -1;
		}
		return 0;
	case IDLE:
		return seconds(value, "--idle", &o->idle_link_ms, error);
	case IDLE_EXIT:
		return seconds(value, "--idle-exit", &o->idle_exit_ms, error);
	case PARK:
		if (options_number(value, "--park", SERVE_SECONDS_MAX,
		    &number, error) < 0) {
			return -1;
		}
		o->park_s = (uint32_t)number;
		return 0;
	case LINGER:
		if (options_number(value, "--linger", SERVE_LINGER_MAX,
		    &number, error) < 0) {
			return -1;
		}
		o->linger_ms = (uint32_t)number * 1000;
		return 0;
	case PING:
		return milliseconds(value, "--ping", &o->ping_ms, error);
	case DEAD:
		return milliseconds(value, "--dead", &o->dead_ms, error);
	default:
		return milliseconds(value, "--hello", &o->hello_ms, error);
	}
}

static int
parse(struct serve *s, int argc, char **argv, struct error *error)
{
	struct options options = { .argc = argc, .argv = argv,
	    .table = table };
	int id;

	while ((id = options_next(&options, error)) > 0) {
		if (take_option(s, id, options.value, error) < 0) {
			return -1;
		}
	}
	if (id == 0 && options.at < argc) {
		error_set(error, WIRE_STEP_USAGE, 0, "it takes no operands");
		return -1;
	}
	if (s->options.ping_ms != 0 && s->options.dead_ms != 0 &&
	    s->options.dead_ms <= s->options.ping_ms) {
		error_set(error, WIRE_STEP_USAGE, 0, "--dead must be longer "
		    "than --ping");
		return -1;
	}
	return id;
}

/* The daemon's word that it listens; 0, or -1 with *error. */
static int
wait_ready(int fd, struct error *error)
{
	char said[WIRE_TEXT_MAX];
	size_t used = 0;
	ssize_t n = 1;

	while (n != 0 && used + 1 < sizeof(said)) {
		n = read(fd, said + used, sizeof(said) - 1 - used);
		if (n < 0 && errno != EINTR) {
			break;
		}
		used += n > 0 ? (size_t)n : 0;
	}
	said[used] = '\0';
	if (said[0] == '+') {
		return 0;
	}
	error_set(error, WIRE_STEP_START, 0, "%s", said[0] == '-' ?
	    said + 1 : "it ended without a word; see its log");
	return -1;
}

static int
background(struct serve *s, struct error *error)
{
	int ends[2], rc;

	if (system_pipe(ends) < 0) {
		error_set(error, WIRE_STEP_START, errno, "pipe");
		return -1;
	}
	s->options.ready_fd = ends[1];
	if (controller_main(&s->options, error) != 0) {
		close(ends[0]);
		return -1;
	}
	rc = wait_ready(ends[0], error);
	close(ends[0]);
	return rc;
}

int
cmd_serve(int argc, char **argv)
{
	struct serve s = { .options = { .log_level = LOG_NOTE,
	    .idle_link_ms = CONTROLLER_IDLE_LINK_MS,
	    .park_s = CONTROLLER_PARK_TRUST, .linger_ms = LINK_LINGER_MS,
	    .ready_fd = -1 } };
	struct error error;
	int rc;

	if (parse(&s, argc, argv, &error) < 0) {
		return cmd_fail("serve", &error, CMD_USAGE);
	}
	if (s.help) {
		return cmd_help(usage);
	}
	if ((s.dir != NULL ? paths_private(s.dir, s.directory,
	    sizeof(s.directory), &error) : paths_runtime(s.directory,
	    sizeof(s.directory), &error)) < 0) {
		return cmd_fail("serve", &error, CMD_FAILED);
	}
	s.options.directory = s.directory;
	rc = s.options.daemon ? background(&s, &error) :
	    controller_main(&s.options, &error);
	return rc < 0 ? cmd_fail("serve", &error, CMD_FAILED) : rc;
}
