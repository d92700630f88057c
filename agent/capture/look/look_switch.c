/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at threads by their context switches. Runs in the sampler's thread;
 * reads only.
 *
 * What a thread was doing is evaluated for an instant that lies shortly before
 * the interrupts that take samples: they delay what they interrupt, and a
 * thread that waits for that is idle a few microseconds later. Samples lend
 * their stacks. The sampler looks a little later still, whatever the thread
 * does by then: its registers were written down when it left its CPU, and its
 * stack is unchanged until it gets another one.
 */
#include "agent/capture/look/look_parts.h"

#include <errno.h>

/* The kernel's task states (include/linux/sched.h). */
#define TASK_STOPPED 0x04u
#define TASK_TRACED  0x08u

/*
 * A thread may block this often between two looks. If it blocked more often,
 * nothing is claimed for the time between: it may have run for little of it.
 */
#define EDGE_BLOCKS_MAX 2u
/* … between ticks that are far apart, because the rate was lowered. */
#define EDGE_BLOCKS_MAX_SLOW 1u

enum fgt_whereabouts fgt_whereabouts_at(const struct fgt_switch_slot *slot,
					uint64_t instant_ns)
{
	/* It has left its CPU since: the first time decided where it was. */
	if (slot->off.ns > instant_ns)
		return slot->was_on ? FGT_ON : FGT_OFF_BEFORE;
	if (!slot->is_on)
		return FGT_OFF_STILL;
	return slot->on_ns <= instant_ns ? FGT_ON : FGT_OFF_THEN;
}

/*
 * The kernel's half keeps the first time on a CPU after the last look, and
 * learns of a look only some time after its instant. What came in between is
 * either what it has kept (nothing came before the instant), or is lost.
 */

/* The first time on a CPU after the instant, which is not in first_on_ns. */
static uint64_t on_after(const struct fgt_switch_slot *slot,
			 uint64_t instant_ns)
{
	if (slot->on_ns <= instant_ns)
		return 0;
	return slot->is_first ? slot->on_ns : UINT64_MAX;
}

uint64_t fgt_switch_seen_take(struct fgt_switch_seen *seen,
			      const struct fgt_switch_slot *slot,
			      uint64_t instant_ns)
{
	uint64_t on_ns = seen->next_on_ns;

	if (!on_ns && slot->first_on_ns > seen->looked_ns)
		on_ns = slot->first_on_ns;
	seen->looked_ns = instant_ns;
	if (on_ns > instant_ns && on_ns != UINT64_MAX)
		return 0; /* the next look's, wherever it is kept */
	seen->next_on_ns =
		slot->first_on_ns > instant_ns ? 0 : on_after(slot, instant_ns);
	return on_ns == UINT64_MAX ? 0 : on_ns;
}

static struct fgt_thread_switches *switches_of(const struct fgt_look *look,
					       const struct fgt_thread *thread)
{
	return fgt_thread_table_switches(&look->threads, thread);
}

/*
 * When it came on a CPU first since the last look, 0 if not known. At once
 * after slot was read: what comes in between is lost.
 */
static uint64_t take_on(struct fgt_look *look, struct fgt_thread *thread,
			const struct fgt_switch_slot *slot, uint64_t instant_ns)
{
	struct fgt_thread_switches *switches = switches_of(look, thread);
	struct fgt_switch_seen *seen = &switches->seen;
	bool is_kept = fgt_switches_look(look->switches, switches->index,
					 slot->version, instant_ns);
	uint64_t on_ns = fgt_switch_seen_take(seen, slot, instant_ns);
	unsigned int most = look->is_slowed ? EDGE_BLOCKS_MAX_SLOW
					    : EDGE_BLOCKS_MAX;

	if (!is_kept && !seen->next_on_ns && slot->first_on_ns <= instant_ns)
		seen->next_on_ns = UINT64_MAX;
	seen->is_plain = (uint16_t)(slot->blocks - seen->blocks) <= most;
	seen->blocks = slot->blocks;
	return seen->is_plain ? on_ns : 0;
}

bool fgt_look_switch_sampled(struct fgt_look *look, const struct fgt_tick *tick,
			     struct fgt_thread *thread, uint64_t *ret_on_ns)
{
	struct fgt_thread_switches *switches = switches_of(look, thread);
	struct fgt_switch_slot slot;
	bool is_known;

	*ret_on_ns = 0;
	if (!look->switches || !switches)
		return true;
	/* Before its first switch it has been on its CPU all along. */
	is_known = fgt_switches_read(look->switches, switches->index, &slot) &&
		   slot.version;
	if (is_known && fgt_whereabouts_at(&slot, tick->instant_ns) != FGT_ON)
		return false;
	switches->shown_ns = 0;
	if (is_known && thread->is_shown_running)
		switches->seen.blocks = slot.blocks;
	else if (is_known)
		*ret_on_ns = take_on(look, thread, &slot, tick->instant_ns);
	return true;
}

bool fgt_switch_is_unmoved(const struct fgt_switch_slot *slot,
			   uint64_t instant_ns)
{
	return slot->on_ns <= instant_ns &&
	       (slot->is_on || !slot->off.task_state);
}

bool fgt_look_switch_unmoved(const struct fgt_look *look,
			     const struct fgt_tick *tick,
			     const struct fgt_thread *thread)
{
	const struct fgt_thread_switches *switches = switches_of(look, thread);
	struct fgt_switch_slot slot;

	if (!look->switches || !switches)
		return true;
	return fgt_switches_read(look->switches, switches->index, &slot) &&
	       fgt_switch_is_unmoved(&slot, tick->instant_ns);
}

/* ---- Places ------------------------------------------------------------ */

static bool is_same_place(const struct fgt_switch_off *a,
			  const struct fgt_switch_off *b)
{
	return a->pc == b->pc && a->sp == b->sp && a->fp == b->fp &&
	       a->call == b->call;
}

/* Two places that have one bit get markers that only one of them needs. */
static uint64_t bit_of(const struct fgt_switch_off *place)
{
	uint64_t mixed = place->pc * 31 + place->sp * 7 + place->fp +
			 (uint64_t)place->call;

	return 1ull << (mixed * 0x9e3779b97f4a7c15u >> 58);
}

void fgt_switch_place_note(struct fgt_thread_switches *switches,
			   const struct fgt_switch_off *place,
			   const struct fgt_kept_stack *last,
			   const struct fgt_frame *frames, size_t count,
			   uint64_t generation)
{
	if (is_same_place(place, &switches->blocked_at) &&
	    fgt_kept_stack_differs(last, frames, count, generation))
		switches->shared_places |= bit_of(place);
	switches->blocked_at = *place;
}

bool fgt_switch_place_is_shared(const struct fgt_thread_switches *switches,
				const struct fgt_switch_off *place)
{
	return switches->shared_places & bit_of(place);
}

/* ---- States ------------------------------------------------------------ */

/*
 * Off its CPU at the instant, it wants one: it was put off, or has been woken
 * (in a time that is rounded up to a whole microsecond).
 */
static bool is_runnable(const struct fgt_switch_off *off, uint64_t instant_ns)
{
	return !off->task_state ||
	       (off->woken_us &&
		off->ns + (off->woken_us - 1) * 1000ull <= instant_ns);
}

static uint32_t state_of(struct fgt_thread *thread,
			 const struct fgt_switch_off *off, uint64_t instant_ns)
{
	const struct fgt_blocked blocked = {
		.call = off->call < 0 ? -1 : off->call,
		.sp = off->sp,
		.pc = off->pc,
	};

	if (is_runnable(off, instant_ns))
		return FGT_STATE_RUNNABLE;
	if (off->task_state & (TASK_STOPPED | TASK_TRACED))
		return FGT_STATE_STOPPED;
	return fgt_blocked_state(&blocked, thread);
}

/* off: where it left its CPU; NULL: it runs. */
static void settle(const struct fgt_look *look, struct fgt_thread *thread,
		   uint32_t state, const struct fgt_switch_off *off)
{
	struct fgt_thread_switches *switches = switches_of(look, thread);

	thread->is_shown_running = state == FGT_STATE_RUNNING;
	thread->is_new = false;
	/* That it got a CPU is not reported, and a sample may be missing. */
	thread->needs_look = state == FGT_STATE_RUNNABLE;
	switches->shown_ns = off ? off->ns : 0;
	switches->is_shown_runnable = state == FGT_STATE_RUNNABLE;
}

/* Number of frames in tick->frames, or an error. */
static int64_t unwind(struct fgt_look *look, const struct fgt_tick *tick,
		      struct fgt_thread *thread,
		      const struct fgt_switch_off *off)
{
	struct fgt_snapshot snapshot = {
		.stack = tick->buffer,
		.stack_start = off->sp,
		.stack_limit = fgt_stacks_limit(&look->stacks, off->sp),
		.is_blocked = off->call >= 0,
	};
	bool is_in_kernel = !off->task_state && off->call >= 0;
	int64_t len;

	fgt_regs_set(&snapshot.regs, fgt_arch_host.sp, off->sp);
	fgt_regs_set(&snapshot.regs, fgt_arch_host.pc, off->pc);
	fgt_regs_set(&snapshot.regs, fgt_arch_host.fp, off->fp);
	len = fgt_blocked_copy(thread->tid, off->sp, tick->buffer,
			       fgt_look_stack_first_bytes(thread));
	if (len == -EPERM || len == -EACCES || len == -ESRCH)
		return len;
	snapshot.stack_len = len > 0 ? (size_t)len : 0;
	return (int64_t)fgt_look_stack_blocked(look, tick, thread, &snapshot,
					       is_in_kernel ? FGT_MARKER_KERNEL
							    : 0);
}

static void keep(const struct fgt_look *look, const struct fgt_tick *tick,
		 struct fgt_thread *thread, const struct fgt_switch_off *off,
		 size_t count)
{
	struct fgt_look_thread *thread_look = thread->active->look;

	if (off->task_state)
		fgt_switch_place_note(switches_of(look, thread), off,
				      &thread_look->last_block, tick->frames,
				      count, look->stacks.generation);
	fgt_kept_stack_set(off->task_state ? &thread_look->last_block
					   : &thread_look->last_run,
			   tick->frames, count, look->stacks.generation);
}

/*
 * It stands still where it left its CPU. False: it does not, or its memory
 * cannot be read.
 */
static bool find_still(struct fgt_look *look, const struct fgt_tick *tick,
		       struct fgt_thread *thread,
		       const struct fgt_switch_off *off,
		       struct fgt_verdict *ret_verdict)
{
	uint32_t state = state_of(thread, off, tick->instant_ns);
	int64_t count = unwind(look, tick, thread, off);

	if (count < 0 || look->who_ran->look(look->who_ran_state, thread) != 0)
		return false;
	keep(look, tick, thread, off, (size_t)count);
	if (off->task_state)
		look->samples_blocked++;
	else
		look->samples_running++;
	settle(look, thread, state, off);
	*ret_verdict = fgt_verdict_stack(tick->frames, (size_t)count, state);
	return true;
}

/* It runs, or off: it was put off its CPU, and has got one again since. */
static struct fgt_verdict find_running(const struct fgt_look *look,
				       struct fgt_thread *thread,
				       const struct fgt_switch_off *off)
{
	uint32_t state = off ? FGT_STATE_RUNNABLE : FGT_STATE_RUNNING;

	settle(look, thread, state, off);
	return fgt_look_kept(look, &thread->active->look->last_run, state,
			     FGT_MARKER_NOT_SAMPLED);
}

/* Off its CPU once more, and unwound before it got one again? */
static bool learn_block(struct fgt_look *look, const struct fgt_tick *tick,
			struct fgt_thread *thread,
			const struct fgt_switch_slot *slot)
{
	uint32_t index = switches_of(look, thread)->index;
	int64_t count;

	if (slot->is_on || slot->off.task_state == 0)
		return false;
	count = unwind(look, tick, thread, &slot->off);
	if (count < 0 ||
	    fgt_switches_version(look->switches, index) != slot->version)
		return false;
	keep(look, tick, thread, &slot->off, (size_t)count);
	return true;
}

/*
 * It runs again, and its stack with it. Blocked where it was found blocked the
 * last time, or is again (the same call, stack pointer and frame pointer): it
 * was that stack, unless others have been read there, too.
 */
static struct fgt_verdict find_then(struct fgt_look *look,
				    const struct fgt_tick *tick,
				    struct fgt_thread *thread,
				    const struct fgt_switch_slot *slot,
				    const struct fgt_switch_off *off)
{
	static const struct fgt_kept_stack none;
	const struct fgt_kept_stack *known = &thread->active->look->last_block;
	const struct fgt_thread_switches *switches = switches_of(look, thread);
	uint32_t state;

	if (switches->shown_ns == off->ns && off->ns &&
	    switches->is_shown_runnable == is_runnable(off, tick->instant_ns))
		return (struct fgt_verdict){ .kind = FGT_VERDICT_AS_BEFORE };
	if (!off->task_state)
		return find_running(look, thread, off);
	if (!is_same_place(off, &switches->blocked_at) &&
	    !(is_same_place(off, &slot->off) &&
	      learn_block(look, tick, thread, slot)))
		known = &none;
	state = state_of(thread, off, tick->instant_ns);
	settle(look, thread, state, off);
	return fgt_look_kept(look, known, state,
			     fgt_switch_place_is_shared(switches, off)
				     ? FGT_MARKER_NOT_SAMPLED
				     : 0);
}

/* *ret_off: where it left its CPU before the instant; NULL: it was on one. */
static struct fgt_verdict find(struct fgt_look *look,
			       const struct fgt_tick *tick,
			       struct fgt_thread *thread,
			       const struct fgt_switch_slot *slot,
			       const struct fgt_switch_off **ret_off)
{
	enum fgt_whereabouts where = fgt_whereabouts_at(slot, tick->instant_ns);
	const struct fgt_switch_off *off = &slot->off;
	struct fgt_verdict verdict;

	*ret_off = NULL;
	if (where == FGT_ON)
		return find_running(look, thread, NULL);
	/* The sampler may not have seen it leave before. */
	if (where == FGT_OFF_BEFORE && slot->before.ns)
		off = &slot->before;
	*ret_off = off;
	if (where != FGT_OFF_THEN && off == &slot->off &&
	    find_still(look, tick, thread, off, &verdict))
		return verdict;
	return find_then(look, tick, thread, slot, off);
}

static struct fgt_verdict find_with_edges(struct fgt_look *look,
					  const struct fgt_tick *tick,
					  struct fgt_thread *thread,
					  const struct fgt_switch_slot *slot)
{
	const struct fgt_thread_switches *switches = switches_of(look, thread);
	const struct fgt_switch_off *off;
	uint64_t since_ns = switches->seen.looked_ns;
	uint64_t on_ns = take_on(look, thread, slot, tick->instant_ns);
	struct fgt_verdict verdict = find(look, tick, thread, slot, &off);

	verdict.on_ns = on_ns;
	if (off && !is_runnable(off, tick->instant_ns) && off->ns > since_ns &&
	    switches->seen.is_plain && off->ns <= tick->instant_ns)
		verdict.off_ns = off->ns;
	return verdict;
}

/* It has not moved, and nothing has woken it, since it was shown. */
static bool is_shown(const struct fgt_thread_switches *switches,
		     const struct fgt_switch_slot *slot)
{
	bool wants_cpu = !slot->off.task_state || slot->off.woken_us;

	return switches->shown_ns && !slot->is_on &&
	       switches->shown_ns == slot->off.ns &&
	       switches->is_shown_runnable == wants_cpu;
}

bool fgt_look_switched(struct fgt_look *look, const struct fgt_tick *tick,
		       struct fgt_thread *thread,
		       struct fgt_verdict *ret_verdict)
{
	struct fgt_thread_switches *switches = switches_of(look, thread);
	struct fgt_switch_slot slot;

	if (!look->switches || !switches)
		return false;
	*ret_verdict = (struct fgt_verdict){ .kind = FGT_VERDICT_AS_BEFORE };
	/* Being switched at this very moment. Only leaving its CPU marks it
	 * again, not getting one. */
	if (!fgt_switches_read(look->switches, switches->index, &slot)) {
		thread->needs_look = true;
		return true;
	}
	switches->version = slot.version;
	if (!slot.version && switches->is_handed) {
		slot.off = switches->handed;
		switches->is_handed = false;
	} else if (!slot.off.ns) {
		return false;
	}
	/* What is left of a thread that has ended, procfs shows. */
	if (slot.off.task_state & FGT_SWITCH_TASK_DEAD)
		return false;
	/* Looked at for another reason than that it ran: nothing is new. */
	if (is_shown(switches, &slot) &&
	    (!thread->needs_look || switches->is_shown_runnable))
		return true;
	thread->needs_look = false;
	*ret_verdict = find_with_edges(look, tick, thread, &slot);
	/* What it does since is for the next tick: its change has been
	 * taken. */
	if (!slot.is_on &&
	    (slot.off.ns > tick->instant_ns ||
	     (slot.off.woken_us && !is_runnable(&slot.off, tick->instant_ns))))
		thread->needs_look = true;
	return true;
}
