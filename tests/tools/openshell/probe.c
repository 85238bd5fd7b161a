/* SPDX-License-Identifier: MIT */
/*
 * probe.c - a program to put into a sandbox and ask what it can do there.
 *
 * probe echo | sink N | source N | both N | stall | flood FILE | calls |
 *       nested DIR PID
 *
 * The fact tests and figures.py upload it, to the stand-in or to the real
 * one alike.  The stream modes make their terminal raw, print READY and a
 * newline, and then only their data.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PROBE_PERIOD (251 * 256)

/* Byte i is (7 i + i / 251) mod 256: no buffer's size is a period of it. */
static unsigned char table[2 * PROBE_PERIOD];

static void
fill_table(void)
{
	uint64_t i;

	for (i = 0; i < sizeof(table); i++) {
		table[i] = (unsigned char)((i * 7 + i / 251) & 0xff);
	}
}

static void
be_raw(void)
{
	struct termios t;

	if (tcgetattr(0, &t) == 0) {
		cfmakeraw(&t);
		(void)tcsetattr(0, TCSANOW, &t);
	}
	(void)!write(1, "READY\n", 6);
}

static void
write_all(const unsigned char *p, size_t n)
{
	while (n > 0) {
		ssize_t w = write(1, p, n);

		if (w < 0) {
			_exit(1);
		}
		p += w;
		n -= (size_t)w;
	}
}

static void
do_echo(void)
{
	static unsigned char b[PROBE_PERIOD];
	ssize_t r;

	while ((r = read(0, b, sizeof(b))) > 0) {
		write_all(b, (size_t)r);
	}
}

/* How many bytes were as they should be, at most n. */
static uint64_t
do_sink(uint64_t n)
{
	static unsigned char b[PROBE_PERIOD];
	uint64_t i = 0;
	uint64_t bad = 0;

	while (i < n) {
		ssize_t r = read(0, b, sizeof(b));

		if (r <= 0) {
			break;
		}
		if (memcmp(b, table + i % PROBE_PERIOD, (size_t)r) != 0) {
			bad += (uint64_t)r;
		}
		i += (uint64_t)r;
	}
	return i - bad;
}

static void
do_source(uint64_t n)
{
	uint64_t i = 0;

	while (i < n) {
		uint64_t k = n - i < PROBE_PERIOD ? n - i : PROBE_PERIOD;

		write_all(table + i % PROBE_PERIOD, (size_t)k);
		i += k;
	}
}

/* The answer of a sink comes after all that was sent down. */
static void
do_both(uint64_t n)
{
	pid_t pid = fork();
	uint64_t good;

	if (pid == 0) {
		do_source(n);
		_exit(0);
	}
	good = do_sink(n);
	(void)waitpid(pid, NULL, 0);
	(void)dprintf(1, "GOT %llu\n", (unsigned long long)good);
}

/*
 * Writes until nothing more goes for half a second, notes how many bytes
 * went, and exits with all of them unread by anybody.
 */
static void
do_flood(const char *note)
{
	const struct timespec pause_ms = { 0, 10000000 };
	uint64_t n = 0;
	int idle = 0;
	FILE *f;

	(void)fcntl(1, F_SETFL, O_NONBLOCK);
	while (idle < 50) {
		ssize_t w = write(1, table, 4096);

		if (w > 0) {
			n += (uint64_t)w;
			idle = 0;
		} else {
			idle++;
			(void)nanosleep(&pause_ms, NULL);
		}
	}
	f = fopen(note, "w");
	if (f != NULL) {
		(void)fprintf(f, "%llu\n", (unsigned long long)n);
		(void)fclose(f);
	}
}

static void
say(const char *name, long r)
{
	(void)printf("%s %d\n", name, r == -1 ? errno : 0);
	(void)fflush(stdout);
}

static int
child_setuid(void)
{
	return setuid(0) == -1 ? errno : 0;
}

static void
do_ids(void)
{
	int fd;

	errno = child_setuid();
	say("setuid", errno != 0 ? -1 : 0);
	say("setgid", setgid(0));
	fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	say("ptmx", fd);
	fd = open("/dev/pts", O_RDONLY | O_DIRECTORY);
	say("devpts", fd);
	fd = open("/dev", O_RDONLY | O_DIRECTORY);
	say("dev", fd);
	fd = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY);
	say("cgroup", fd);
	say("subreaper", prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
	say("dumpable", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
	say("no_new_privs",
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : -1);
	say("seccomp_mode", prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2 ? 0 : -1);
}

static void
do_sockets(void)
{
	struct sockaddr_un un;
	int p[2];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memset(&un, 0, sizeof(un));
	un.sun_family = AF_UNIX;
	memcpy(un.sun_path + 1, "probe", 5);
	say("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, p));
	say("abstract", bind(fd, (struct sockaddr *)&un,
	    (socklen_t)(sizeof(un.sun_family) + 6)));
}

static void
do_calls(void)
{
	static const struct {
		const char *name;
		long nr;
	} plain[] = {
		{ "memfd_create", SYS_memfd_create },
		{ "pidfd_open", SYS_pidfd_open },
		{ "pidfd_send_signal", SYS_pidfd_send_signal },
		{ "pidfd_getfd", SYS_pidfd_getfd },
		{ "ptrace", SYS_ptrace },
		{ "process_vm_readv", SYS_process_vm_readv },
		{ "process_vm_writev", SYS_process_vm_writev },
		{ "io_uring_setup", SYS_io_uring_setup },
		{ "mount", SYS_mount }, { "umount2", SYS_umount2 },
		{ "pivot_root", SYS_pivot_root },
		{ "fsopen", SYS_fsopen }, { "move_mount", SYS_move_mount },
		{ "open_tree", SYS_open_tree }, { "setns", SYS_setns },
		{ "bpf", SYS_bpf }, { "userfaultfd", SYS_userfaultfd },
		{ "clone3", SYS_clone3 },
	};
	size_t i;

	for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		say(plain[i].name, syscall(plain[i].nr, -1L, 0L, 0L, 0L, 0L,
		    0L));
	}
	say("execveat_empty", syscall(SYS_execveat, 0, "", NULL, NULL,
	    0x1000));
	say("unshare_user", unshare(CLONE_NEWUSER));
	say("clone_user", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0L, 0L,
	    0L, 0L));
	say("seccomp_filter", syscall(SYS_seccomp, 1, 0, NULL));
	say("landlock_abi", syscall(SYS_landlock_create_ruleset, NULL, 0,
	    LANDLOCK_CREATE_RULESET_VERSION) >= 1 ? 0 : -1);
	do_ids();
	do_sockets();
}

/* The attribute of ABI 6, which adds the scopes; headers may be older. */
struct nested_attr {
	uint64_t fs;
	uint64_t net;
	uint64_t scoped;
};

static void
allow(int ruleset, const char *path)
{
	struct landlock_path_beneath_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE |
	    LANDLOCK_ACCESS_FS_EXECUTE;
	attr.parent_fd = open(path, O_PATH | O_CLOEXEC);
	(void)syscall(SYS_landlock_add_rule, ruleset,
	    LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
}

/* A nested domain hides DIR/secret and cannot touch process PID. */
static void
do_nested(const char *dir, pid_t pid)
{
	struct nested_attr attr;
	char path[512];
	int fd, ruleset;

	memset(&attr, 0, sizeof(attr));
	attr.fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
	    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE;
	attr.scoped = 3;	/* abstract sockets, signals */
	(void)snprintf(path, sizeof(path), "%s/secret", dir);
	say("file_before", fd = open(path, O_RDONLY));
	say("signal_before", kill(pid, 0));
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr,
	    sizeof(attr), 0);
	say("ruleset", ruleset);
	allow(ruleset, "/usr");
	say("restrict", syscall(SYS_landlock_restrict_self, ruleset, 0));
	say("file", open(path, O_RDONLY));
	say("signal", kill(pid, 0));
	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	say("environ", open(path, O_RDONLY));
	say("ptmx", open("/dev/ptmx", O_RDWR | O_NOCTTY));
}

int
main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;

	if (strcmp(mode, "calls") == 0) {
		do_calls();
		return 0;
	}
	if (strcmp(mode, "nested") == 0 && argc == 4) {
		do_nested(argv[2], (pid_t)atoi(argv[3]));
		return 0;
	}
	fill_table();
	be_raw();
	if (strcmp(mode, "echo") == 0) {
		do_echo();
	} else if (strcmp(mode, "sink") == 0) {
		(void)dprintf(1, "GOT %llu\n",
		    (unsigned long long)do_sink(n));
	} else if (strcmp(mode, "source") == 0) {
		do_source(n);
	} else if (strcmp(mode, "both") == 0) {
		do_both(n);
	} else if (strcmp(mode, "flood") == 0 && argc == 3) {
		do_flood(argv[2]);
	} else if (strcmp(mode, "stall") == 0) {
		for (;;) {
			(void)pause();
		}
	} else {
		(void)fprintf(stderr, "usage: probe MODE\n");
		return 2;
	}
	return 0;
}
