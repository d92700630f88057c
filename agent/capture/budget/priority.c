/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The class of the sampler's thread. Runs in that thread.
 *
 * Late ticks see what the threads did meanwhile, and a nice value helps little
 * where whole groups compete: real-time, for the one or two per cent of a CPU
 * that the ticks take. Many targets, or one whose rate has yet to be lowered,
 * may take a whole CPU; then no other thread must go without it.
 */
#include "agent/capture/budget/priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICE	     (-10)
#define SLICE_NS     100000u /* the least that there is */
#define SPAN_NS	     500000000u
#define MOST_PERCENT 25 /* of a CPU as a real-time thread */
#define BACK_PERCENT 10 /* … and to become one again */

/* The first version of the kernel's struct sched_attr. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

void fgt_priority_shorten_slice(void)
{
	/* Set: tools that watch memory do not see what the kernel writes. */
	struct attributes attributes = { .size = sizeof(attributes) };

	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) <
		    0 ||
	    attributes.policy != SCHED_OTHER)
		return;
	attributes.runtime_ns = SLICE_NS;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* Only this thread, no child. Ordinary users are refused, and do without. */
static void set_class(bool is_first)
{
	const struct sched_param first = { .sched_priority = 1 }, other = { 0 };

	sched_setscheduler(
		0, (is_first ? SCHED_FIFO : SCHED_OTHER) | SCHED_RESET_ON_FORK,
		is_first ? &first : &other);
	/* If it is, or has become, an ordinary one. */
	fgt_priority_shorten_slice();
}

void fgt_priority_begin(struct fgt_priority *priority, bool may_be_first,
			uint64_t now_ns, uint64_t cpu_ns)
{
	*priority = (struct fgt_priority){
		.is_first = may_be_first,
		.may_be_first = may_be_first,
		.begun_ns = now_ns,
		.begun_cpu_ns = cpu_ns,
	};
	/* Kept for the time that it is not a real-time one. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
	if (may_be_first)
		set_class(true);
	else
		fgt_priority_shorten_slice();
}

bool fgt_priority_judge(struct fgt_priority *priority, uint64_t now_ns,
			uint64_t cpu_ns)
{
	uint64_t elapsed_ns = now_ns - priority->begun_ns;
	uint64_t used_ns = cpu_ns - priority->begun_cpu_ns;
	unsigned int percent = priority->is_first ? MOST_PERCENT : BACK_PERCENT;
	bool was_first = priority->is_first;

	if (elapsed_ns < SPAN_NS)
		return false;
	priority->is_first = priority->may_be_first &&
			     used_ns <= elapsed_ns / 100 * percent;
	priority->begun_ns = now_ns;
	priority->begun_cpu_ns = cpu_ns;
	return priority->is_first != was_first;
}

void fgt_priority_review(struct fgt_priority *priority, uint64_t now_ns,
			 uint64_t cpu_ns)
{
	if (fgt_priority_judge(priority, now_ns, cpu_ns))
		set_class(priority->is_first);
}
