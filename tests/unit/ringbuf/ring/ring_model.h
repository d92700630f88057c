/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A naive model of the ring that keeps everything, and random actions that are
 * done to both. For tests; one thread.
 */
#ifndef FGT_TESTS_RING_MODEL_H
#define FGT_TESTS_RING_MODEL_H

#include "tests/unit/ringbuf/ring/ring_kit.h"

#define MODEL_IMAGES	5
#define MODEL_ALIVE_MAX 24
#define MODEL_DEPTH_MAX 16
#define MODEL_NO_LAST	UINT32_MAX

struct model_value {
	uint64_t key; /* of a stack; 0: none */
	uint32_t state, marker;
	uint64_t wait; /* key of the reason; 0: none */
};

struct model_thread {
	uint32_t slot, first_tick,
		last_tick; /* last: MODEL_NO_LAST while alive */
	struct model_value now, next, past;
	uint32_t credit, past_ticks;
	bool is_changing, is_new;
	bool is_put_off; /* not there until it is set */
	bool has_next_wait;
	uint64_t next_wait;
	struct model_value *values; /* from first_tick on */
	uint32_t capacity;
};

struct model_tick {
	uint64_t mono_ns, wall_ns, missed, lost_wakes;
};

struct model_wake {
	uint64_t at_ns, key; /* of the waker */
	uint32_t thread, tick, delay_us;
};

struct model_plan {
	const char *name;
	unsigned int hz, seconds;
	size_t size_bytes;
	uint32_t ticks;
	uint64_t keys; /* distinct stacks */
	uint64_t waits, wakers; /* distinct */
	uint32_t churn; /* one in so many ticks a thread comes or goes */
	bool has_credit; /* not where stacks may overflow */
	bool has_room; /* ticks are dropped for age only */
	uint64_t step_ns; /* usual distance of two ticks */
};

struct model {
	const struct model_plan *plan;
	struct fgt_ring *ring;
	uint64_t random;
	struct model_tick *ticks;
	uint32_t tick_count;
	struct model_thread *threads;
	uint32_t thread_count, thread_capacity;
	struct model_wake *wakes; /* by tick */
	uint32_t wake_count, wake_capacity;
	uint32_t alive[MODEL_ALIVE_MAX], alive_count;
	uint32_t images[MODEL_IMAGES];
	uint64_t actions, cuts, compared, compared_waits, compared_wakes;
};

/* A number in [0, bound). */
uint64_t model_random(struct model *model, uint64_t bound);

/* Frames of a key, leaf first; keys share roots, never leaves. */
uint32_t model_frames(const uint32_t *images, uint64_t key,
		      struct fgt_frame *ret_frames);
/* The reason, and the waker, of a key. */
void model_wait(uint64_t key, struct fgt_wait *ret_wait);
void model_waker(uint64_t key, struct fgt_wake_source *ret_waker);
bool model_is_same(const struct model_value *left,
		   const struct model_value *right);

void model_init(struct model *model, const struct model_plan *plan,
		uint64_t seed);
void model_done(struct model *model);
void model_tick(struct model *model);

#endif
