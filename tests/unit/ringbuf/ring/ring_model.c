/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random actions on a ring and on the model beside it. For tests; one thread.
 */
#include "tests/unit/ringbuf/ring/ring_model.h"

#include <stdio.h>

#include "ringbuf/base/array.h"

static uint64_t next_random(struct model *model)
{
	/* xorshift64*: good enough, and the same everywhere. */
	model->random ^= model->random >> 12;
	model->random ^= model->random << 25;
	model->random ^= model->random >> 27;
	return model->random * 0x2545f4914f6cdd1du;
}

uint64_t model_random(struct model *model, uint64_t bound)
{
	return (next_random(model) >> 11) % bound;
}

uint32_t model_frames(const uint32_t *images, uint64_t key,
		      struct fgt_frame *ret_frames)
{
	uint32_t depth = 1 + (uint32_t)(key % (MODEL_DEPTH_MAX - 1));

	for (uint32_t i = 0; i < depth; i++) {
		uint64_t part = key >> (2 * (i ? i + 2 : 0));

		ret_frames[i] = (struct fgt_frame){
			.address = (part << 8) + depth - i,
			.image = images[(part + i) % MODEL_IMAGES],
			.flags = i ? FGT_FRAME_CALLER : 0,
		};
	}
	return depth;
}

void model_wait(uint64_t key, struct fgt_wait *ret_wait)
{
	*ret_wait = (struct fgt_wait){ .kind = key % FGT_WAIT_KINDS,
				       .owner_tid = (int32_t)(key % 99),
				       .address = key << 3,
				       .timeout_ns = key * 1000,
				       .number = (int32_t)(key % 7) - 1 };
	snprintf(ret_wait->text, sizeof(ret_wait->text), "w%llu",
		 (unsigned long long)key);
}

void model_waker(uint64_t key, struct fgt_wake_source *ret_waker)
{
	ret_waker->pid = (int32_t)(key % 5);
	ret_waker->tid = (int32_t)(key & INT32_MAX);
	ret_waker->context = key % FGT_WAKE_CONTEXTS;
	snprintf(ret_waker->name, sizeof(ret_waker->name), "k%u",
		 (uint32_t)(key % 1000));
}

/* ---- Actions ---------------------------------------------------------- */

static bool is_same_stack(const struct model_value *left,
			  const struct model_value *right)
{
	return left->key == right->key && left->state == right->state &&
	       left->marker == right->marker;
}

bool model_is_same(const struct model_value *left,
		   const struct model_value *right)
{
	return is_same_stack(left, right) && left->wait == right->wait;
}

static void put_value(struct model_thread *thread, uint32_t tick,
		      struct model_value value)
{
	uint32_t at = tick - thread->first_tick;

	if (at >= thread->capacity) {
		thread->capacity = at * 2 + 64;
		thread->values = reallocarray(thread->values, thread->capacity,
					      sizeof(value));
		assert_non_null(thread->values);
	}
	thread->values[at] = value;
}

static void add_thread(struct model *model)
{
	uint32_t index = model->thread_count, slot;
	struct model_thread *thread;
	char name[16];
	int error;

	if (model->alive_count == MODEL_ALIVE_MAX)
		return;
	snprintf(name, sizeof(name), "t%u", index);
	error = fgt_ring_thread_add(model->ring, (int32_t)(index * 7 % 50),
				    index, name, &slot);
	if (error) {
		assert_int_equal(error, -ENOSPC);
		assert_false(model->plan->has_room);
		return;
	}
	if (index == model->thread_capacity) {
		model->thread_capacity = index * 2 + 64;
		model->threads = reallocarray(model->threads,
					      model->thread_capacity,
					      sizeof(*model->threads));
		assert_non_null(model->threads);
	}
	thread = &model->threads[model->thread_count++];
	*thread = (struct model_thread){ .slot = slot,
					 .first_tick = model->tick_count,
					 .last_tick = MODEL_NO_LAST,
					 .is_new = true };
	thread->now.state = FGT_STATE_UNKNOWN;
	thread->next = thread->now;
	model->alive[model->alive_count++] = index;
}

/* From so many ticks before this one on. */
static void turn_to(struct model *model, struct model_thread *thread,
		    const struct model_value *value, uint32_t ticks)
{
	uint32_t age = model->tick_count - thread->first_tick;

	if (model_is_same(&thread->now, value))
		return;
	for (uint32_t i = 1; i <= ticks && i <= age; i++)
		put_value(thread, model->tick_count - i, *value);
	thread->now = *value;
}

/* Without a reason, unless it is what the thread does anyway. */
static void turn_to_past(struct model *model, struct model_thread *thread)
{
	if (thread->past_ticks && !thread->is_new &&
	    !is_same_stack(&thread->now, &thread->past))
		turn_to(model, thread, &thread->past, thread->past_ticks);
	thread->past_ticks = 0;
}

static void end_thread(struct model *model)
{
	struct model_thread *thread;
	uint32_t at;

	if (!model->alive_count)
		return;
	at = (uint32_t)model_random(model, model->alive_count);
	thread = &model->threads[model->alive[at]];
	assert_int_equal(fgt_ring_thread_end(model->ring, thread->slot), 0);
	turn_to_past(model, thread);
	thread->last_tick = model->tick_count; /* not in this one any more */
	model->alive[at] = model->alive[--model->alive_count];
}

static void change_thread(struct model *model, struct model_thread *thread)
{
	struct fgt_frame frames[MODEL_DEPTH_MAX];
	struct model_value value = thread->now;
	uint32_t kind = (uint32_t)model_random(model, 8), credit = 0;

	if (model->plan->has_credit && !model_random(model, 4))
		credit = (uint32_t)model_random(
			model, model_random(model, 8) ? 6 : 400);
	value.wait = 0;
	value.state = (uint32_t)model_random(model, 3) * 64;
	if (kind < 2) {
		if (kind)
			value.marker = 1 + (uint32_t)model_random(model, 3);
		assert_int_equal(fgt_ring_set_state(
					 model->ring, thread->slot, value.state,
					 kind ? value.marker : 0, credit),
				 0);
		if (!value.key && value.marker == FGT_MARKER_NOT_SAMPLED)
			value.marker = 0;
	} else {
		if (kind > 2) /* else the same stack again */
			value.key = model_random(model, model->plan->keys);
		value.marker = 0;
		assert_int_equal(
			fgt_ring_set(model->ring, thread->slot, frames,
				     value.key ? model_frames(model->images,
							      value.key, frames)
					       : 0,
				     value.state, credit),
			0);
	}
	thread->next = value;
	thread->credit = credit;
	thread->is_changing = true;
	model->actions++;
}

static void set_past(struct model *model, struct model_thread *thread)
{
	struct fgt_frame frames[MODEL_DEPTH_MAX];
	struct model_value value = {
		.key = 1 + model_random(model, model->plan->keys),
		.state = (uint32_t)model_random(model, 3) * 64,
	};

	thread->past = value;
	thread->past_ticks =
		1 +
		(uint32_t)model_random(model, model_random(model, 8) ? 3 : 255);
	assert_int_equal(fgt_ring_set_past(
				 model->ring, thread->slot, frames,
				 model_frames(model->images, value.key, frames),
				 value.state, thread->past_ticks),
			 0);
	model->actions++;
}

static void set_pasts(struct model *model)
{
	for (uint32_t i = 0; i < model->alive_count; i++)
		while (model->plan->has_credit && !model_random(model, 8))
			set_past(model, &model->threads[model->alive[i]]);
}

static void set_wait(struct model *model, struct model_thread *thread)
{
	struct fgt_wait wait;

	thread->next_wait = 1 + model_random(model, model->plan->waits);
	thread->has_next_wait = true;
	thread->is_put_off = false;
	model_wait(thread->next_wait, &wait);
	assert_int_equal(fgt_ring_set_wait(model->ring, thread->slot, &wait),
			 0);
	model->actions++;
}

static void set_waits(struct model *model)
{
	for (uint32_t i = 0; i < model->alive_count; i++)
		while (!model_random(model, 5))
			set_wait(model, &model->threads[model->alive[i]]);
}

static void add_wake(struct model *model, uint32_t thread)
{
	struct model_tick *tick = &model->ticks[model->tick_count];
	uint64_t before_ns = model_random(model, model->plan->step_ns * 2);
	struct fgt_frame frames[MODEL_DEPTH_MAX];
	struct fgt_wake_source waker = { .frames = frames };
	struct model_wake wake = {
		.at_ns = before_ns < tick->mono_ns ? tick->mono_ns - before_ns
						   : 0,
		.key = 1 + model_random(model, model->plan->wakers),
		.thread = thread,
		.tick = model->tick_count,
		.delay_us = model_random(model, 4)
				    ? (uint32_t)model_random(model, 1u << 28)
				    : FGT_WAKE_DELAY_UNKNOWN,
	};
	int error;

	if (wake.delay_us == (1u << 28) - 1)
		wake.delay_us--;
	model_waker(wake.key, &waker);
	waker.frame_count = model_frames(model->images, wake.key, frames);
	error = fgt_ring_add_wake(model->ring, model->threads[thread].slot,
				  wake.at_ns, wake.delay_us, &waker);
	model->actions++;
	if (error) {
		assert_int_equal(error, -ENOSPC);
		assert_false(model->plan->has_room);
		tick->lost_wakes++;
		return;
	}
	assert_int_equal(FGT_ARRAY_GROW(model->wakes, model->wake_count,
					model->wake_capacity),
			 0);
	model->wakes[model->wake_count++] = wake;
}

static void add_wakes(struct model *model)
{
	uint32_t lost =
		model_random(model, 9) ? 0 : (uint32_t)model_random(model, 100);

	for (uint32_t i = 0; i < model->alive_count; i++)
		while (!model_random(model, 8))
			add_wake(model, model->alive[i]);
	fgt_ring_lose_wakes(model->ring, lost);
	model->ticks[model->tick_count].lost_wakes += lost;
}

static void put_off(struct model *model)
{
	for (uint32_t i = 0; i < model->alive_count; i++) {
		struct model_thread *thread = &model->threads[model->alive[i]];

		if (!thread->is_new || thread->is_put_off ||
		    thread->is_changing || thread->past_ticks ||
		    model_random(model, 2))
			continue;
		assert_int_equal(
			fgt_ring_thread_put_off(model->ring, thread->slot), 0);
		thread->is_put_off = true;
	}
}

static void commit_thread(struct model *model, struct model_thread *thread)
{
	uint32_t tick = model->tick_count;

	if (thread->is_put_off && !thread->is_changing && !thread->past_ticks) {
		thread->first_tick = tick + 1;
		thread->has_next_wait = false;
		return;
	}
	thread->is_put_off = false;
	if (!thread->is_changing)
		thread->next = thread->now;
	turn_to_past(model, thread);
	thread->next.wait = thread->has_next_wait ? thread->next_wait
			    : is_same_stack(&thread->now, &thread->next)
				    ? thread->now.wait
				    : 0;
	if (!fgt_state_is_blocked(thread->next.state))
		thread->next.wait = 0;
	thread->has_next_wait = false;
	turn_to(model, thread, &thread->next,
		thread->is_changing ? thread->credit : 0);
	thread->is_changing = false;
	thread->is_new = false;
	put_value(thread, tick, thread->now);
}

static uint64_t next_time(struct model *model)
{
	uint64_t last_ns = model->tick_count
				   ? model->ticks[model->tick_count - 1].mono_ns
				   : 1000000;
	uint64_t step_ns = model->plan->step_ns;

	switch (model_random(model, 400)) {
	case 0:
		return last_ns + step_ns * model_random(model, 500);
	case 1:
		return last_ns -
		       model_random(model, 2); /* stands or runs back */
	default:
		return last_ns + step_ns - step_ns / 16 +
		       model_random(model, step_ns / 8);
	}
}

void model_tick(struct model *model)
{
	struct model_tick *tick = &model->ticks[model->tick_count];
	uint64_t mono_ns = next_time(model);

	tick->wall_ns = mono_ns * 3 + model->tick_count;
	tick->missed = model_random(model, 50) ? 0 : model_random(model, 9);
	tick->mono_ns = mono_ns;
	if (model->tick_count && mono_ns <= tick[-1].mono_ns)
		tick->mono_ns = tick[-1].mono_ns + 1;
	fgt_ring_tick_begin(model->ring, mono_ns, tick->wall_ns, tick->missed);
	set_pasts(model);
	set_waits(model);
	while (!model_random(model, model->plan->churn))
		model_random(model, 2) ? add_thread(model) : end_thread(model);
	for (uint32_t i = 0; i < model->alive_count; i++)
		while (!model_random(model, 3))
			change_thread(model, &model->threads[model->alive[i]]);
	set_pasts(model);
	set_waits(model);
	put_off(model);
	add_wakes(model);
	fgt_ring_tick_commit(model->ring);
	for (uint32_t i = 0; i < model->alive_count; i++)
		commit_thread(model, &model->threads[model->alive[i]]);
	model->tick_count++;
}

void model_init(struct model *model, const struct model_plan *plan,
		uint64_t seed)
{
	*model = (struct model){ .plan = plan, .random = seed | 1 };
	model->ring = kit_ring(plan->hz, plan->seconds, plan->size_bytes);
	model->ticks = calloc(plan->ticks, sizeof(*model->ticks));
	assert_non_null(model->ticks);
	for (uint32_t i = 0; i < MODEL_IMAGES; i++) {
		struct fgt_image image = { .bias = i };

		snprintf(image.path, sizeof(image.path), "/lib/%u", i);
		assert_int_equal(fgt_ring_image_get(model->ring, &image,
						    &model->images[i]),
				 0);
	}
}

void model_done(struct model *model)
{
	for (uint32_t i = 0; i < model->thread_count; i++)
		free(model->threads[i].values);
	free(model->threads);
	free(model->wakes);
	free(model->ticks);
	fgt_ring_free(model->ring);
}
