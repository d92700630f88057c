/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Millions of random actions on small rings, beside a naive model that keeps
 * everything; every cut is compared with it tick by tick and frame by frame.
 * FGT_TEST_SEED repeats the run that a failure printed.
 */
#include "tests/unit/ringbuf/ring/ring_model.h"

#include <stdio.h>
#include <time.h>

#include "ringbuf/base/array.h"

/* ---- Comparison ------------------------------------------------------- */

static void compare_frame(const struct model *model,
			  const struct fgt_ring_slice *slice,
			  const struct fgt_frame *have,
			  const struct fgt_frame *want)
{
	char path[32] = "";

	assert_int_equal(have->address, want->address);
	assert_int_equal(have->flags, want->flags);
	for (uint32_t i = 0; i < MODEL_IMAGES; i++)
		if (want->image && model->images[i] == want->image)
			snprintf(path, sizeof(path), "/lib/%u", i);
	if (!path[0])
		assert_int_equal(have->image, FGT_IMAGE_NONE);
	else
		assert_string_equal(
			fgt_slice_string(slice,
					 slice->images[have->image - 1].path),
			path);
}

static bool is_overflow(const struct fgt_ring_slice *slice, uint32_t node)
{
	const struct fgt_frame *frame;

	if (node == FGT_NODE_NONE)
		return false;
	while (slice->nodes[node].parent != FGT_NODE_NONE)
		node = slice->nodes[node].parent;
	frame = &slice->frames[slice->nodes[node].frame].frame;
	return frame->flags & FGT_FRAME_MARKER &&
	       frame->address == FGT_MARKER_OVERFLOW;
}

static void compare_stack(const struct model *model,
			  const struct fgt_ring_slice *slice, uint32_t node,
			  const struct model_value *value)
{
	struct fgt_frame frames[MODEL_DEPTH_MAX + 1];
	uint32_t depth = 0;

	if (!model->plan->has_room && is_overflow(slice, node))
		return;
	if (value->marker)
		frames[depth++] = (struct fgt_frame){
			.address = value->marker,
			.flags = FGT_FRAME_MARKER,
		};
	if (value->key)
		depth +=
			model_frames(model->images, value->key, frames + depth);
	for (uint32_t i = 0; i < depth; i++) {
		assert_int_not_equal(node, FGT_NODE_NONE);
		compare_frame(model, slice,
			      &slice->frames[slice->nodes[node].frame].frame,
			      &frames[i]);
		node = slice->nodes[node].parent;
	}
	assert_int_equal(node, FGT_NODE_NONE);
}

/* Stacks without room are one, which keeps its reason. */
static void compare_wait(struct model *model,
			 const struct fgt_ring_slice *slice,
			 const struct fgt_run *run, uint64_t key)
{
	const struct fgt_slice_wait *have;
	struct fgt_wait want;

	if (!model->plan->has_room && is_overflow(slice, run->stack))
		return;
	assert_int_equal(run->wait != 0, key != 0);
	if (!key)
		return;
	model_wait(key, &want);
	have = &slice->waits[run->wait - 1];
	assert_int_equal(have->kind, want.kind);
	assert_int_equal(have->owner_tid, want.owner_tid);
	assert_int_equal(have->address, want.address);
	assert_int_equal(have->timeout_ns, want.timeout_ns);
	assert_int_equal(have->number, want.number);
	assert_string_equal(fgt_slice_string(slice, have->text), want.text);
	model->compared_waits++;
}

/* Each tick of each run; returns how many there are. */
static uint64_t compare_run(struct model *model,
			    const struct fgt_ring_slice *slice, uint32_t base,
			    const struct fgt_run *run)
{
	const struct fgt_slice_thread *row = &slice->threads[run->thread];
	const struct model_thread *thread;
	char name[16];

	assert_true(row->start_time < model->thread_count);
	thread = &model->threads[row->start_time];
	assert_int_equal(row->tid, row->start_time * 7 % 50);
	snprintf(name, sizeof(name), "t%u", (uint32_t)row->start_time);
	assert_string_equal(fgt_slice_string(slice, row->name), name);
	for (uint32_t i = 0; i < run->tick_count; i++) {
		uint32_t tick = base + run->first_tick + i;
		const struct model_value *value;

		assert_true(tick >= thread->first_tick);
		assert_true(tick < thread->last_tick);
		value = &thread->values[tick - thread->first_tick];
		assert_int_equal(run->state, value->state);
		compare_wait(model, slice, run, value->wait);
		if (!i || !model_is_same(value, value - 1))
			compare_stack(model, slice, run->stack, value);
	}
	return run->tick_count;
}

/* How many (thread, tick) pairs the model has in [base, base + count). */
static uint64_t count_samples(const struct model *model, uint32_t base,
			      uint32_t count)
{
	uint64_t samples = 0;

	for (uint32_t i = 0; i < model->thread_count; i++) {
		uint32_t first = model->threads[i].first_tick;
		uint32_t last = model->threads[i].last_tick;

		if (last > base + count)
			last = base + count;
		if (first < base)
			first = base;
		samples += first < last ? last - first : 0;
	}
	return samples;
}

/* Its samples in [base, base + count). */
static bool is_thread_there(const struct model *model, uint32_t index,
			    uint32_t base, uint32_t count)
{
	const struct model_thread *thread = &model->threads[index];
	uint32_t first = thread->first_tick > base ? thread->first_tick : base;

	return first < thread->last_tick && first < base + count;
}

static int compare_model_wakes(const void *left, const void *right)
{
	const struct model_wake *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->at_ns != b->at_ns)
		return a->at_ns < b->at_ns ? -1 : 1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->delay_us < b->delay_us ? -1 : a->delay_us > b->delay_us;
}

/* Those that the slice must have, in another order. */
static struct model_wake *wanted_wakes(const struct model *model, uint32_t base,
				       uint32_t count, uint32_t *ret_count)
{
	uint32_t first = (uint32_t)FGT_ARRAY_BISECT(
		i, model->wake_count, model->wakes[i].tick < base);
	struct model_wake *wanted =
		calloc(model->wake_count - first + 1, sizeof(*wanted));

	assert_non_null(wanted);
	*ret_count = 0;
	for (uint32_t i = first; i < model->wake_count; i++) {
		const struct model_wake *wake = &model->wakes[i];

		if (wake->tick < base + count &&
		    wake->at_ns >= model->ticks[base].mono_ns &&
		    /* Else it was put off. */
		    wake->tick >= model->threads[wake->thread].first_tick &&
		    is_thread_there(model, wake->thread, base, count))
			wanted[(*ret_count)++] = *wake;
	}
	FGT_ARRAY_SORT(wanted, *ret_count, compare_model_wakes);
	return wanted;
}

static void compare_wakers(const struct model *model,
			   const struct fgt_ring_slice *slice, uint32_t index,
			   uint64_t key)
{
	const struct fgt_slice_waker *have = &slice->wakers[index];
	const struct model_value value = { .key = key };
	struct fgt_wake_source want;

	model_waker(key, &want);
	assert_int_equal(have->pid, want.pid);
	assert_int_equal(have->tid, want.tid);
	assert_int_equal(have->context, want.context);
	assert_string_equal(fgt_slice_string(slice, have->name), want.name);
	compare_stack(model, slice, have->stack, &value);
}

static void compare_wakes(struct model *model,
			  const struct fgt_ring_slice *slice, uint32_t base)
{
	uint32_t count;
	struct model_wake *wanted =
		wanted_wakes(model, base, slice->tick_count, &count);
	struct model_wake *found = calloc(count + 1, sizeof(*found));
	uint64_t lost = 0;

	assert_non_null(found);
	assert_int_equal(slice->wake_count, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct fgt_slice_wake *wake = &slice->wakes[i];

		found[i] = (struct model_wake){
			.at_ns = wake->at_ns,
			.key = (uint64_t)slice->wakers[wake->waker].tid,
			.thread = (uint32_t)slice->threads[wake->thread]
					  .start_time,
			.tick = wake->waker,
			.delay_us = wake->delay_us,
		};
	}
	FGT_ARRAY_SORT(found, count, compare_model_wakes);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(compare_model_wakes(&found[i], &wanted[i]), 0);
		compare_wakers(model, slice, found[i].tick, wanted[i].key);
	}
	for (uint32_t i = 1; i < slice->tick_count; i++)
		lost += model->ticks[base + i].lost_wakes;
	assert_int_equal(slice->lost_wakes, lost);
	model->compared_wakes += count;
	free(wanted);
	free(found);
}

static void compare_times(const struct model *model,
			  const struct fgt_ring_slice *slice, uint32_t base)
{
	uint64_t missed = 0;

	for (uint32_t i = 0; i < slice->tick_count; i++) {
		assert_int_equal(slice->tick_ns[i],
				 model->ticks[base + i].mono_ns);
		missed += i ? model->ticks[base + i].missed : 0;
	}
	assert_int_equal(slice->missed_ticks, missed);
	assert_int_equal(slice->lapped_ticks, 0);
	assert_true(slice->anchors[0].mono_ns <= slice->tick_ns[0]);
	for (uint32_t i = 0; i < slice->anchor_count; i++) {
		uint32_t tick = base;

		while (model->ticks[tick].mono_ns > slice->anchors[i].mono_ns)
			tick--;
		while (model->ticks[tick].mono_ns < slice->anchors[i].mono_ns)
			tick++;
		assert_int_equal(slice->anchors[i].mono_ns,
				 model->ticks[tick].mono_ns);
		assert_int_equal(slice->anchors[i].wall_ns,
				 model->ticks[tick].wall_ns);
	}
}

static uint32_t first_at_or_after(const struct model *model, uint64_t ns)
{
	uint32_t low = 0, high = model->tick_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (model->ticks[middle].mono_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The oldest tick that can be cut, checked against the promises. */
static uint32_t check_range(const struct model *model)
{
	const struct model_plan *plan = model->plan;
	uint32_t newest = model->tick_count - 1, oldest, window;
	uint64_t oldest_ns, newest_ns, kept_ns;

	assert_int_equal(fgt_ring_range(model->ring, &oldest_ns, &newest_ns),
			 0);
	assert_int_equal(newest_ns, model->ticks[newest].mono_ns);
	oldest = first_at_or_after(model, oldest_ns);
	assert_int_equal(oldest_ns, model->ticks[oldest].mono_ns);
	window = plan->hz * plan->seconds;
	assert_true(newest - oldest < window);
	kept_ns = (uint64_t)plan->seconds * 1000000000;
	if (plan->has_room && oldest && newest - oldest + 1 < window)
		assert_true(model->ticks[oldest - 1].mono_ns + kept_ns <
			    newest_ns);
	return oldest;
}

static void cut_and_compare(struct model *model)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	uint32_t oldest = check_range(model), base, end;
	uint64_t newest_ns = model->ticks[model->tick_count - 1].mono_ns;
	uint64_t kept_ns = newest_ns - model->ticks[oldest].mono_ns, from, to;
	uint64_t samples = 0;
	int error;

	from = model->ticks[oldest].mono_ns + model_random(model, kept_ns + 1) -
	       model_random(model, 2000);
	if (!model_random(model, 3))
		from = 0;
	to = model_random(model, 3) ? from + model_random(model, kept_ns + 1000)
				    : UINT64_MAX;
	base = first_at_or_after(model, from);
	if (base < oldest)
		base = oldest;
	end = to == UINT64_MAX ? model->tick_count
			       : first_at_or_after(model, to + 1);
	error = fgt_ring_cut(model->ring, from, to, &slice);
	if (end < base + 2) {
		assert_int_equal(error, -ENODATA);
		return;
	}
	assert_int_equal(error, 0);
	kit_validate(slice);
	assert_int_equal(slice->tick_count, end - base);
	compare_times(model, slice, base);
	compare_wakes(model, slice, base);
	for (uint32_t i = 0; i < slice->run_count; i++)
		samples += compare_run(model, slice, base, &slice->runs[i]);
	assert_int_equal(samples, count_samples(model, base, end - base));
	assert_true(slice->evicted_ticks <= oldest);
	if (!from)
		assert_int_equal(slice->evicted_ticks, oldest);
	model->cuts++;
	model->compared += samples;
}

static void run_plan(const struct model_plan *plan, uint64_t seed)
{
	struct fgt_ring_stats stats;
	struct model model;

	print_message("%s, FGT_TEST_SEED=%llu\n", plan->name,
		      (unsigned long long)seed);
	model_init(&model, plan, seed);
	while (model.tick_count < plan->ticks) {
		model_tick(&model);
		if (model.tick_count > 1 && !model_random(&model, 20))
			cut_and_compare(&model);
	}
	fgt_ring_get_stats(model.ring, &stats);
	assert_int_equal(stats.ticks, plan->ticks);
	assert_int_equal(stats.evicted_ticks > 0, !plan->has_room);
	assert_int_equal(stats.lost_waits, 0);
	assert_true(model.compared_waits > 1000);
	assert_true(model.compared_wakes > 1000);
	print_message("%llu actions, %llu cuts, %llu samples compared, "
		      "%llu waits, %llu wake-ups\n",
		      (unsigned long long)model.actions,
		      (unsigned long long)model.cuts,
		      (unsigned long long)model.compared,
		      (unsigned long long)model.compared_waits,
		      (unsigned long long)model.compared_wakes);
	model_done(&model);
}

static const struct model_plan roomy = {
	.name = "roomy",
	.hz = 20,
	.seconds = 3,
	.size_bytes = 8 << 20,
	.ticks = 60000,
	.keys = 60,
	.waits = 1 << 20, /* new ones all the time */
	.wakers = 1 << 20,
	.churn = 10,
	.has_credit = true,
	.has_room = true,
	.step_ns = 50000000,
};

static const struct model_plan tight = {
	.name = "tight",
	.hz = 1000,
	.seconds = 2,
	.size_bytes = 1 << 20,
	.ticks = 60000,
	.keys = (uint64_t)1 << 40,
	.waits = 150, /* credit needs that each has room */
	.wakers = 3000,
	.churn = 4,
	.has_credit = true,
	.step_ns = 1000000,
};

static const struct model_plan slow = {
	.name = "slow",
	.hz = 1,
	.seconds = 20,
	.size_bytes = 4 << 20,
	.ticks = 60000,
	.keys = 2000,
	.waits = 1 << 20,
	.wakers = 1 << 20,
	.churn = 3,
	.has_credit = true,
	.has_room = true,
	.step_ns = 400000000,
};

static uint64_t random_seed(void)
{
	const char *given = getenv("FGT_TEST_SEED");
	struct timespec now;

	if (given)
		return strtoull(given, NULL, 10);
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void run_seeds(const struct model_plan *plan)
{
	const uint64_t seeds[] = { random_seed(), 42, 20261121, 7777777 };
	/* With sanitizers each takes some 10 s. */
	size_t count = getenv("FGT_TESTS_SOAK") ? 4 : 2;

	for (size_t i = 0; i < count; i++)
		run_plan(plan, seeds[i]);
}

static void ring_with_room_equals_the_model(void **state)
{
	(void)state;
	run_seeds(&roomy);
}

static void ring_without_room_equals_the_model(void **state)
{
	(void)state;
	run_seeds(&tight);
}

static void ring_with_few_ticks_a_segment_equals_the_model(void **state)
{
	(void)state;
	run_seeds(&slow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_with_room_equals_the_model),
		cmocka_unit_test(ring_without_room_equals_the_model),
		cmocka_unit_test(
			ring_with_few_ticks_a_segment_equals_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
