/* SPDX-License-Identifier: MIT */
/*
 * main.c - the agent's command line: `start` and `attach` for a link, `wait`
 * as a container's main process, and what injection needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"

static int
usage(const char *what)
{
	fprintf(stderr, "sandmux-agent: %s\n"
	    "usage: sandmux-agent start|attach VERSIONS TOKEN SESSION LINK "
	    "HOSTKEY\n           [hash=HEX] [unlink] "
	    "[user=USER] [groups=GROUPS] [keep-home]\n"
	    "       sandmux-agent --self-check HEX | remove | version | wait\n"
	    "It is started by sandmux on the host, not by hand.\n", what);
	return 2;
}

static int
self_check(const char *exe, const char *hex)
{
	uint8_t want[SEAL_KEY], have[SEAL_KEY];
	int fd, rc;

	if (seal_unhex(hex, want, SEAL_KEY) == -1) {
		return usage("the hash is not 64 lower-case hex digits");
	}
	fd = open(exe[0] != '\0' ? exe : "/proc/self/exe",
	    O_RDONLY | O_CLOEXEC);
	rc = fd == -1 ? -1 : seal_hash_fd(fd, have);
	if (rc == -1) {
		fprintf(stderr, "sandmux-agent: cannot read %s: %s\n", exe,
		    strerror(errno));
		return 1;
	}
	close(fd);
	if (memcmp(want, have, SEAL_KEY) != 0) {
		fprintf(stderr, "sandmux-agent: %s is damaged: its hash is "
		    "not the expected one\n", exe);
		return 1;
	}
	return 0;
}

/*
 * A container's main process where the image has none that lasts.  It takes
 * up what others leave behind, for nobody else would.  TERM is not taken: a
 * job's `kill -1` must not end the sandbox.
 */
static int
wait_here(void)
{
	sigset_t set;
	int number = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	do {
		while (waitpid(-1, NULL, WNOHANG) > 0) {
		}
	} while (sigwait(&set, &number) == 0);
	return 0;
}

static int
start(int argc, char **argv, struct agent_start *s,
    int (*run)(const struct agent_start *))
{
	struct link_terms terms;
	const char *what;
	int i;

	if (argc < 5) {
		return usage("five words are needed");
	}
	for (i = 0; i < 5; i++) {
		s->words[i] = argv[i];
	}
	if (link_parse_terms(&terms, s->words, &what) == -1) {
		fprintf(stderr, "sandmux-agent: bad %s\n", what);
		return 2;
	}
	/* Unknown options come from newer hosts and are ignored. */
	for (i = 5; i < argc; i++) {
		if (strncmp(argv[i], "hash=", 5) == 0) {
			s->hash = argv[i] + 5;
		} else if (strcmp(argv[i], "unlink") == 0) {
			s->unlink = true;
		} else if (strncmp(argv[i], "user=", 5) == 0) {
			s->user = argv[i] + 5;
		} else if (strncmp(argv[i], "groups=", 7) == 0) {
			s->groups = argv[i] + 7;
		} else if (strcmp(argv[i], "keep-home") == 0) {
			s->keep_home = true;
		}
	}
	if (s->hash != NULL && self_check(s->exe, s->hash) != 0) {
		return 1;
	}
	return run(s);
}

int
main(int argc, char **argv)
{
	struct agent_start s = { .hash = NULL };
	char versions[LINK_VERSIONS + 1];

	if (seal_init() == -1) {
		fprintf(stderr, "sandmux-agent: no random numbers\n");
		return 1;
	}
	probe_exe(s.exe, sizeof(s.exe));
	/* A shell that started us left our path there; it is no job's. */
	unsetenv("_");
	if (argc >= 2 && strcmp(argv[1], "start") == 0) {
		return start(argc - 2, argv + 2, &s, stub_run);
	}
	if (argc >= 2 && strcmp(argv[1], "attach") == 0) {
		return start(argc - 2, argv + 2, &s, stub_attach);
	}
	if (argc == 3 && strcmp(argv[1], "--self-check") == 0) {
		return self_check(s.exe, argv[2]);
	}
	if (argc == 2 && strcmp(argv[1], "remove") == 0) {
		if (probe_unlink(s.exe) == -1 && errno != ENOENT) {
			fprintf(stderr, "sandmux-agent: cannot remove %s: "
			    "%s\n", s.exe, strerror(errno));
			return 1;
		}
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "wait") == 0) {
		return wait_here();
	}
	if (argc == 2 && strcmp(argv[1], "version") == 0) {
		link_our_versions(versions);
		printf("sandmux-agent %s protocol %s\n", AGENT_VERSION,
		    versions);
		return 0;
	}
	return usage("unknown command");
}
