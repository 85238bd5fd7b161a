/* SPDX-License-Identifier: MIT */
/* joblist.c - JOBS: what a worker tells of every job there is. */
#include "job.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "tree.h"
#include "worker.h"

#define LIST_MS 5000u			/* to look at all processes */

static enum wire_job_state
state_of(const struct job *job, const struct tree *tree)
{
	size_t i;

	if (job->over) {
		return job->gone || job->reaped ? WIRE_JOB_ENDED :
		    WIRE_JOB_BACKGROUND;
	}
	for (i = 0; i < tree->count; i++) {
		if (tree->all[i].pid == job->leader) {
			return tree->all[i].state == 'T' ? WIRE_JOB_STOPPED :
			    WIRE_JOB_RUNNING;
		}
	}
	return WIRE_JOB_RUNNING;
}

/* In a worker, which has its own copy of all jobs by its fork. */
static size_t
encode_job(const struct job *job, struct tree *tree, uint8_t *buf, size_t cap)
{
	struct wire msg = { .type = WIRE_JOB };
	struct wire_job *j = &msg.u.job;
	struct wire_exec_info info;
	struct wire_result r = { .outcome = WIRE_EXITED };
	size_t i, len;

	job_result(job, &r, &info);
	j->job = job->id;
	j->outcome = r.outcome;
	j->code = r.code;
	j->uid = job->uid;
	j->pid = (uint32_t)job->leader;
	j->state = (uint8_t)state_of(job, tree);
	j->age_us = clock_now() - job->started;
	j->detached = job->log != NULL;
	j->terminal = job->pipes.terminal;
	j->user = wire_string(job->user);
	j->command = (struct wire_bytes){ (const uint8_t *)job->command,
	    job->command_len };
	j->cpu_us = job->usage.user_us + job->usage.system_us;
	j->processes = job->reaped ? 0 : tree_mark(tree, job->init);
	if (j->processes > 0) {
		j->cpu_us = 0;		/* its init's own has those reaped */
	}
	for (i = 0; i < tree->count && j->processes > 0; i++) {
		if (tree->all[i].inside || tree->all[i].pid == job->init) {
			j->cpu_us += tree->all[i].cpu_us;
		}
	}
	return wire_encode(&msg, buf, cap, &len) == WIRE_OK ? len : 0;
}

static void
list_child(const struct worker_child *c, void *arg)
{
	static uint8_t buf[2048];
	struct tree tree = { NULL, 0 };
	struct job *job = NULL;
	size_t len;

	(void)arg;
	/* A storm's new ones could be ahead of us for ever. */
	if (tree_read(&tree, clock_now() + LIST_MS *
	    (uint64_t)CLOCK_MS) == -1) {
		tree.count = 0;		/* hidden: then without these figures */
	}
	while ((job = job_next(job)) != NULL) {
		if (!job_counts(job)) {
			continue;
		}
		len = encode_job(job, &tree, buf + 4, sizeof(buf) - 4);
		memcpy(buf, (uint8_t[4]){ 0, 0, (uint8_t)(len >> 8),
		    (uint8_t)len }, 4);
		if (len > 0 && write(c->out, buf, len + 4) !=
		    (ssize_t)len + 4) {
			worker_fail(c->note, WIRE_STEP_WRITE, errno, "jobs");
		}
	}
	worker_done(c->note, NULL, 0);
}

void
job_list(struct session_request *req)
{
	worker_start(req, WORKER_OUT, list_child, NULL);
}
