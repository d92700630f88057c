/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a target's descriptors again. Runs in the sampler's thread; must not
 * close what has become a file of the program: fgt_fd_close() sees to it.
 */
#include "agent/capture/sampled.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/capture/threads/fd_budget.h"
#include "ringbuf/base/fd.h"

#define SHORT_NS UINT64_C(10000000000)
#define SHORT_EFFECT                                                               \
	": threads that begin may be missing, other threads keep the stacks that " \
	"they had; "

static const char program_is_short[] =
	"the program has no file descriptor left" SHORT_EFFECT
	"raise its limit (ulimit -n, LimitNOFILE=)";
static const char system_is_short[] =
	"the system has no room for another open file" SHORT_EFFECT
	"raise it (sysctl fs.file-max), or find the process that keeps so many open";

static bool has_directories(const struct fgt_sampled *sampled)
{
	const struct fgt_process *process = &sampled->look.process;

	return process->proc_fd >= 0 && process->task_fd >= 0 &&
	       fgt_fd_apart_is_kept(process->proc_fd) &&
	       fgt_fd_apart_is_kept(process->task_fd);
}

/* They save opening files again and again, nothing else. */
static void close_kept(struct fgt_sampled *sampled)
{
	struct fgt_thread_table *threads = &sampled->look.threads;
	struct fgt_thread *thread = NULL;
	struct fgt_thread_aside *aside;

	while ((thread = fgt_thread_table_next(threads, thread))) {
		aside = fgt_thread_store_find_aside(&threads->table, thread);
		if (aside)
			fgt_fd_budget_close(threads->budget,
					    &aside->schedstat_fd);
		if (thread->active)
			fgt_fd_budget_close(threads->budget,
					    &thread->active->syscall_fd);
	}
	fgt_fd_budget_close(threads->budget, &sampled->look.leader_stat_fd);
}

static void give_back(struct fgt_sampled *sampled, const struct fgt_tick *tick)
{
	const char *before = sampled->fds_limit;

	sampled->fds_limit = sampled->look.budget->is_system_short
				     ? system_is_short
				     : program_is_short;
	sampled->claimed_ns = tick->mono_ns;
	sampled->look.threads.is_stale = true;
	fgt_fd_budget_forgo(sampled->look.budget);
	close_kept(sampled);
	if (sampled->fds_limit != before)
		fgt_sampled_log(sampled, sampled->fds_limit);
}

void fgt_sampled_check_fds(struct fgt_sampled *sampled,
			   const struct fgt_tick *tick)
{
	struct fgt_fd_budget *budget = sampled->look.budget;

	if (!has_directories(sampled))
		budget->has_lost = true;
	else if (!fgt_fd_apart_has_room(sampled->look.process.task_fd))
		fgt_fd_budget_note(budget, -EMFILE);
	if (budget->is_short) {
		budget->is_short = false;
		give_back(sampled, tick);
	} else if (budget->is_tight &&
		   tick->mono_ns - sampled->claimed_ns > SHORT_NS) {
		sampled->fds_limit = NULL;
		sampled->claimed_ns = tick->mono_ns;
		fgt_fd_budget_claim(budget);
	}
}

void fgt_sampled_reopen_fds(struct fgt_sampled *sampled,
			    const struct fgt_tick *tick)
{
	struct fgt_thread_table *threads = &sampled->look.threads;
	char text[240];
	int rc = fgt_process_reopen(&sampled->look.process);

	threads->task_fd = sampled->look.process.task_fd;
	close_kept(sampled);
	if (rc < 0) {
		snprintf(text, sizeof(text),
			 "threads keep the stacks that they had: the program "
			 "has closed the recorder's descriptors, and /proc "
			 "cannot be opened again: %s: let it close them "
			 "before recording starts",
			 strerror(-rc));
		sampled->lacks_fds = true;
		fgt_sampled_explain(sampled, text);
		return;
	}
	if (sampled->lacks_fds) /* it was logged; that is over */
		sampled->lacks_fds = sampled->is_explained = false;
	threads->is_stale = true;
	fgt_thread_table_look_at_all(threads, tick->mono_ns);
	/* The images' files have gone the same way. */
	fgt_sampled_reread(sampled, tick, true);
}
