/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who ran, reported by the kernel at each context switch: a thread that did not
 * switch costs nothing at all, not even a look. Runs in the sampler's thread.
 */
#include "agent/capture/who_ran/who_ran.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define READ_TRIES 4

/* So many new threads are handed over by one pass; fewer by procfs. */
#define PASS_MIN 4u

/* ---- What the kernel's half writes down, read without a system call ----- */

uint64_t fgt_switches_version(const struct fgt_switches *switches,
			      uint32_t index)
{
	return __atomic_load_n(&switches->slots[index].version,
			       __ATOMIC_ACQUIRE);
}

bool fgt_switches_read(const struct fgt_switches *switches, uint32_t index,
		       struct fgt_switch_slot *ret_slot)
{
	const struct fgt_switch_slot *slot = &switches->slots[index];
	uint64_t before;

	for (int i = 0; i < READ_TRIES; i++) {
		before = fgt_switches_version(switches, index);
		memcpy(ret_slot, slot, offsetof(struct fgt_switch_slot, wakes));
		/* Acquire: the copy is taken before the version is read again;
		 * pairs with advance() in the kernel's half. */
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 ||
		    before != __atomic_load_n(&switches->slots[index].version,
					      __ATOMIC_RELAXED))
			continue;
		ret_slot->version = before;
		return true;
	}
	return false;
}

void fgt_switches_set_instant(struct fgt_switches *switches,
			      uint64_t instant_ns)
{
	__atomic_store_n(switches->instant_ns, instant_ns, __ATOMIC_RELAXED);
	if (switches->stacks)
		__atomic_store_n(switches->stack_limit,
				 __atomic_load_n(switches->stack_number,
						 __ATOMIC_RELAXED) +
					 FGT_SWITCH_STACKS_A_TICK,
				 __ATOMIC_RELAXED);
}

bool fgt_switches_read_stack(const struct fgt_switches *switches,
			     uint32_t number,
			     struct fgt_switch_stack *ret_stack)
{
	const struct fgt_switch_stack *stack;

	if (!switches->stacks)
		return false;
	stack = &switches->stacks[number % FGT_SWITCH_STACKS];
	/* Acquire: what was written before the number is seen. */
	if (__atomic_load_n(&stack->number, __ATOMIC_ACQUIRE) != number)
		return false;
	memcpy(ret_stack, stack, sizeof(*ret_stack));
	atomic_thread_fence(memory_order_acquire);
	return __atomic_load_n(&stack->number, __ATOMIC_RELAXED) == number &&
	       ret_stack->len <= FGT_SWITCH_STACK_BYTES;
}

void fgt_switches_take(struct fgt_switches *switches,
		       void (*changed)(void *home, void *owner))
{
	unsigned long long *words = switches->changed;

	for (uint32_t word = 0; word < FGT_SWITCH_WORDS; word++) {
		unsigned long long bits;

		if (!__atomic_load_n(&words[word], __ATOMIC_RELAXED))
			continue;
		/* Pairs with mark(): what was written before is seen. */
		bits = __atomic_exchange_n(&words[word], 0, __ATOMIC_SEQ_CST);
		for (; bits; bits &= bits - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(bits);
			const struct fgt_switch_owner *owner =
				&switches->owners[word * 64 + bit];

			if (owner->owner)
				changed(owner->home, owner->owner);
		}
	}
}

/* ---- As a provider ------------------------------------------------------ */

struct switch_state {
	struct fgt_switches *switches;
	struct fgt_thread_table *threads;
	int32_t pid;
	uint64_t now_ns;
	bool has_no_pass; /* the kernel is too old for it */
};

static int switch_open(const struct fgt_process *process,
		       struct fgt_thread_table *threads,
		       struct fgt_switches *switches, void **ret_state)
{
	struct switch_state *state = calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	state->switches = switches;
	state->threads = threads;
	state->pid = process->pid;
	switches->provider->watch(switches, state->pid);
	*ret_state = state;
	return 0;
}

/* Called by fgt_switches_take(). */
static void note_change(void *home, void *owner)
{
	struct switch_state *state = home;
	struct fgt_thread *thread = owner;

	thread->has_run = true;
	fgt_thread_table_activate(state->threads, thread, state->now_ns);
}

void fgt_who_ran_take_switches(struct fgt_switches *switches)
{
	fgt_switches_take(switches, note_change);
}

static void note_sleeper(void *context,
			 const struct fgt_switch_sleeper *sleeper)
{
	struct switch_state *state = context;
	struct fgt_thread *thread =
		fgt_thread_table_find(state->threads, (int32_t)sleeper->tid);
	struct fgt_thread_switches *switches =
		thread ? fgt_thread_table_switches(state->threads, thread)
		       : NULL;

	/* Only of those that were being watched before this was read. */
	if (!switches)
		return;
	switches->handed = sleeper->off;
	switches->is_handed = true;
}

static int watch(struct switch_state *state, struct fgt_thread *thread)
{
	struct fgt_thread_switches *switches = calloc(1, sizeof(*switches));
	int rc = switches ? state->switches->provider->add(
				    state->switches, state->pid, thread->tid,
				    state, thread, &switches->index)
			  : -ENOMEM;

	if (rc < 0) {
		free(switches);
		return rc;
	}
	fgt_thread_store_aside(&state->threads->table, thread)->switches =
		switches;
	thread->needs_look = true;
	return 0;
}

static int add_new(struct switch_state *state, uint32_t *ret_count)
{
	struct fgt_thread_table *threads = state->threads;
	int rc;

	*ret_count = 0;
	/* New threads begin among the active ones. */
	for (uint32_t i = 0; i < threads->active_count; i++) {
		struct fgt_thread *thread = threads->active[i].thread;

		if (fgt_thread_table_switches(threads, thread) ||
		    thread->slot == FGT_THREAD_NO_SLOT || thread->is_ended)
			continue;
		rc = watch(state, thread);
		if (rc < 0)
			return rc;
		++*ret_count;
	}
	return 0;
}

static int switch_tick(void *context, uint64_t now_ns)
{
	struct switch_state *state = context;
	uint32_t count;
	int rc;

	state->now_ns = now_ns;
	rc = add_new(state, &count);
	if (rc < 0)
		return rc;
	if (count < PASS_MIN || state->has_no_pass)
		return 0;
	rc = state->switches->provider->hand_over(state->switches, state->pid,
						  note_sleeper, state);
	state->has_no_pass = rc == -EOPNOTSUPP;
	return 0;
}

static int switch_look(void *context, struct fgt_thread *thread)
{
	struct switch_state *state = context;
	struct fgt_thread_switches *switches =
		fgt_thread_table_switches(state->threads, thread);
	uint64_t version;
	bool has_run;

	if (!switches)
		return 0;
	version = fgt_switches_version(state->switches, switches->index);
	has_run = version != switches->version;
	switches->version = version;
	return has_run;
}

static bool switch_read_brief(void *context, struct fgt_switch_brief *ret_brief)
{
	struct switch_state *state = context;

	return state->switches->provider->read_brief(state->switches,
						     state->pid, ret_brief);
}

static void switch_forget(void *context, struct fgt_thread *thread)
{
	struct switch_state *state = context;
	struct fgt_thread_aside *aside =
		fgt_thread_store_find_aside(&state->threads->table, thread);

	if (!aside || !aside->switches)
		return;
	state->switches->provider->remove(state->switches,
					  aside->switches->index);
	free(FGT_TAKE(aside->switches));
}

static void switch_close(void *context)
{
	struct switch_state *state = context;
	struct fgt_thread *thread = NULL;

	while ((thread = fgt_thread_table_next(state->threads, thread)))
		switch_forget(state, thread);
	state->switches->provider->unwatch(state->switches, state->pid);
	free(state);
}

const struct fgt_who_ran fgt_who_ran_switches = {
	.name = "bpf",
	.open = switch_open,
	.tick = switch_tick,
	.look = switch_look,
	.read_brief = switch_read_brief,
	.forget = switch_forget,
	.close = switch_close,
};
