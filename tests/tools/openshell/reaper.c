/* SPDX-License-Identifier: MIT */
/* reaper.c - pid 1 waits for every process; sessions learn of their own. */
#include "supervisor.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAPER_SLOTS 4096

static struct {
	pid_t pid;	/* 0 free, -1 given up by its session */
	int fd;
	int status;
	int ended;
} slots[REAPER_SLOTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t main_pid;
static int main_status;

void
reaper_lock(void)
{
	(void)pthread_mutex_lock(&lock);
}

void
reaper_unlock(void)
{
	(void)pthread_mutex_unlock(&lock);
}

int
reaper_add(pid_t pid, int *fd)
{
	int i;

	for (i = 0; i < REAPER_SLOTS; i++) {
		if (slots[i].pid == 0) {
			slots[i].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
			slots[i].pid = pid;
			slots[i].ended = 0;
			*fd = slots[i].fd;
			return i;
		}
	}
	return -1;
}

int
reaper_take(int slot)
{
	int status;

	reaper_lock();
	status = slots[slot].status;
	(void)close(slots[slot].fd);
	slots[slot].fd = -1;
	slots[slot].pid = 0;
	reaper_unlock();
	return status;
}

void
reaper_forget(int slot)
{
	(void)reaper_take(slot);
}

static void
note(pid_t pid, int status)
{
	uint64_t one = 1;
	int i;

	for (i = 0; i < REAPER_SLOTS; i++) {
		if (slots[i].pid == pid && !slots[i].ended) {
			slots[i].status = status;
			slots[i].ended = 1;
			(void)!write(slots[i].fd, &one, sizeof(one));
			return;
		}
	}
}

int
reaper_run(void)
{
	pid_t pid;
	int status;
	int over = 0;

	reaper_lock();
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == main_pid) {
			main_status = status;
			over = 1;
		}
		note(pid, status);
	}
	reaper_unlock();
	return over;
}

void
reaper_set_main(pid_t pid)
{
	main_pid = pid;
}

int
reaper_main_status(void)
{
	return main_status;
}
