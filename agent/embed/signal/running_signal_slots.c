/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots that signal handlers fill: mapped once for ever, lent to threads;
 * and the signal. Runs in the sampler's thread, and in the child of a fork.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "agent/embed/signal/running_signal_slot.h"
#include "ringbuf/base/clock.h"

#define SLOTS_MIN 16u
/* Of CPU time without a sample: longer than signals of code that runs in user
 * mode are apart, ticks of the kernel being 4 ms or less. */
#define LONG_CALL_NS 10000000u
/* For a handler of the program, on an alternate stack. */
#define HANDLER_BYTES	8192u
#define FRAME_BYTES_MIN 4096u

/* Of each slot, once it was needed; never unmapped, as slots are not. */
static uint8_t *deep_rooms[FGT_SIGNAL_SLOTS_MAX];

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Ignored by default, best first. */
static const int candidates[] = { SIGURG, SIGWINCH };

/* Only address space until a thread runs. */
int fgt_signal_slots_map(void)
{
	uint32_t count = FGT_SIGNAL_SLOTS_MAX;
	void *slots = MAP_FAILED;

	if (fgt_signal_table.slots)
		return 0;
	while (count >= SLOTS_MIN && slots == MAP_FAILED) {
		slots = mmap(NULL, (size_t)count * FGT_SIGNAL_SLOT_BYTES,
			     PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			     0);
		if (slots == MAP_FAILED)
			count /= 2;
	}
	if (slots == MAP_FAILED)
		return -ENOMEM;
	fgt_signal_table.count = count;
	fgt_signal_table.slots = slots;
	return 1;
}

bool fgt_signal_slots_are_written(void)
{
	for (uint32_t i = 0; i < fgt_signal_table.count; i++)
		if (atomic_load_explicit(&fgt_signal_table.slots[i].state,
					 memory_order_acquire) ==
		    FGT_SIGNAL_WRITING)
			return true;
	return false;
}

/*
 * One that a handler was still writing to when its thread lost its timer is
 * free once that is done; a late signal may hold it for a moment until it
 * is FREE.
 */
static bool take_unused(struct fgt_signal_slot *slot)
{
	/* Acquire: pairs with the release of a handler's end_writing(). */
	unsigned int state =
		atomic_load_explicit(&slot->state, memory_order_acquire);

	if (state == FGT_SIGNAL_FREE)
		return true;
	if ((state != FGT_SIGNAL_EMPTY && state != FGT_SIGNAL_FULL) ||
	    atomic_load_explicit(&slot->tid, memory_order_relaxed))
		return false;
	return atomic_compare_exchange_strong_explicit(
		&slot->state, &state, FGT_SIGNAL_FREE, memory_order_acquire,
		memory_order_relaxed);
}

/* Until another place is known: most threads have used no more. */
static uint64_t last_piece(uint64_t low, uint64_t high)
{
	return high - low > FGT_SIGNAL_FIRST_BYTES
		       ? high - FGT_SIGNAL_FIRST_BYTES
		       : low;
}

struct fgt_signal_slot *fgt_signal_slot_get(uint32_t *next_slot, int32_t tid,
					    uint64_t stack_low,
					    uint64_t stack_high,
					    bool is_stack_asked)
{
	static uint32_t lendings;

	for (uint32_t i = 0; i < fgt_signal_table.count; i++) {
		uint32_t at = (*next_slot + i) % fgt_signal_table.count;
		struct fgt_signal_slot *slot = &fgt_signal_table.slots[at];

		if (!take_unused(slot))
			continue;
		*next_slot = at + 1;
		atomic_store_explicit(&slot->tid, tid, memory_order_relaxed);
		atomic_store_explicit(&slot->want_bytes, FGT_SIGNAL_FIRST_BYTES,
				      memory_order_relaxed);
		atomic_store_explicit(&slot->long_overrun, UINT32_MAX,
				      memory_order_relaxed);
		slot->lending = ++lendings % FGT_SIGNAL_SLOT_BYTES;
		slot->stack_low = stack_low;
		slot->stack_high = stack_high;
		slot->is_stack_asked = is_stack_asked;
		slot->last_at = (struct timespec){ 0, 0 };
		atomic_store_explicit(&slot->deep, NULL, memory_order_relaxed);
		atomic_store_explicit(&slot->want_other,
				      last_piece(stack_low, stack_high),
				      memory_order_relaxed);
		atomic_store_explicit(&slot->is_foreign, false,
				      memory_order_relaxed);
		/* Release: pairs with the acquire of a handler's
		 * begin_writing(). */
		atomic_store_explicit(&slot->state, FGT_SIGNAL_EMPTY,
				      memory_order_release);
		return slot;
	}
	return NULL;
}

/* False: no memory. */
static bool deepen(struct fgt_signal_slot *slot)
{
	uint8_t **room = &deep_rooms[slot - fgt_signal_table.slots];
	void *memory;

	if (!*room) {
		memory = mmap(
			NULL, FGT_SIGNAL_DEEP_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (memory == MAP_FAILED)
			return false;
		*room = memory;
	}
	/* Only its address is handed over: what is there, the handler writes.
	 */
	atomic_store_explicit(&slot->deep, *room, memory_order_relaxed);
	return true;
}

void fgt_signal_slot_want(struct fgt_signal_slot *slot, uint32_t bytes,
			  uint64_t interrupted_sp)
{
	uint64_t room = bytes;

	/* The handler reads words. */
	interrupted_sp &= ~7ull;
	if (interrupted_sp >= slot->stack_low &&
	    interrupted_sp < slot->stack_high) {
		room += slot->stack_high - interrupted_sp;
		if (interrupted_sp < atomic_load_explicit(&slot->want_other,
							  memory_order_relaxed))
			atomic_store_explicit(&slot->want_other, interrupted_sp,
					      memory_order_relaxed);
	}
	if (bytes > FGT_SIGNAL_DEEP_BYTES)
		bytes = FGT_SIGNAL_DEEP_BYTES;
	if (room > FGT_SIGNAL_STACK_BYTES && !deepen(slot) &&
	    bytes > FGT_SIGNAL_STACK_BYTES)
		bytes = FGT_SIGNAL_STACK_BYTES;
	if (bytes > FGT_SIGNAL_FIRST_BYTES)
		atomic_store_explicit(&slot->want_bytes, bytes,
				      memory_order_relaxed);
}

void fgt_signal_slot_set_period(struct fgt_signal_slot *slot,
				uint64_t period_ns, bool is_busy)
{
	uint32_t overrun = LONG_CALL_NS / (uint32_t)period_ns;

	atomic_store_explicit(&slot->period_ns, (uint32_t)period_ns,
			      memory_order_relaxed);
	/* One period alone is what all signals wait for. */
	if (!overrun)
		overrun = 1;
	atomic_store_explicit(&slot->long_overrun,
			      is_busy ? overrun : UINT32_MAX,
			      memory_order_relaxed);
}

struct fgt_running_sample
fgt_signal_slot_sample(const struct fgt_signal_slot *slot)
{
	return (struct fgt_running_sample){
		.pid = fgt_signal_table.pid,
		.tid = slot->found_tid,
		.time_ns = fgt_timespec_ns(&slot->taken_at),
		.before_ns = fgt_timespec_ns(&slot->before_at),
		.next_ns = fgt_timespec_ns(&slot->next_at),
		.has_regs = true,
		.regs = slot->regs,
		.stack = slot->taken,
		.stack_len = slot->len_bytes,
		.other = slot->other_bytes ? slot->taken + slot->len_bytes
					   : NULL,
		.other_start = slot->other_start,
		.other_len = slot->other_bytes,
	};
}

void fgt_signal_slots_forget(void)
{
	if (fgt_signal_table.slots)
		madvise(fgt_signal_table.slots,
			(size_t)fgt_signal_table.count * FGT_SIGNAL_SLOT_BYTES,
			MADV_DONTNEED);
}

/* Its pages go back to the kernel, all zero: FREE. */
void fgt_signal_slot_put(struct fgt_signal_slot *slot)
{
	unsigned int empty = FGT_SIGNAL_EMPTY, full = FGT_SIGNAL_FULL;
	uint8_t *deep;

	if (!slot)
		return;
	atomic_store_explicit(&slot->tid, 0, memory_order_relaxed);
	if (!atomic_compare_exchange_strong(&slot->state, &empty,
					    FGT_SIGNAL_FREE) &&
	    !atomic_compare_exchange_strong(&slot->state, &full,
					    FGT_SIGNAL_FREE))
		return; /* WRITING */
	madvise(slot, sizeof(*slot), MADV_DONTNEED);
	deep = deep_rooms[slot - fgt_signal_table.slots];
	if (deep)
		madvise(deep, FGT_SIGNAL_DEEP_BYTES, MADV_DONTNEED);
}

/* ---- The signal -------------------------------------------------------- */

bool fgt_signal_choice_is_kept(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 &&
	       (action.sa_flags & SA_SIGINFO) &&
	       action.sa_sigaction == fgt_signal_handle;
}

static int find_free(void)
{
	for (size_t i = 0; i < COUNT(candidates); i++) {
		struct sigaction action;

		if (sigaction(candidates[i], NULL, &action) < 0)
			continue;
		if (!(action.sa_flags & SA_SIGINFO) &&
		    (action.sa_handler == SIG_DFL ||
		     action.sa_handler == SIG_IGN))
			return candidates[i];
	}
	return 0;
}

static bool is_fault(int number)
{
	static const int faults[] = { SIGSEGV, SIGBUS,	SIGILL, SIGFPE,
				      SIGABRT, SIGTRAP, SIGSYS };

	for (size_t i = 0; i < COUNT(faults); i++)
		if (number == faults[i])
			return true;
	return false;
}

void fgt_signal_look_for_handlers(int number)
{
	bool is_used = false;

	for (int i = 1; i < NSIG && !is_used; i++) {
		struct sigaction action;

		is_used = i != number && !is_fault(i) &&
			  sigaction(i, NULL, &action) == 0 &&
			  (action.sa_flags & SA_ONSTACK) &&
			  action.sa_handler != SIG_DFL &&
			  action.sa_handler != SIG_IGN &&
			  !sigismember(&action.sa_mask, number);
	}
	atomic_store_explicit(&fgt_signal_table.is_alternate_used, is_used,
			      memory_order_relaxed);
}

int fgt_signal_choice_take(int *ret_number)
{
	/* On the alternate stack where there is one: languages with small
	 * stacks of their own insist on it. */
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART |
						SA_ONSTACK };
	uint64_t frame_bytes = getauxval(AT_MINSIGSTKSZ);
	int number = find_free();

	if (!number)
		return -ENOSPC;
	fgt_signal_table.alternate_least = 2 * (frame_bytes < FRAME_BYTES_MIN
							? FRAME_BYTES_MIN
							: frame_bytes) +
					   HANDLER_BYTES;
	fgt_signal_look_for_handlers(number);
	action.sa_sigaction = fgt_signal_handle;
	sigfillset(&action.sa_mask);
	if (sigaction(number, NULL, &fgt_signal_table.previous) < 0 ||
	    sigaction(number, &action, NULL) < 0)
		return -errno;
	*ret_number = number;
	return 0;
}

void fgt_signal_choice_give_back(void)
{
	for (size_t i = 0; i < COUNT(candidates); i++)
		if (fgt_signal_choice_is_kept(candidates[i]))
			sigaction(candidates[i], &fgt_signal_table.previous,
				  NULL);
}
