/* SPDX-License-Identifier: MIT */
/* system.c - what POSIX does not have: each system's own way. */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#define HEAP_BLOCK 65536
#define CLOSE_MAX 65536		/* where close_range() is missing */

int
system_peer(int fd, uid_t *uid, pid_t *pid)
{
#ifdef SO_PEERCRED
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
		return -1;
	}
	*uid = cred.uid;
	*pid = cred.pid;
	return 0;
#else
	gid_t gid;

	*pid = 0;
	return getpeereid(fd, uid, &gid);
#endif
}

void
system_die_with(pid_t parent)
{
#ifdef PR_SET_PDEATHSIG
	prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
	if (getppid() != parent) {
		_exit(127);	/* it ended before we asked */
	}
}

int
system_nonblock(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0) {
		return -1;
	}
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags);
}

int
system_accept(int fd)
{
#ifdef SOCK_CLOEXEC
	return accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
#else
	int got = accept(fd, NULL, NULL);

	if (got >= 0) {
		fcntl(got, F_SETFD, FD_CLOEXEC);
		system_nonblock(got, 1);
	}
	return got;
#endif
}

int
system_pipe(int fds[2])
{
#ifdef __linux__
	return pipe2(fds, O_CLOEXEC);
#else
	if (pipe(fds) < 0) {
		return -1;
	}
	fcntl(fds[0], F_SETFD, FD_CLOEXEC);
	fcntl(fds[1], F_SETFD, FD_CLOEXEC);
	return 0;
#endif
}

void
system_keep_heap_small(void)
{
#ifdef __GLIBC__
	/* A threshold that is set stays; by itself it rises with each free. */
	mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK);
	mallopt(M_TRIM_THRESHOLD, HEAP_BLOCK);
#endif
}

void
system_close_from(int first)
{
	struct rlimit limit;
	int fd, last = CLOSE_MAX;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned)first, ~0u, 0u) == 0) {
		return;
	}
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    limit.rlim_cur < (rlim_t)last) {
		last = (int)limit.rlim_cur;
	}
	for (fd = first; fd < last; fd++) {
		close(fd);
	}
}

void
system_batch(void)
{
#ifdef SCHED_BATCH
	const struct sched_param normal = { .sched_priority = 0 };

	sched_setscheduler(0, SCHED_BATCH, &normal);
#endif
}

int
system_reserve(int fd, off_t from, off_t len)
{
#ifdef __linux__
	return fallocate(fd, FALLOC_FL_KEEP_SIZE, from, len);
#else
	(void)fd;
	(void)from;
	(void)len;
	errno = ENOTSUP;
	return -1;
#endif
}
