/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scenario of two branches that look the same from below: both end in the
 * same call, at the same stack pointer, with the same frame pointer, and differ
 * by two callers only. From one turn to the next the branch may change, and a
 * turn takes 20 µs to 20 ms: a block that is over before the sampler reads its
 * stack must not be shown with the callers of another one.
 */
#include <setjmp.h>
#include <sys/prctl.h>

#include "plan.h"
#include "work.h"

#define SHORTEST_NS 20000u
#define DOUBLINGS   10 /* up to 20 ms */
/* In a row, of the branch that waits for the shortest time only. */
#define QUICK_TURNS 400u
#define DEPTH	    300u

struct turn {
	uint64_t work_ns, wait_ns;
	jmp_buf *way_out; /* NULL: the functions return */
	unsigned int depth; /* frames between the two callers */
};

static _Thread_local const struct turn *turn;

static NOINLINE void work_in_twin(uint64_t ns)
{
	uint64_t until_ns = truth_now_ns() + ns;

	while (truth_now_ns() < until_ns)
		truth_anchor++;
}

static NOINLINE void wait_in_twin(uint64_t ns)
{
	struct timespec duration = truth_timespec(ns);

	clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL);
	truth_anchor += 3;
}

static NOINLINE void dig(unsigned int depth, void (*run)(uint64_t), uint64_t ns)
{
	volatile uint64_t local[6];

	local[depth % 6] = ns;
	if (depth > 0)
		dig(depth - 1, run, local[depth % 6]);
	else
		run(ns);
	truth_anchor++;
}

/* anchor: else they would be folded. */
#define DEFINE_TWIN(side, anchor)                                              \
	static NOINLINE void inner_##side(uint64_t ns)                         \
	{                                                                      \
		work_in_twin(turn->work_ns);                                   \
		wait_in_twin(ns);                                              \
		if (turn->way_out)                                             \
			longjmp(*turn->way_out, 1);                            \
		truth_anchor += (anchor);                                      \
	}                                                                      \
	static NOINLINE void outer_##side(uint64_t ns)                         \
	{                                                                      \
		dig(turn->depth, inner_##side, ns);                            \
		truth_anchor += (anchor);                                      \
	}
DEFINE_TWIN(left, 1)
DEFINE_TWIN(right, 2)

static uint32_t draw(void)
{
	static _Thread_local uint32_t seed = 7;

	seed = seed * 1664525u + 1013904223u;
	return seed >> 16;
}

/* Each doubling is as likely as any other. */
static uint64_t draw_ns(void)
{
	uint64_t ns = SHORTEST_NS << draw() % DOUBLINGS;

	return ns + ns * draw() / 65536;
}

static void take_turn(struct plan *plan, struct step *step,
		      const struct turn *next)
{
	uint64_t begin_ns = truth_now_ns();

	turn = next;
	step->run(next->wait_ns);
	log_step(plan, step, begin_ns, truth_now_ns());
}

static void follow(struct plan *plan, unsigned int depth)
{
	begin_plan(plan);
	while (truth_now_ns() < truth_end_ns) {
		struct turn next = { .work_ns = draw_ns() / 4,
				     .wait_ns = draw_ns(),
				     .depth = depth };

		take_turn(plan, &plan->steps[draw() % 2], &next);
	}
	finish_plan(plan);
}

static void *follow_twins(void *plan)
{
	follow(plan, 0);
	return NULL;
}

/* More stack than a sample copies. */
static void *follow_deep(void *plan)
{
	follow(plan, DEPTH);
	return NULL;
}

static void *follow_jumps(void *argument)
{
	struct plan *plan = argument;
	jmp_buf way_out;

	begin_plan(plan);
	while (truth_now_ns() < truth_end_ns) {
		struct step *step = &plan->steps[draw() % 2];
		struct turn next = { .work_ns = draw_ns() / 4,
				     .wait_ns = draw_ns(),
				     .way_out = &way_out };
		volatile uint64_t begin_ns = truth_now_ns();

		turn = &next;
		if (!setjmp(way_out))
			step->run(next.wait_ns);
		log_step(plan, step, begin_ns, truth_now_ns());
	}
	finish_plan(plan);
	return NULL;
}

/* One long wait in a branch, then many that the sampler hardly ever sees. */
static void *follow_quick(void *argument)
{
	const struct turn long_turn = { .wait_ns = 20 * NS_PER_MS };
	const struct turn quick_turn = { .wait_ns = SHORTEST_NS };
	struct plan *plan = argument;

	begin_plan(plan);
	while (truth_now_ns() < truth_end_ns) {
		take_turn(plan, &plan->steps[0], &long_turn);
		for (unsigned int i = 0; i < QUICK_TURNS; i++)
			take_turn(plan, &plan->steps[1], &quick_turn);
	}
	finish_plan(plan);
	return NULL;
}

/* Waits end when they shall, and not up to 50 µs later. */
static void wake_in_time(struct plan *plan)
{
	(void)plan;
	prctl(PR_SET_TIMERSLACK, 1);
}

static void add_twins(const char *name, void *(*follow)(void *))
{
	struct plan *plan = add_plan(name, 15);

	STEP(plan, outer_left, "clock_nanosleep", 1000);
	STEP(plan, outer_right, "clock_nanosleep", 1000);
	plan->prepare = wake_in_time;
	plan->follow = follow;
}

void plan_twins(void)
{
	add_twins("twins", follow_twins);
	add_twins("twins-jump", follow_jumps);
	add_twins("twins-deep", follow_deep);
	add_twins("twins-quick", follow_quick);
}
