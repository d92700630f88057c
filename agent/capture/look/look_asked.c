/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of threads whose samples the ticks ask for. A sample comes a moment
 * after the tick that asks, and is known at the next one; until then the tick
 * goes on with what is known. Runs in the sampler's thread.
 */
#include "agent/capture/look/look_parts.h"

#define WAITING_MAX_TICKS 2u /* with a stack that is not marked */
#define CREDIT_MAX_TICKS  8u
/* A sample so soon after its tick is mostly of the same call of a function. */
#define SOON_NS 1250000u
/* With which a thread begins. */
#define ROOT_FRAMES 3u

enum fgt_running_answer fgt_look_ask(const struct fgt_tick *tick,
				     struct fgt_thread *thread)
{
	if (!tick->running->ask)
		return FGT_RUNNING_NO_SAMPLE;
	return tick->running->ask(tick->running_state, thread, tick->mono_ns);
}

void fgt_verdict_set_past(struct fgt_verdict *verdict,
			  const struct fgt_verdict *shown, uint32_t ticks)
{
	if (shown->kind != FGT_VERDICT_STACK)
		return;
	verdict->past_ticks = ticks;
	verdict->past_state = shown->state;
	verdict->past_frames = shown->frames;
	verdict->past_count = shown->frame_count;
}

static bool is_same(const struct fgt_frame *a, const struct fgt_frame *b)
{
	return a->address == b->address && a->image == b->image &&
	       a->flags == b->flags;
}

/* The functions that two stacks have in common from the root. */
static size_t count_common(const struct fgt_look *look,
			   const struct fgt_frame *a, size_t a_count,
			   const struct fgt_frame *b, size_t b_count)
{
	size_t most = a_count < b_count ? a_count : b_count, common = 0;

	while (common < most &&
	       is_same(&a[a_count - 1 - common], &b[b_count - 1 - common]))
		common++;
	return common < most && fgt_stacks_is_one_function(
					&look->stacks, &a[a_count - 1 - common],
					&b[b_count - 1 - common])
		       ? common + 1
		       : common;
}

/*
 * Keeps what is known of ticks in the kernel by the stack that the thread had
 * afterwards, which is the last one that was unwound. is_soon: what it has in
 * common with the sample before the ticks may be called through pointers.
 */
static void keep_callers(const struct fgt_look *look, struct fgt_thread *thread,
			 const struct fgt_frame *frames, size_t count,
			 bool is_soon)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	const struct fgt_frame *before;
	size_t before_count = 0, known, shared = 0;

	before = fgt_kept_stack_show(&thread_look->last_run,
				     look->stacks.generation, 0, &before_count);
	if (before && is_soon)
		shared =
			count_common(look, before, before_count, frames, count);
	known = fgt_look_words_known(look, thread, count, shared);
	fgt_kept_stack_set(&thread_look->callers, frames + count - known, known,
			   look->stacks.generation);
}

/* The thread is in the kernel still: its first function it is in, too. A stack
 * that was cut short does not show that. */
static void keep_root(const struct fgt_look *look, struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	const struct fgt_frame *before;
	size_t count = 0, most = ROOT_FRAMES;

	before = fgt_kept_stack_show(&thread_look->last_run,
				     look->stacks.generation, 0, &count);
	if (count && (before[count - 1].flags & FGT_FRAME_MARKER))
		most = 0;
	if (count < most)
		most = count;
	fgt_kept_stack_set(&thread_look->callers, before + count - most, most,
			   look->stacks.generation);
}

void fgt_look_note_callers(const struct fgt_look *look,
			   struct fgt_thread *thread,
			   const struct fgt_running_sample *sample,
			   const struct fgt_frame *frames, size_t count)
{
	uint64_t sp = 0;

	if (sample->is_after_kernel || sample->was_in_kernel)
		keep_callers(look, thread, frames, count,
			     !sample->was_in_kernel &&
				     sample->late_ns <= SOON_NS);
	if (fgt_regs_get(&sample->regs, fgt_arch_host.sp, &sp))
		fgt_look_words_follow(look, thread, sp, count);
}

void fgt_look_note_sample(struct fgt_thread *thread,
			  const struct fgt_running_sample *sample,
			  const struct fgt_frame *frames, size_t count)
{
	struct fgt_look_thread *thread_look = thread->active->look;

	thread_look->run_leaf =
		sample->is_kernel && count && (frames->flags & FGT_FRAME_MARKER)
			? FGT_MARKER_KERNEL
			: 0;
	thread_look->is_after_kernel = sample->is_after_kernel;
	thread_look->was_in_kernel = sample->was_in_kernel;
	thread_look->call_blur_ns = sample->call_blur_ns;
	thread_look->former_times = thread_look->times;
	thread_look->times = (struct fgt_sample_times){
		.from_ns = sample->time_ns,
		.to_ns = sample->time_ns + sample->call_ns,
		.before_ns = sample->before_ns,
		.next_ns = sample->next_ns,
		.is_of_long_call = sample->call_blur_ns > 0,
	};
	thread_look->is_past = sample->is_past;
}

static struct fgt_verdict show_kernel(const struct fgt_look *look,
				      const struct fgt_thread *thread,
				      uint32_t state)
{
	static const struct fgt_frame marker = {
		.address = FGT_MARKER_KERNEL_DENIED,
		.flags = FGT_FRAME_MARKER,
	};
	const struct fgt_frame *frames;
	size_t count;

	frames = fgt_kept_stack_show(&thread->active->look->callers,
				     look->stacks.generation,
				     FGT_MARKER_KERNEL_DENIED, &count);
	return frames ? fgt_verdict_stack(frames, count, state)
		      : fgt_verdict_stack(&marker, 1, state);
}

/* What its last sample shows. */
static struct fgt_verdict show_sample(const struct fgt_look *look,
				      const struct fgt_thread *thread,
				      uint32_t state)
{
	const struct fgt_look_thread *thread_look = thread->active->look;

	if (thread_look->is_after_kernel)
		return show_kernel(look, thread, state);
	return fgt_look_kept(look, &thread_look->last_run, state,
			     thread_look->run_leaf);
}

/* Ticks that waited for a sample have one state: that of most of them. */
static uint32_t take_pending(const struct fgt_tick *tick,
			     struct fgt_look_thread *thread_look,
			     uint32_t *ret_state)
{
	uint32_t ticks = thread_look->pending_ticks;
	uint32_t waits = ticks ? thread_look->pending_waits : 0;
	bool is_waiting = waits * 2 > ticks;
	uint32_t moved = is_waiting ? ticks - waits : waits;

	for (uint32_t i = 0; i < moved && i < CREDIT_MAX_TICKS; i++)
		fgt_account_move_tick(&thread_look->account, tick->period_ns,
				      is_waiting);
	thread_look->pending_ticks = thread_look->pending_waits = 0;
	*ret_state = is_waiting ? FGT_STATE_RUNNABLE : FGT_STATE_RUNNING;
	return ticks;
}

/*
 * What a sample shows of the ticks that waited for it: these are few, except
 * where it proves that the thread was in the kernel all the time. If it was
 * there at all of them but the last, that one is the sample's: a verdict with
 * the sample's stack takes it.
 */
static void show_past(struct fgt_look *look, const struct fgt_tick *tick,
		      struct fgt_thread *thread, struct fgt_verdict *verdict,
		      bool is_of_sample)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	bool was_in_kernel = thread_look->was_in_kernel;
	struct fgt_verdict shown;
	uint32_t state, ticks = take_pending(tick, thread_look, &state);

	if (!ticks)
		return;
	was_in_kernel &= ticks > 1;
	if (!thread_look->is_after_kernel && !was_in_kernel &&
	    ticks > CREDIT_MAX_TICKS)
		ticks = CREDIT_MAX_TICKS;
	look->credited_ticks += ticks;
	shown = was_in_kernel ? show_kernel(look, thread, state)
			      : show_sample(look, thread, state);
	fgt_verdict_set_past(verdict, &shown, ticks);
	verdict->credit_ticks = was_in_kernel && is_of_sample;
}

/* No sample has come since: this tick has to wait. */
static struct fgt_verdict wait_for_asked(const struct fgt_look *look,
					 struct fgt_thread *thread,
					 uint32_t state, bool is_in_kernel)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_verdict verdict;

	if (is_in_kernel) {
		keep_root(look, thread);
		verdict = show_kernel(look, thread, state);
		if (thread_look->pending_ticks == 1)
			verdict.credit_ticks = 1;
	} else if (thread_look->pending_ticks < WAITING_MAX_TICKS &&
		   thread_look->is_run_sampled) {
		verdict = show_sample(look, thread, state);
	} else {
		verdict = fgt_look_kept(look, &thread_look->last_run, state,
					FGT_MARKER_NOT_SAMPLED);
	}
	return verdict;
}

struct fgt_verdict fgt_look_asked(struct fgt_look *look,
				  const struct fgt_tick *tick,
				  struct fgt_thread *thread, uint32_t state)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	bool has_sample = thread_look->sample_tick == look->tick;
	enum fgt_running_answer answer;
	struct fgt_verdict verdict;
	uint32_t past_state;

	if (has_sample || !thread_look->pending_ticks)
		fgt_look_note_signals(look, thread);
	answer = fgt_look_ask(tick, thread);
	thread_look->is_run_sampled |= has_sample;
	if (has_sample)
		thread_look->words.len = 0;
	if (answer == FGT_RUNNING_NO_SAMPLE) {
		verdict = fgt_look_kept(look, &thread_look->last_run, state,
					FGT_MARKER_NOT_SAMPLED);
		/* A kept stack has room for one marker at a time. */
		if (has_sample && !thread_look->run_leaf)
			show_past(look, tick, thread, &verdict, false);
		else
			verdict.credit_ticks =
				take_pending(tick, thread_look, &past_state);
		return verdict;
	}
	if (has_sample) {
		verdict = show_sample(look, thread, state);
		show_past(look, tick, thread, &verdict, true);
	} else {
		verdict = wait_for_asked(look, thread, state,
					 answer == FGT_RUNNING_IN_KERNEL);
	}
	if (answer != FGT_RUNNING_SAMPLE_COMES)
		fgt_look_words_read(look, tick, thread);
	if (thread_look->pending_ticks++ == 0)
		thread_look->pending_waits = 0;
	thread_look->pending_waits += state == FGT_STATE_RUNNABLE;
	return verdict;
}

/* It blocks now: ticks that wait for a sample have none. */
static void show_unsampled(const struct fgt_look *look,
			   const struct fgt_tick *tick,
			   struct fgt_thread *thread,
			   struct fgt_verdict *verdict)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	bool is_in_kernel = fgt_look_ask(tick, thread) == FGT_RUNNING_IN_KERNEL;
	struct fgt_verdict shown;
	uint32_t state, ticks = take_pending(tick, thread_look, &state);

	if (is_in_kernel) {
		/* It may have ended in the call that it blocks in. */
		keep_callers(look, thread, verdict->frames,
			     verdict->frame_count, false);
		shown = show_kernel(look, thread, state);
	} else {
		shown = fgt_look_kept(look, &thread_look->last_run, state,
				      FGT_MARKER_NOT_SAMPLED);
	}
	fgt_verdict_set_past(verdict, &shown, ticks);
}

void fgt_look_asked_late(struct fgt_look *look, const struct fgt_tick *tick,
			 struct fgt_thread *thread, struct fgt_verdict *verdict)
{
	const struct fgt_look_thread *thread_look = thread->active->look;

	if (!thread->is_shown_running || !thread_look->pending_ticks)
		return;
	if (thread_look->sample_tick == look->tick)
		show_past(look, tick, thread, verdict, false);
	else
		show_unsampled(look, tick, thread, verdict);
}
