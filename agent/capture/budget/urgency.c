/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class of the sampler's thread. Runs in that thread.
 *
 * Late ticks see what the threads did meanwhile, and a nice value helps little
 * where whole groups compete: real-time, for the one or two per cent of a CPU
 * that the ticks take. Many targets, or one that the governor has yet to slow
 * down, may take a whole CPU; then nobody else must go without it.
 */
#include "agent/capture/budget/urgency.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#define NICE	     (-10)
#define SPAN_NS	     500000000u
#define MOST_PERCENT 25 /* of a CPU as a real-time thread */
#define BACK_PERCENT 10 /* … and to become one again */

/* Only this thread, no child. Ordinary users are refused, and do without. */
static void set_class(bool is_first)
{
	const struct sched_param first = { .sched_priority = 1 }, other = { 0 };

	sched_setscheduler(
		0, (is_first ? SCHED_FIFO : SCHED_OTHER) | SCHED_RESET_ON_FORK,
		is_first ? &first : &other);
}

void fgt_urgency_begin(struct fgt_urgency *urgency, bool may_be_first,
		       uint64_t now_ns, uint64_t cpu_ns)
{
	*urgency = (struct fgt_urgency){
		.is_first = may_be_first,
		.may_be_first = may_be_first,
		.begun_ns = now_ns,
		.begun_cpu_ns = cpu_ns,
	};
	/* Kept for the time that it is not a real-time one. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	if (may_be_first)
		set_class(true);
}

bool fgt_urgency_judge(struct fgt_urgency *urgency, uint64_t now_ns,
		       uint64_t cpu_ns)
{
	uint64_t elapsed_ns = now_ns - urgency->begun_ns;
	uint64_t used_ns = cpu_ns - urgency->begun_cpu_ns;
	unsigned int percent = urgency->is_first ? MOST_PERCENT : BACK_PERCENT;
	bool was_first = urgency->is_first;

	if (elapsed_ns < SPAN_NS)
		return false;
	urgency->is_first = urgency->may_be_first &&
			    used_ns <= elapsed_ns / 100 * percent;
	urgency->begun_ns = now_ns;
	urgency->begun_cpu_ns = cpu_ns;
	return urgency->is_first != was_first;
}

void fgt_urgency_review(struct fgt_urgency *urgency, uint64_t now_ns,
			uint64_t cpu_ns)
{
	if (fgt_urgency_judge(urgency, now_ns, cpu_ns))
		set_class(urgency->is_first);
}
