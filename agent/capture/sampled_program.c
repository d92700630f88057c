/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes which program a target is, and whose. Runs in the sampler's thread.
 */
#include "agent/capture/sampled.h"

#include <errno.h>

#define YOUNG_TICKS 128u

/*
 * Was there one exec since the owner was known? The loss of the memory is seen
 * before its report where the exec is under way: the next tick has the report,
 * or those of more execs.
 */
static bool is_only_exec(struct fgt_sampled *sampled,
			 const struct fgt_tick *tick)
{
	bool is_report = sampled->execs > 0;
	bool is_known = sampled->is_owner_sure ||
			(is_report && sampled->is_report_due);

	sampled->is_report_due = !is_report && is_known && tick->has_cpu_events;
	return sampled->is_report_due || (is_known && sampled->execs == 1);
}

void fgt_sampled_take_program(struct fgt_sampled *sampled,
			      const struct fgt_tick *tick)
{
	struct fgt_owner owner = { .is_plain = false }; /* unknown: root's */
	bool is_continuous;
	int rc;

	if (sampled->look.is_embedded)
		return;
	rc = fgt_owner_read_at(sampled->look.process.proc_fd, &owner);
	/* What looked like an exec is its end. */
	if (rc == -ENODATA && sampled->execs == 0)
		return;
	is_continuous = is_only_exec(sampled, tick) &&
			fgt_owner_is_same(&sampled->owner, &owner);
	sampled->owner = owner;
	sampled->owner_tick = sampled->look.tick;
	sampled->is_owner_sure = false;
	sampled->program++;
	fgt_target_note_exec(sampled->target, &owner, is_continuous,
			     tick->mono_ns);
}

/* After 1, 2, 4 … ticks: a program that gives up its rights, or hides from
 * other processes, does so early. Later the daemon reads once a second. */
static bool is_read_due(uint64_t ticks)
{
	return ticks > 0 && ticks <= YOUNG_TICKS && (ticks & (ticks - 1)) == 0;
}

/* Apart from what each tick does: it has a large frame. */
__attribute__((noinline)) static void make_sure(struct fgt_sampled *sampled,
						uint64_t tick_ns)
{
	struct fgt_owner owner;

	if (fgt_owner_read_at(sampled->look.process.proc_fd, &owner) < 0)
		return;
	sampled->owner = owner;
	sampled->is_owner_sure = true;
	fgt_target_note_owner(sampled->target, sampled->program, &owner,
			      tick_ns);
}

void fgt_sampled_check_program(struct fgt_sampled *sampled,
			       const struct fgt_tick *tick)
{
	sampled->execs = 0;
	/* What this tick reads is known to be the program's at the next one. */
	if (sampled->look.elapsed_ns)
		sampled->status.checked_ns =
			tick->mono_ns - sampled->look.elapsed_ns;
	if (is_read_due(sampled->look.tick - sampled->owner_tick) &&
	    !sampled->look.is_embedded)
		make_sure(sampled, tick->mono_ns);
}

void fgt_sampled_end_program(struct fgt_sampled *sampled,
			     const struct fgt_tick *tick)
{
	if (sampled->has_exec)
		fgt_sampled_take_program(sampled, tick);
	else if (tick->has_cpu_events && sampled->execs == 0 &&
		 sampled->is_owner_sure)
		sampled->status.checked_ns = tick->mono_ns;
}
