/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at threads by their context switches. Runs in the sampler's thread;
 * reads only.
 *
 * What a thread was doing is evaluated for an instant in the middle of when the
 * interrupts take samples, which lend their stacks: later, a thread that waits
 * for what they delay is idle. The sampler looks a little later still, whatever
 * the thread does by then: its registers were written down when it left its
 * CPU, and its stack is unchanged until it gets another one.
 */
#include "agent/capture/look/look_parts.h"

#include <errno.h>

/* The kernel's task states (include/linux/sched.h). */
#define TASK_STOPPED 0x04u
#define TASK_TRACED  0x08u

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

/* ---- Edges -------------------------------------------------------------- */

static const struct fgt_switch_block *
block_at(const struct fgt_switch_slot *slot, uint16_t number)
{
	return &slot->block[number % FGT_SWITCH_BLOCKS];
}

/* A time of a block, within half an hour of the instant. */
static uint64_t block_ns(uint32_t units, uint64_t instant_ns)
{
	uint64_t now = instant_ns >> FGT_SWITCH_UNIT;

	return (now + (uint64_t)(int32_t)(units - (uint32_t)now))
	       << FGT_SWITCH_UNIT;
}

/*
 * Blocks that began up to the instant; the slot may know of later ones. least:
 * so many had begun by the last look's. What the slot has of those may be of
 * any age, or of none, and look like the future.
 */
static uint16_t blocks_at(const struct fgt_switch_slot *slot,
			  uint64_t instant_ns, uint16_t least)
{
	uint16_t blocks = slot->blocks;
	uint32_t i = 0;

	if (slot->off.ns <= instant_ns)
		return blocks;
	/* That time is exact: the last block may begin in the instant's own
	 * unit, and after it. */
	if (slot->off.task_state && blocks != least) {
		blocks--;
		i++;
	}
	for (; i < FGT_SWITCH_BLOCKS && blocks != least; i++, blocks--) {
		uint16_t last = (uint16_t)(blocks - 1);

		if (block_ns(block_at(slot, last)->off, instant_ns) <=
		    instant_ns)
			break;
	}
	return blocks;
}

/* Off its CPU, and not because it was put off. */
static bool is_blocked_at(const struct fgt_switch_slot *slot,
			  uint64_t instant_ns)
{
	enum fgt_whereabouts where = fgt_whereabouts_at(slot, instant_ns);
	const struct fgt_switch_off *off =
		where == FGT_OFF_BEFORE ? &slot->before : &slot->off;

	/* It slept before it was seen. */
	return where != FGT_ON && (off->task_state || !off->ns);
}

static void add_edge(struct fgt_edge_list *edges, uint64_t ns, bool is_on)
{
	if (!edges->count)
		edges->is_on_first = is_on;
	edges->ns[edges->count++] = ns;
}

/* For so long that a trace of runs and blocks alone would be wrong. */
static bool has_waited(const struct fgt_switch_slot *slot,
		       const struct fgt_switch_seen *before,
		       uint64_t instant_ns)
{
	uint64_t waited_ns = (uint64_t)(slot->waited - before->waited)
			     << FGT_SWITCH_UNIT;

	return waited_ns > (instant_ns - before->looked_ns) / 16;
}

void fgt_switch_seen_take(struct fgt_switch_seen *seen,
			  const struct fgt_switch_slot *slot,
			  uint64_t instant_ns, struct fgt_edge_list *ret_edges)
{
	const struct fgt_switch_seen before = *seen;
	uint16_t first = (uint16_t)(before.blocks - 1);
	uint16_t kept = (uint16_t)(slot->blocks - first);

	ret_edges->count = 0;
	seen->looked_ns = instant_ns;
	seen->blocks = blocks_at(slot, instant_ns, before.blocks);
	seen->waited = slot->waited;
	seen->is_blocked = is_blocked_at(slot, instant_ns);
	if (!before.looked_ns || kept > FGT_SWITCH_BLOCKS ||
	    has_waited(slot, &before, instant_ns))
		return;
	for (uint16_t i = first; i != seen->blocks; i++) {
		const struct fgt_switch_block *block = block_at(slot, i);
		uint64_t on_ns = block_ns(block->on, instant_ns);

		if (i != first)
			add_edge(ret_edges, block_ns(block->off, instant_ns),
				 false);
		if ((i != first || before.is_blocked) && block->on &&
		    on_ns <= instant_ns)
			add_edge(ret_edges, on_ns, true);
	}
}

static struct fgt_thread_switches *switches_of(const struct fgt_look *look,
					       const struct fgt_thread *thread)
{
	return fgt_thread_table_switches(&look->threads, thread);
}

static void take_edges(struct fgt_look *look, const struct fgt_tick *tick,
		       struct fgt_thread *thread,
		       const struct fgt_switch_slot *slot)
{
	struct fgt_thread_switches *switches = switches_of(look, thread);
	struct fgt_switch_seen *seen = &switches->seen;

	fgt_switch_seen_take_wakes(seen,
				   &look->switches->slots[switches->index],
				   tick->instant_ns, &look->wakes);
	fgt_switch_seen_take(seen, slot, tick->instant_ns, &look->edges);
}

/* Where it fails, the next look does not know since when its edges are. */
static bool read_slot(const struct fgt_look *look,
		      struct fgt_thread_switches *switches,
		      struct fgt_switch_slot *ret_slot)
{
	if (fgt_switches_read(look->switches, switches->index, ret_slot))
		return true;
	switches->seen.looked_ns = 0;
	return false;
}

bool fgt_switch_has_left(const struct fgt_switch_slot *slot,
			 uint64_t sampled_ns, uint64_t instant_ns)
{
	uint64_t off_ns = slot->off.ns > instant_ns ? slot->before.ns
						    : slot->off.ns;

	return off_ns > sampled_ns;
}

bool fgt_look_switch_sampled(struct fgt_look *look, const struct fgt_tick *tick,
			     struct fgt_thread *thread, uint64_t sampled_ns)
{
	struct fgt_thread_switches *switches = switches_of(look, thread);
	struct fgt_switch_slot slot;
	bool is_known;

	look->edges.count = look->wakes.count = look->wakes.lost = 0;
	if (!look->switches || !switches)
		return true;
	/* Before its first switch it has been on its CPU all along. */
	is_known = read_slot(look, switches, &slot) && slot.version;
	if (is_known &&
	    (fgt_whereabouts_at(&slot, tick->instant_ns) != FGT_ON ||
	     fgt_switch_has_left(&slot, sampled_ns, tick->instant_ns)))
		return false;
	switches->shown_ns = 0;
	if (is_known)
		take_edges(look, tick, thread, &slot);
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
	switches->shown_state = state;
	switches->is_shown_runnable = state == FGT_STATE_RUNNABLE;
}

/* Number of frames in tick->frames, or an error. */
static int64_t unwind(struct fgt_look *look, const struct fgt_tick *tick,
		      struct fgt_thread *thread,
		      const struct fgt_switch_off *off)
{
	bool is_in_kernel = !off->task_state && off->call >= 0;
	struct fgt_snapshot snapshot;
	int64_t len = fgt_look_stack_begin(look, tick, thread, off->sp, off->pc,
					   &snapshot);

	if (len == -EPERM || len == -EACCES || len == -ESRCH)
		return len;
	snapshot.is_blocked = off->call >= 0;
	fgt_regs_set(&snapshot.regs, fgt_arch_host.fp, off->fp);
	return (int64_t)fgt_look_stack_blocked(look, tick, thread, &snapshot,
					       is_in_kernel ? FGT_MARKER_KERNEL
							    : 0);
}

static void keep(const struct fgt_look *look, const struct fgt_tick *tick,
		 struct fgt_thread *thread, const struct fgt_switch_off *off,
		 size_t count)
{
	struct fgt_look_thread *thread_look = thread->active->look;

	if (off->task_state) {
		thread_look->block_state = 0; /* the slot has it */
		fgt_look_place_turn(thread_look, switches_of(look, thread),
				    off);
		fgt_switch_place_note(switches_of(look, thread), off,
				      &thread_look->last_block, tick->frames,
				      count, look->stacks.generation);
	}
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
 * last times, or is again (the same call, stack pointer and frame pointer): it
 * was that stack, unless others have been read there, too. What the ring shows
 * of another call, or of the thread while it ran, is not where it is blocked.
 */
static struct fgt_verdict find_then(struct fgt_look *look,
				    const struct fgt_tick *tick,
				    struct fgt_thread *thread,
				    const struct fgt_switch_slot *slot,
				    const struct fgt_switch_off *off)
{
	static const struct fgt_kept_stack none;
	const struct fgt_look_thread *thread_look = thread->active->look;
	const struct fgt_thread_switches *switches = switches_of(look, thread);
	const struct fgt_kept_stack *known;
	bool is_last_known;
	uint32_t state;

	if (switches->shown_ns == off->ns && off->ns &&
	    switches->is_shown_runnable == is_runnable(off, tick->instant_ns))
		return (struct fgt_verdict){ .kind = FGT_VERDICT_AS_BEFORE };
	if (!off->task_state)
		return find_running(look, thread, off);
	known = fgt_look_place_find(thread_look, switches, off);
	if (!known && fgt_switch_place_is_same(off, &slot->off) &&
	    learn_block(look, tick, thread, slot))
		known = &thread_look->last_block;
	state = state_of(thread, off, tick->instant_ns);
	is_last_known = !fgt_state_is_blocked(state) ||
			(switches->shown_ns && switches->shown_state == state);
	settle(look, thread, state, off);
	look->then = *off;
	if (!known && !is_last_known)
		return fgt_verdict_stack(NULL, 0, state);
	return fgt_look_kept(look, known ? known : &none, state,
			     fgt_switch_place_is_shared(switches, off)
				     ? FGT_MARKER_NOT_SAMPLED
				     : 0);
}

static struct fgt_verdict find(struct fgt_look *look,
			       const struct fgt_tick *tick,
			       struct fgt_thread *thread,
			       const struct fgt_switch_slot *slot)
{
	enum fgt_whereabouts where = fgt_whereabouts_at(slot, tick->instant_ns);
	const struct fgt_switch_off *off = &slot->off;
	struct fgt_verdict verdict;

	if (where == FGT_ON)
		return find_running(look, thread, NULL);
	/* The sampler may not have seen it leave before. */
	if (where == FGT_OFF_BEFORE && slot->before.ns)
		off = &slot->before;
	if (where != FGT_OFF_THEN && off == &slot->off &&
	    find_still(look, tick, thread, off, &verdict))
		return verdict;
	return find_then(look, tick, thread, slot, off);
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
	uint16_t blocks;

	look->then.ns = 0;
	if (!look->switches || !switches)
		return false;
	*ret_verdict = (struct fgt_verdict){ .kind = FGT_VERDICT_AS_BEFORE };
	/* Being switched at this very moment. Only leaving its CPU marks it
	 * again, not getting one. */
	if (!read_slot(look, switches, &slot)) {
		thread->needs_look = ret_verdict->has_moved = true;
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
	blocks = switches->seen.blocks;
	take_edges(look, tick, thread, &slot);
	*ret_verdict = find(look, tick, thread, &slot);
	ret_verdict->edges = &look->edges;
	ret_verdict->has_moved = switches->seen.blocks != blocks;
	/* What it does since is for the next tick: its change has been
	 * taken. */
	if (!slot.is_on &&
	    (slot.off.ns > tick->instant_ns ||
	     (slot.off.woken_us && !is_runnable(&slot.off, tick->instant_ns))))
		thread->needs_look = true;
	return true;
}
