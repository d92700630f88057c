/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random actions on a ring and on the model beside it. For tests; one thread.
 */
#include "tests/unit/ringbuf/ring/ring_model.h"

#include <stdio.h>

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

/* ---- Actions ---------------------------------------------------------- */

bool model_is_same(const struct model_value *left,
		   const struct model_value *right)
{
	return left->key == right->key && left->state == right->state &&
	       left->marker == right->marker;
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

static void end_thread(struct model *model)
{
	struct model_thread *thread;
	uint32_t at;

	if (!model->alive_count)
		return;
	at = (uint32_t)model_random(model, model->alive_count);
	thread = &model->threads[model->alive[at]];
	assert_int_equal(fgt_ring_thread_end(model->ring, thread->slot), 0);
	if (thread->past_ticks && !thread->is_new)
		turn_to(model, thread, &thread->past, thread->past_ticks);
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
		return;
	}
	thread->is_put_off = false;
	if (!thread->is_changing)
		thread->next = thread->now;
	if (thread->past_ticks && !thread->is_new)
		turn_to(model, thread, &thread->past, thread->past_ticks);
	turn_to(model, thread, &thread->next,
		thread->is_changing ? thread->credit : 0);
	thread->is_changing = false;
	thread->past_ticks = 0;
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
	while (!model_random(model, model->plan->churn))
		model_random(model, 2) ? add_thread(model) : end_thread(model);
	for (uint32_t i = 0; i < model->alive_count; i++)
		while (!model_random(model, 3))
			change_thread(model, &model->threads[model->alive[i]]);
	set_pasts(model);
	put_off(model);
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
	free(model->ticks);
	fgt_ring_free(model->ring);
}
