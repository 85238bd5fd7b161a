/* SPDX-License-Identifier: MIT */
/* probe.c - facts about this sandbox and about the agent's own file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent.h"
#include "file.h"

#define LANDLOCK_VERSION_FLAG 1u	/* musl has no <linux/landlock.h> */
#define INJECTED ".sandmux-"		/* how injected files begin */

static bool on_terminal;

void
probe_terminal(bool terminal)
{
	on_terminal = terminal;
}

void
probe_exe(char *out, size_t cap)
{
	ssize_t n = readlink("/proc/self/exe", out, cap - 1);

	out[n > 0 && (size_t)n < cap ? n : 0] = '\0';
}

int
probe_unlink(const char *exe)
{
	const char *base = strrchr(exe, '/');

	/* A baked agent must never remove itself from an image. */
	if (base == NULL || strncmp(base + 1, INJECTED,
	    sizeof(INJECTED) - 1) != 0) {
		errno = EINVAL;
		return -1;
	}
	return unlink(exe);
}

/* A line "Name:\tvalue" of /proc/self/status; 0 if /proc is hidden. */
static uint64_t
status_value(const char *status, const char *name, int base)
{
	const char *at = strstr(status, name);

	return at == NULL ? 0 : strtoull(at + strlen(name), NULL, base);
}

static void
read_status(struct wire_probe_info *info)
{
	static char status[8192];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd == -1 ? -1 : read(fd, status, sizeof(status) - 1);

	status[n > 0 ? n : 0] = '\0';
	info->caps = status_value(status, "\nCapEff:\t", 16);
	info->bounding = status_value(status, "\nCapBnd:\t", 16);
	info->seccomp = (uint32_t)status_value(status, "\nSeccomp:\t", 10);
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
		info->flags |= WIRE_PROBE_NO_NEW_PRIVS;
	}
	if (fd != -1) {
		close(fd);
	}
}

static uint32_t
landlock_abi(void)
{
#ifdef SYS_landlock_create_ruleset
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0,
	    LANDLOCK_VERSION_FLAG);

	return abi > 0 ? (uint32_t)abi : 0;
#else
	return 0;
#endif
}

/* Tried, not asked: access() knows nothing of Landlock. */
static bool
usable(const char *dir)
{
	char path[256 + sizeof("/" INJECTED "XXXXXX")];
	struct statvfs vfs;
	int fd;

	if (access(dir, W_OK | X_OK) == -1 || statvfs(dir, &vfs) == -1 ||
	    (vfs.f_flag & (ST_NOEXEC | ST_RDONLY)) != 0) {
		return false;
	}
	snprintf(path, sizeof(path), "%s/" INJECTED "XXXXXX", dir);
	fd = mkstemp(path);
	if (fd == -1) {
		return false;
	}
	unlink(path);
	close(fd);
	return true;
}

/* Candidates for an injected agent, as a list's raw bytes. */
static void
list_dirs(struct wire_list *list, uint8_t *raw, const char *cwd)
{
	const char *dirs[] = { "/", "/usr/local/bin", "/tmp", "/var/tmp",
	    "/dev/shm", "/run", getenv("HOME"), cwd };
	uint32_t len;
	size_t i, j;

	list->raw.at = raw;
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		for (j = 0; dirs[i] != NULL && j < i; j++) {
			if (dirs[j] != NULL && strcmp(dirs[j], dirs[i]) == 0) {
				break;
			}
		}
		if (j < i || dirs[i] == NULL || dirs[i][0] != '/' ||
		    strlen(dirs[i]) > 255 || !usable(dirs[i])) {
			continue;
		}
		len = (uint32_t)strlen(dirs[i]);
		memcpy(raw + list->raw.len, (uint8_t[4]){ 0, 0, 0,
		    (uint8_t)len }, 4);
		memcpy(raw + list->raw.len + 4, dirs[i], len);
		list->raw.len += 4 + len;
		list->count++;
	}
}

size_t
probe_info(uint8_t *buf)
{
	static char exe[1024], cwd[1024];
	static uint8_t dirs[8 * 260];
	struct wire msg = { .type = WIRE_PROBE_INFO };
	struct wire_probe_info *info = &msg.u.probe_info;
	uint8_t hash[SEAL_KEY];
	struct utsname name;
	size_t len;
	int fd;

	info->uid = (uint32_t)geteuid();
	info->gid = (uint32_t)getegid();
	info->pid = (uint32_t)getppid();
	info->landlock = landlock_abi();
	info->flags |= on_terminal ? WIRE_PROBE_TTY : 0u;
	read_status(info);
	info->program = wire_string(AGENT_VERSION);
	info->arch = wire_string(uname(&name) == 0 ? name.machine : "");
	probe_exe(exe, sizeof(exe));
	info->exe = wire_string(exe);
	info->cwd = wire_string(getcwd(cwd, sizeof(cwd)) != NULL ? cwd : "");
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (fd != -1 && seal_hash_fd(fd, hash) == 0) {
		info->hash = (struct wire_bytes){ hash, SEAL_KEY };
	}
	list_dirs(&info->dirs, dirs, cwd);
	return wire_encode(&msg, buf, WIRE_INFO_MAX, &len) == WIRE_OK ?
	    len : 0;
}
