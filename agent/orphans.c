/* SPDX-License-Identifier: MIT */
/* orphans.c - what inits that died have left: found, stopped and ended. */
#include "orphans.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"
#include "job.h"
#include "tree.h"
#include "worker.h"

#define STEP_MS 5u			/* between two looks at them */
#define AGAIN_MS 2000u			/* until those that run are stopped */

static struct {
	uint64_t until;			/* 0: none are known */
	pid_t helper;			/* 0: there is none */
	uint64_t helped_by;		/* it is not waited for any longer */
	uint64_t help_at;		/* not before */
} orphans;

void
orphans_expect(void)
{
	orphans.until = clock_now() + INIT_EFFORT_MS * (uint64_t)CLOCK_MS;
}

bool
orphans_over(void)
{
	return orphans.until == 0;
}

bool
orphans_know(pid_t pid)
{
	return orphans.helper != 0 && pid == orphans.helper;
}

bool
orphans_reaped(pid_t pid)
{
	bool known = orphans_know(pid);

	if (known) {
		orphans.helper = 0;
	}
	return known;
}

/* ---- stopping them ---------------------------------------------------- */

static struct tree_process helper;	/* in itself */

/* What was forked after it began is unknown to it, and may be a job's. */
static bool
not_theirs(const struct tree_process *p)
{
	return p->pid == helper.pid || p->started >= helper.started ||
	    jobs_know(p->pid);
}

/* A process of its own, since to look at all there are takes its time. */
static void
stop_them(uint64_t now)
{
	pid_t core = getpid();

	orphans.help_at = now + AGAIN_MS * (uint64_t)CLOCK_MS;
	orphans.helped_by = now + TREE_FREEZE_MS * (uint64_t)CLOCK_MS;
	orphans.helper = fork();
	if (orphans.helper == 0) {
		core_wipe();
		worker_close_others(-1, -1, -1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0);
		if (getppid() == core && tree_self(&helper) == 0) {
			tree_freeze(core, not_theirs);
		}
		_exit(0);
	}
	if (orphans.helper == -1) {
		orphans.helper = 0;	/* KILL alone has to do */
	}
}

/* ---- the loop's turn -------------------------------------------------- */

static void
end_one(pid_t pid, void *any)
{
	if (!jobs_know(pid)) {
		*(bool *)any = true;
		tree_end(pid);
	}
}

void
orphans_interest(struct pollset *set, uint64_t now)
{
	if (orphans.until != 0) {
		pollset_wake(set, now + STEP_MS * CLOCK_MS);
	}
}

void
orphans_run(uint64_t now)
{
	bool any = false;

	if (orphans.until == 0) {
		return;
	}
	if (orphans.helper == 0 && now >= orphans.help_at) {
		stop_them(now);
	}
	if (orphans.helper != 0 && now < orphans.helped_by) {
		return;
	}
	tree_children(end_one, &any);
	if (!any || now >= orphans.until) {
		orphans.until = 0;
		orphans.help_at = 0;
	}
}
