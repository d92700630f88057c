/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of single threads. Runs in the sampler's thread; must never touch a
 * thread that is blocked, nor hold one that runs for longer than a copy takes.
 */
#include "agent/capture/look/look_parts.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "ringbuf/base/clock.h"

#define UNWIND_TRIES 6
/* Of FGT_SNAPSHOT_MAX_BYTES each, once the first is not enough. */
#define PIECES_MAX   (int)(FGT_STACKS_READ_MAX_BYTES / FGT_SNAPSHOT_MAX_BYTES)
#define FRESH_MAX_NS 1000000u
/* A thread that goes deep does so again. */
#define LACKS_SAMPLES 100u
/* Two readings are further apart: a sample between them may differ. */
#define BETWEEN_MAX_NS 25000000u
/* A deeper one costs more than a look may: it is tried less often. */
#define PAUSE_MAX_LOOKS 100u
#define STOPPED_BYTES	16384u /* of a stack that is read only once */

_Static_assert(FGT_SNAPSHOT_MAX_BYTES / FGT_THREAD_READ_UNIT <= UINT16_MAX,
	       "a thread has bits for what is read of its stack");

/* What is read once cannot be extended; later readings can have more room. */
static void note_size(const struct fgt_tick *tick, struct fgt_thread *thread,
		      size_t need_bytes, size_t len)
{
	if (need_bytes > len && need_bytes > fgt_thread_read_bytes(thread))
		fgt_thread_set_read_bytes(thread, need_bytes);
	if (tick->running->note_size)
		tick->running->note_size(tick->running_state, need_bytes > len);
}

int64_t fgt_look_copy(struct fgt_look *look, const struct fgt_thread *thread,
		      uint64_t address, uint8_t *buffer, size_t len)
{
	int64_t may = fgt_stacks_readable(&look->stacks, address, len);

	if (may <= 0)
		return may == 0 || may == -ENOENT ? -EFAULT : may;
	return fgt_blocked_copy(thread->tid, address, buffer, (size_t)may);
}

/*
 * What is missing of this stack lies in a mapped file, which is not read. It
 * counts once.
 */
static size_t mark_refused(struct fgt_look *look, const struct fgt_tick *tick,
			   size_t count)
{
	bool is_refused = look->stacks.readable.is_refused;

	look->stacks.readable.is_refused = false;
	if (!is_refused || !count ||
	    !(tick->frames[count - 1].flags & FGT_FRAME_MARKER))
		return count;
	return fgt_stacks_cut(&look->stacks, FGT_MARKER_TRUNCATED_UNREADABLE,
			      tick->frames, count);
}

static bool read_more(struct fgt_look *look, const struct fgt_tick *tick,
		      struct fgt_thread *thread, size_t need_bytes,
		      struct fgt_snapshot *snapshot)
{
	int64_t len;

	if (need_bytes <= snapshot->stack_len)
		return false;
	len = fgt_look_copy(look, thread, snapshot->stack_start, tick->buffer,
			    need_bytes);
	if (len <= (int64_t)snapshot->stack_len)
		return false;
	snapshot->stack_len = (size_t)len;
	fgt_thread_set_read_bytes(thread, (size_t)len);
	return true;
}

/* The stack that a signal interrupted whose handler runs on another one. */
static bool read_other(struct fgt_look *look, const struct fgt_tick *tick,
		       const struct fgt_thread *thread, uint64_t start,
		       size_t need_bytes, struct fgt_snapshot *snapshot)
{
	int64_t len;

	if (!start || need_bytes > FGT_SNAPSHOT_MAX_BYTES)
		return false;
	len = fgt_look_copy(look, thread, start, tick->other_buffer,
			    need_bytes);
	if (len < 0 || (snapshot->other && snapshot->other_start == start &&
			len <= (int64_t)snapshot->other_len))
		return false;
	snapshot->other = tick->other_buffer;
	snapshot->other_start = start;
	snapshot->other_len = (size_t)len;
	return true;
}

/*
 * The registers that hold the call's arguments: vfork(2) keeps its return
 * address in one, while its child uses the stack.
 */
static bool read_args(struct fgt_look *look, struct fgt_thread *thread,
		      struct fgt_snapshot *snapshot)
{
	const struct fgt_regs *regs = &snapshot->regs;
	struct fgt_blocked blocked;
	const size_t count = sizeof(blocked.args) / sizeof(blocked.args[0]);
	uint64_t value;

	if (fgt_regs_get(regs, fgt_arch_host.call_args[0], &value) ||
	    fgt_blocked_look(&look->threads, thread, &blocked) < 0 ||
	    blocked.is_running || blocked.call < 0 ||
	    blocked.sp != regs->value[fgt_arch_host.sp] ||
	    blocked.pc != regs->value[fgt_arch_host.pc])
		return false;
	for (size_t i = 0; i < count; i++)
		fgt_regs_set(&snapshot->regs, fgt_arch_host.call_args[i],
			     blocked.args[i]);
	return true;
}

/* So much of it is read at first: as much as was needed the last time. */
static size_t first_bytes(const struct fgt_thread *thread)
{
	size_t bytes = fgt_thread_read_bytes(thread);

	return bytes ? bytes : FGT_SNAPSHOT_FIRST_BYTES;
}

int64_t fgt_look_stack_begin(struct fgt_look *look, const struct fgt_tick *tick,
			     const struct fgt_thread *thread, uint64_t sp,
			     uint64_t pc, struct fgt_snapshot *ret_snapshot)
{
	int64_t rc;

	look->stacks.readable.is_refused = false;
	fgt_stacks_find_place(&look->stacks, sp, tick->mono_ns);
	*ret_snapshot = (struct fgt_snapshot){ .stack = tick->buffer };
	ret_snapshot->stack_limit = fgt_stacks_limit(&look->stacks, sp);
	ret_snapshot->stack_start = sp;
	fgt_regs_set(&ret_snapshot->regs, fgt_arch_host.sp, sp);
	fgt_regs_set(&ret_snapshot->regs, fgt_arch_host.pc, pc);
	rc = fgt_look_copy(look, thread, sp, tick->buffer, first_bytes(thread));
	ret_snapshot->stack_len = rc > 0 ? (size_t)rc : 0;
	return rc;
}

/*
 * The rest of a stack of which one snapshot cannot hold more, piece by piece.
 * is_later: its thread runs. Returns the number of frames.
 */
static size_t go_on(struct fgt_look *look, const struct fgt_tick *tick,
		    const struct fgt_thread *thread, uint8_t *buffer,
		    bool is_later, enum fgt_marker leaf, size_t count,
		    struct fgt_unwind_result *result)
{
	const uint64_t overlap = is_later ? FGT_UNWIND_OVERLAP_BYTES : 0;
	struct fgt_snapshot snapshot = { .stack = buffer };
	struct fgt_look_thread *thread_look = thread->active->look;
	uint64_t last_sp = 0;
	int64_t len;
	int i;

	if (!result->next_sp ||
	    thread_look->deep_passed++ < thread_look->deep_pause)
		return count;
	for (i = 0; i < PIECES_MAX && result->next_sp > last_sp; i++) {
		last_sp = result->next_sp;
		snapshot.stack_start = last_sp - overlap;
		snapshot.stack_limit = fgt_stacks_limit(&look->stacks, last_sp);
		len = snapshot.stack_limit - snapshot.stack_start;
		if (len > FGT_SNAPSHOT_MAX_BYTES)
			len = FGT_SNAPSHOT_MAX_BYTES;
		len = fgt_look_copy(look, thread, snapshot.stack_start, buffer,
				    (size_t)len);
		if (len <= (int64_t)overlap)
			break;
		snapshot.stack_len = (size_t)len;
		count = fgt_stacks_go_on(&look->stacks, &snapshot, is_later,
					 leaf, tick->frames, result);
	}
	thread_look->deep_passed = 0;
	if (i < PIECES_MAX || !result->next_sp)
		thread_look->deep_pause = 0;
	else if (thread_look->deep_pause < PAUSE_MAX_LOOKS)
		thread_look->deep_pause = thread_look->deep_pause * 2u + 1;
	return count;
}

/* has_known_maps: what these do not explain is no stack. */
static size_t unwind_blocked(struct fgt_look *look, const struct fgt_tick *tick,
			     struct fgt_thread *thread,
			     struct fgt_snapshot *snapshot,
			     enum fgt_marker leaf, bool has_known_maps,
			     struct fgt_unwind_result *ret_result)
{
	struct fgt_stacks *stacks = &look->stacks;
	struct fgt_unwind_result result = { .need_maps = false };
	bool has_more = true;
	size_t count = 0;

	for (int i = 0; i < UNWIND_TRIES && has_more; i++) {
		count = fgt_stacks_unwind(stacks, snapshot, leaf, tick->frames,
					  &result);
		has_more = result.need_maps && !has_known_maps &&
			   fgt_stacks_refresh_if_stale(stacks, tick->mono_ns);
		if (has_more)
			continue;
		has_more = read_more(look, tick, thread, result.need_bytes,
				     snapshot);
		has_more |= read_other(look, tick, thread, result.need_other,
				       result.need_other_bytes, snapshot);
		if (result.need_args)
			has_more |= read_args(look, thread, snapshot);
	}
	*ret_result = result;
	return go_on(look, tick, thread, tick->buffer, false, leaf, count,
		     ret_result);
}

size_t fgt_look_stack_blocked(struct fgt_look *look,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread,
			      struct fgt_snapshot *snapshot,
			      enum fgt_marker leaf)
{
	struct fgt_unwind_result result;
	size_t count = unwind_blocked(look, tick, thread, snapshot, leaf, false,
				      &result);

	/* It may stay blocked: looked at again when the maps are known, or the
	 * rules. */
	thread->is_incomplete = result.need_maps;
	if (result.reason == FGT_MARKER_TRUNCATED_LATE)
		thread->is_incomplete = look->stacks.is_late = true;
	return mark_refused(look, tick, count);
}

bool fgt_look_stack_again(struct fgt_look *look, const struct fgt_tick *tick,
			  struct fgt_thread *thread,
			  struct fgt_snapshot *snapshot,
			  const struct fgt_frame *frames, size_t count)
{
	struct fgt_stacks *stacks = &look->stacks;
	bool was_stale = stacks->is_stale, is_same;
	struct fgt_unwind_result result;

	is_same = unwind_blocked(look, tick, thread, snapshot, 0, true,
				 &result) == count &&
		  !memcmp(frames, tick->frames, count * sizeof(*frames));
	/* Else these were words that a thread which runs left there. */
	if (!is_same) {
		stacks->is_stale = was_stale;
		fgt_stacks_drop_last(stacks);
	}
	return is_same;
}

/* ---- Of a thread that runs ---------------------------------------------- */

/* Was the part of a stack that is read later the same at the tick before? */
static bool is_as_before(const struct fgt_look *look,
			 const struct fgt_look_thread *thread_look,
			 const struct fgt_frame *frames, size_t count)
{
	const struct fgt_kept_stack *kept = &thread_look->later;

	return look->tick - thread_look->later_tick == 1 &&
	       look->elapsed_ns <= BETWEEN_MAX_NS && kept->count == count &&
	       kept->generation == look->stacks.generation &&
	       !memcmp(kept->frames + 1, frames, count * sizeof(*frames));
}

/*
 * Frames that were read later than the sample was taken are shown if all calls
 * match and the thread can hardly have moved in between: the sample was taken a
 * moment ago, or they were the same a tick ago, before it. An older reading
 * proves nothing: the thread may be back where it was. Neither does one after
 * the thread has blocked.
 */
static size_t cut_later(struct fgt_look *look, const struct fgt_tick *tick,
			struct fgt_thread *thread, bool is_fresh, size_t count,
			const struct fgt_unwind_result *result)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_frame *later = tick->frames + result->later_first;
	size_t later_count = count - result->later_first;
	bool is_good;

	if (!result->later_first)
		return count;
	is_good = result->is_later_checked &&
		  fgt_look_switch_unmoved(look, tick, thread) &&
		  (is_fresh ||
		   is_as_before(look, thread_look, later, later_count));
	fgt_kept_stack_set(&thread_look->later, later,
			   result->is_later_checked ? later_count : 0,
			   look->stacks.generation);
	thread_look->later_tick = look->tick;
	if (is_good)
		return count;
	return fgt_stacks_cut(&look->stacks, FGT_MARKER_TRUNCATED_NO_STACK,
			      tick->frames, result->later_first);
}

/* For the next sample: see fgt_active_thread. */
static void note_lack(struct fgt_thread *thread,
		      const struct fgt_snapshot *snapshot,
		      const struct fgt_unwind_result *result)
{
	struct fgt_active_thread *active = thread->active;
	uint64_t sp = result->need_other;

	if (snapshot->is_other_later || sp ||
	    (result->next_sp && !active->look->deep_pause))
		active->lacks_stack = LACKS_SAMPLES;
	else if (active->lacks_stack)
		active->lacks_stack--;
	if (sp && (!active->interrupted_sp || sp < active->interrupted_sp))
		active->interrupted_sp = sp;
}

/*
 * A snapshot that can be had only once. buffer: room for more of the stack,
 * which is not the snapshot's; is_fresh: it was taken a moment ago.
 */
static size_t unwind_once(struct fgt_look *look, const struct fgt_tick *tick,
			  struct fgt_thread *thread,
			  struct fgt_snapshot *snapshot, bool is_fresh,
			  enum fgt_marker leaf)
{
	struct fgt_stacks *stacks = &look->stacks;
	struct fgt_unwind_result result;
	bool has_more = true;
	size_t count = 0;

	for (int i = 0; i < UNWIND_TRIES && has_more; i++) {
		count = fgt_stacks_unwind(stacks, snapshot, leaf, tick->frames,
					  &result);
		has_more = result.need_maps &&
			   fgt_stacks_refresh_if_stale(stacks, tick->mono_ns);
		if (has_more)
			continue;
		note_lack(thread, snapshot, &result);
		/* A handler may be over by the next tick: what it interrupted
		 * is elsewhere then, and looks like it all the same. */
		has_more = is_fresh &&
			   read_other(look, tick, thread, result.need_other,
				      result.need_other_bytes, snapshot);
		snapshot->is_other_later |= has_more;
	}
	note_size(tick, thread, result.need_bytes, snapshot->stack_len);
	count = go_on(look, tick, thread, tick->other_buffer, true, leaf, count,
		      &result);
	count = cut_later(look, tick, thread, is_fresh, count, &result);
	return mark_refused(look, tick, count);
}

/* Samples of all CPUs are taken as the tick begins, unless it begins late;
 * those that are handed out when it is over, since then. */
static bool is_just_taken(const struct fgt_tick *tick)
{
	if (tick->is_over)
		return true;
	return tick->has_cpu_events && !tick->missed &&
	       (!tick->instant_ns ||
		tick->mono_ns - tick->instant_ns < FRESH_MAX_NS);
}

size_t fgt_look_stack_sampled(struct fgt_look *look,
			      const struct fgt_tick *tick,
			      struct fgt_thread *thread,
			      const struct fgt_running_sample *sample)
{
	enum fgt_marker leaf = sample->is_kernel ? FGT_MARKER_KERNEL : 0;
	struct fgt_snapshot snapshot = {
		.regs = sample->regs,
		.stack = sample->stack,
		.stack_len = sample->stack_len,
		.other = sample->other,
		.other_start = sample->other_start,
		.other_len = sample->other_len,
	};
	uint64_t sp = 0;

	if (!sample->has_regs ||
	    !fgt_regs_get(&sample->regs, fgt_arch_host.sp, &sp))
		return 0;
	snapshot.stack_start = sp;
	look->stacks.readable.is_refused = false;
	fgt_stacks_find_place(&look->stacks, sp, tick->mono_ns);
	/* A copy may end early at a page that was never written to. */
	snapshot.stack_limit = fgt_stacks_limit(&look->stacks, sp);
	return unwind_once(look, tick, thread, &snapshot, is_just_taken(tick),
			   leaf);
}

size_t fgt_look_stack_waker(struct fgt_look *look, const struct fgt_tick *tick,
			    struct fgt_thread *thread,
			    const struct fgt_switch_stack *stack)
{
	struct fgt_snapshot snapshot = {
		.stack = stack->bytes,
		.stack_len = stack->len,
		.stack_start = stack->sp,
	};

	look->stacks.readable.is_refused = false;
	fgt_stacks_find_place(&look->stacks, stack->sp, tick->mono_ns);
	snapshot.stack_limit = fgt_stacks_limit(&look->stacks, stack->sp);
	fgt_regs_set(&snapshot.regs, fgt_arch_host.sp, stack->sp);
	fgt_regs_set(&snapshot.regs, fgt_arch_host.pc, stack->pc);
	fgt_regs_set(&snapshot.regs, fgt_arch_host.fp, stack->fp);
	return unwind_once(look, tick, thread, &snapshot, false, 0);
}

struct stopped {
	struct fgt_look *look;
	const struct fgt_tick *tick;
	const struct fgt_thread *thread;
	struct fgt_snapshot snapshot;
};

/* The thread stands still: copy, and nothing else. */
static void copy_stopped(void *context, const struct fgt_regs *regs)
{
	struct stopped *stopped = context;
	struct fgt_snapshot *snapshot = &stopped->snapshot;
	uint32_t size = fgt_thread_read_bytes(stopped->thread);
	int64_t len;

	snapshot->regs = *regs;
	snapshot->stack_start = regs->value[fgt_arch_host.sp];
	len = fgt_look_copy(stopped->look, stopped->thread,
			    snapshot->stack_start, stopped->tick->buffer,
			    size > STOPPED_BYTES ? size : STOPPED_BYTES);
	snapshot->stack_len = len > 0 ? (size_t)len : 0;
}

int fgt_look_stack_running(struct fgt_look *look, const struct fgt_tick *tick,
			   struct fgt_thread *thread, size_t *ret_count)
{
	struct stopped stopped = { .look = look,
				   .tick = tick,
				   .thread = thread,
				   .snapshot = { .stack = tick->buffer } };
	uint64_t from_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	int rc;

	look->stacks.readable.is_refused = false;
	rc = tick->running->request(tick->running_state, thread->tid,
				    copy_stopped, &stopped);

	/* Charged to the target, which stands still for less than this. */
	look->stopped_ns += fgt_clock_ns(CLOCK_MONOTONIC) - from_ns;
	if (rc < 0)
		return rc;
	fgt_stacks_find_place(&look->stacks, stopped.snapshot.stack_start,
			      tick->mono_ns);
	stopped.snapshot.stack_limit =
		fgt_stacks_limit(&look->stacks, stopped.snapshot.stack_start);
	*ret_count =
		unwind_once(look, tick, thread, &stopped.snapshot, true, 0);
	return 0;
}

struct fgt_verdict fgt_look_kept(const struct fgt_look *look,
				 const struct fgt_kept_stack *kept,
				 uint32_t state, enum fgt_marker leaf)
{
	const struct fgt_frame *frames;
	size_t count;

	frames = fgt_kept_stack_show(kept, look->stacks.generation, leaf,
				     &count);
	if (frames)
		return fgt_verdict_stack(frames, count, state);
	return (struct fgt_verdict){
		.kind = FGT_VERDICT_MARKED,
		.state = state,
		.leaf = leaf ? leaf : FGT_MARKER_NOT_SAMPLED,
	};
}
