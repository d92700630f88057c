/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signal handler of embedded sampling. Runs in threads of the host, at any
 * instruction, perhaps one without thread-local storage: copies, stops its
 * timer where the next signal might do harm, and does nothing else. No libc (so
 * errno stays as it is), no lock, no allocation; what it reads of stacks it
 * reads through the kernel, or has asked it about.
 */
#include "agent/embed/signal/running_signal_slot.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>

#include "agent/embed/signal/system_call.h"

#define PAGE_BYTES 4096u
#define CALL_BYTES 2 /* of the instruction, on x86-64 */

struct fgt_signal_table fgt_signal_table;

#if defined(__x86_64__)

/* DWARF's number of each register, in the order of gregset_t. */
static const uint8_t dwarf_numbers[] = { 8, 9, 10, 11, 12, 13, 14, 15, 5,
					 4, 6, 3,  1,  0,  2,  7,  16 };

static void copy_regs(const void *context, struct fgt_regs *regs)
{
	const ucontext_t *user = context;

	regs->valid = 0;
	for (size_t i = 0; i < sizeof(dwarf_numbers); i++)
		fgt_regs_set(regs, dwarf_numbers[i],
			     (uint64_t)user->uc_mcontext.gregs[i]);
}

static uint64_t stack_pointer(const void *context)
{
	const ucontext_t *user = context;

	return (uint64_t)user->uc_mcontext.gregs[REG_RSP];
}

/* The instruction that calls the kernel leaves its end there; a call that is
 * made again begins before it. */
static bool is_after_call(const void *context)
{
	const greg_t *regs = ((const ucontext_t *)context)->uc_mcontext.gregs;
	greg_t ahead = regs[REG_RCX] - regs[REG_RIP];

	return ahead == 0 || ahead == CALL_BYTES;
}

#elif defined(__aarch64__)

#define REG_SP 31
#define REG_PC 32

static void copy_regs(const void *context, struct fgt_regs *regs)
{
	const ucontext_t *user = context;

	regs->valid = 0;
	for (unsigned int i = 0; i < REG_SP; i++)
		fgt_regs_set(regs, i, user->uc_mcontext.regs[i]);
	fgt_regs_set(regs, REG_SP, user->uc_mcontext.sp);
	fgt_regs_set(regs, REG_PC, user->uc_mcontext.pc);
}

static uint64_t stack_pointer(const void *context)
{
	const ucontext_t *user = context;

	return user->uc_mcontext.sp;
}

static bool is_after_call(const void *context)
{
	(void)context;
	return false; /* no register shows it */
}

#endif

/* True if eight bytes may be read: the kernel reads them as a signal set before
 * it refuses the first argument. */
static bool is_readable(uint64_t address)
{
	return fgt_system_call(SYS_rt_sigprocmask, -1, (long)address, 0, 8,
			       0) == -EINVAL;
}

/* A page at a time, and no more than there is; len is a multiple of eight. */
static uint32_t copy_own_stack(uint64_t sp, uint8_t *buffer, uint64_t len)
{
	const uint64_t *from = (const uint64_t *)(uintptr_t)sp;
	volatile uint64_t *to = (volatile uint64_t *)(void *)buffer;

	for (uint64_t i = 0; i < len / 8; i++) {
		bool is_next = i == 0 || (uintptr_t)&from[i] % PAGE_BYTES == 0;

		if (is_next && !is_readable((uintptr_t)&from[i]))
			return (uint32_t)(i * 8);
		to[i] = from[i];
	}
	return (uint32_t)len;
}

/* Copies as much as there is: the kernel copies page by page. Reads through the
 * thread itself: the first thread may have ended, and shows no memory then. */
static uint32_t copy_any_stack(int32_t tid, uint64_t sp, uint8_t *buffer,
			       uint64_t len)
{
	struct iovec local = { .iov_base = buffer, .iov_len = len };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)sp,
				.iov_len = len };
	long copied = fgt_system_call(SYS_process_vm_readv, tid, (long)&local,
				      1, (long)&remote, 1);

	return copied > 0 ? (uint32_t)copied : 0;
}

/* So many bytes of the alternate stack lie between sp and its end; 0: the
 * thread is not on it. */
static uint64_t left_on_alternate(const ucontext_t *user, uint64_t sp)
{
	uint64_t start = (uint64_t)(uintptr_t)user->uc_stack.ss_sp;
	uint64_t size = user->uc_stack.ss_size;

	return sp - start < size ? size - (sp - start) : 0;
}

static bool is_own_stack(const struct fgt_signal_slot *slot, uint64_t sp)
{
	return sp >= slot->stack_low && sp < slot->stack_high;
}

/*
 * A thread's own stack stays mapped while the thread runs, so the handler reads
 * it directly, with calls that every program makes: process_vm_readv(2) may end
 * a program that has confined itself. Other stacks (of coroutines), or what
 * lies beside them, may be unmapped while the handler reads.
 */
static uint32_t copy_stack(const struct fgt_signal_slot *slot, uint64_t sp,
			   uint8_t *buffer, uint64_t want_bytes)
{
	if (sp % 8 || !is_own_stack(slot, sp))
		return copy_any_stack(slot->found_tid, sp, buffer, want_bytes);
	if (want_bytes > slot->stack_high - sp)
		want_bytes = slot->stack_high - sp;
	return copy_own_stack(sp, buffer, want_bytes & ~7ull);
}

struct fgt_signal_slot *fgt_signal_find(const siginfo_t *info,
					uint32_t *ret_lending)
{
	uintptr_t first = (uintptr_t)fgt_signal_table.slots;
	uintptr_t at = (uintptr_t)info->si_value.sival_ptr;

	if (info->si_code != SI_TIMER)
		return NULL;
	if (!first || at < first ||
	    at - first >=
		    (size_t)fgt_signal_table.count * FGT_SIGNAL_SLOT_BYTES)
		return NULL;
	*ret_lending = (uint32_t)((at - first) % FGT_SIGNAL_SLOT_BYTES);
	return &fgt_signal_table.slots[(at - first) / FGT_SIGNAL_SLOT_BYTES];
}

static bool begin_writing(struct fgt_signal_slot *slot, unsigned int state)
{
	/* Acquire: what was in it has been read, and whose it is has been
	 * written. Pairs with the releases of signal_drain() and
	 * fgt_signal_slot_get(). */
	return atomic_compare_exchange_strong_explicit(
		&slot->state, &state, FGT_SIGNAL_WRITING, memory_order_acquire,
		memory_order_relaxed);
}

static void end_writing(struct fgt_signal_slot *slot, unsigned int state)
{
	/* Release: pairs with the acquires of signal_drain() and
	 * fgt_signal_slot_get(). */
	atomic_store_explicit(&slot->state, state, memory_order_release);
}

/* The thread of that lending; 0: it is over. While the slot is written to, it
 * is not lent again. */
static int32_t tid_of(const struct fgt_signal_slot *slot, uint32_t lending)
{
	return slot->lending == lending
		       ? atomic_load_explicit(&slot->tid, memory_order_relaxed)
		       : 0;
}

/*
 * Each of n samples has the same chance to be the one that is kept. One of a
 * long call stays: the ticks without a sample before it are its.
 */
static bool is_chosen(struct fgt_signal_slot *slot, int overrun)
{
	if (slot->is_of_long_call)
		return false;
	slot->is_of_long_call =
		overrun > 0 &&
		(uint32_t)overrun >= atomic_load_explicit(&slot->long_overrun,
							  memory_order_relaxed);
	slot->count++;
	slot->random = slot->random * 1664525u + 1013904223u;
	return slot->is_of_long_call || (slot->random >> 16) % slot->count == 0;
}

/* Neither on what is known to be the thread's own stack nor beside an alternate
 * one; its flags do not show whether there is one. */
static bool is_foreign(const struct fgt_signal_slot *slot, const void *context)
{
	const ucontext_t *user = context;

	return slot->is_stack_asked && !user->uc_stack.ss_size &&
	       !is_own_stack(slot, stack_pointer(context));
}

static bool has_room_aside(const ucontext_t *user)
{
	return user->uc_stack.ss_size >= fgt_signal_table.alternate_least;
}

/* A signal that comes while a handler of the program is on its alternate stack
 * has its frame there, too: what that has no room for ends the program. */
static bool is_tight(const ucontext_t *user)
{
	return user->uc_stack.ss_size && !has_room_aside(user) &&
	       (left_on_alternate(user, stack_pointer(user)) ||
		atomic_load_explicit(&fgt_signal_table.is_alternate_used,
				     memory_order_relaxed));
}

/* The next signal may overwrite what lies below such a stack, and the sampler
 * may come too late to see to it. One that comes while the slot is being read
 * shows nothing: that is for the next one. */
static void note_foreign(struct fgt_signal_slot *slot, int timer)
{
	static const struct itimerspec never;

	/* Before the timer is stopped: choose_period() looks when it has set
	 * it. Both order what the kernel does, by its own locks. */
	atomic_store_explicit(&slot->is_foreign, true, memory_order_seq_cst);
	fgt_system_call(SYS_timer_settime, timer, 0, (long)&never, 0, 0);
}

/*
 * On its alternate stack, the thread has a stack that a signal interrupted: its
 * own one, as far as is known. That stands still meanwhile, and is copied here:
 * by the time of the tick the handler may be over.
 */
static void copy_interrupted(struct fgt_signal_slot *slot, uint8_t *buffer,
			     uint64_t room)
{
	uint64_t start =
		atomic_load_explicit(&slot->want_other, memory_order_relaxed);
	uint64_t len = slot->stack_high - start;

	slot->other_start = start;
	slot->other_bytes = copy_own_stack(start, buffer,
					   (len < room ? len : room) & ~7ull);
}

/* The present time becomes that of the last signal; returns the former one. */
static struct timespec note_time(struct fgt_signal_slot *slot)
{
	struct timespec before = slot->last_at;

	fgt_system_call(SYS_clock_gettime, CLOCK_MONOTONIC,
			(long)&slot->last_at, 0, 0, 0);
	return before;
}

static void write_sample(struct fgt_signal_slot *slot, int32_t tid, int overrun,
			 const void *context)
{
	uint8_t *deep = atomic_load_explicit(&slot->deep, memory_order_relaxed);
	uint8_t *buffer = deep ? deep : slot->stack;
	uint64_t room = deep ? FGT_SIGNAL_DEEP_BYTES : FGT_SIGNAL_STACK_BYTES;
	uint64_t sp = stack_pointer(context), want, left = 0;

	slot->found_tid = tid;
	slot->overrun = overrun;
	slot->is_after_call = is_after_call(context);
	slot->has_room_aside = has_room_aside(context);
	slot->taken_at = slot->last_at;
	slot->taken_period_ns =
		atomic_load_explicit(&slot->period_ns, memory_order_relaxed);
	slot->next_at = (struct timespec){ 0, 0 };
	slot->taken = buffer;
	slot->other_bytes = 0;
	copy_regs(context, &slot->regs);
	want = atomic_load_explicit(&slot->want_bytes, memory_order_relaxed);
	if (want > room)
		want = room;
	slot->asked_bytes = (uint32_t)want;
	if (!is_own_stack(slot, sp))
		left = left_on_alternate(context, sp) & ~7ull;
	if (left && left < want)
		want = left;
	slot->len_bytes = copy_stack(slot, sp, buffer, want);
	/* What follows are words. */
	if (left && slot->stack_high && slot->len_bytes % 8 == 0)
		copy_interrupted(slot, buffer + slot->len_bytes,
				 room - slot->len_bytes);
}

bool fgt_signal_take(struct fgt_signal_slot *slot, uint32_t lending,
		     const siginfo_t *info, const void *context)
{
	unsigned int before = FGT_SIGNAL_EMPTY;
	struct timespec previous_at;
	int32_t tid;

	if (!begin_writing(slot, before)) {
		before = FGT_SIGNAL_FULL;
		if (!begin_writing(slot, before))
			return false;
	}
	/* A timer's last signal may come when its slot is another thread's. */
	tid = tid_of(slot, lending);
	if (!tid) {
		end_writing(slot, before);
		return false;
	}
	if (before == FGT_SIGNAL_EMPTY) {
		slot->count = 0;
		slot->is_of_long_call = false;
	}
	if (is_foreign(slot, context) || is_tight(context))
		note_foreign(slot, info->si_timerid);
	previous_at = note_time(slot);
	if (is_chosen(slot, info->si_overrun)) {
		slot->before_at = previous_at;
		write_sample(slot, tid, info->si_overrun, context);
	} else if (!slot->next_at.tv_sec) {
		slot->next_at = slot->last_at;
	}
	end_writing(slot, FGT_SIGNAL_FULL);
	return true;
}

/* A signal of the program's, for its former handler. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	const struct sigaction *previous = &fgt_signal_table.previous;

	if (previous->sa_flags & SA_SIGINFO) {
		if (previous->sa_sigaction)
			previous->sa_sigaction(number, info, context);
	} else if (previous->sa_handler != SIG_DFL &&
		   previous->sa_handler != SIG_IGN) {
		previous->sa_handler(number);
	}
}

void fgt_signal_handle(int number, siginfo_t *info, void *context)
{
	uint32_t lending;
	struct fgt_signal_slot *slot = fgt_signal_find(info, &lending);

	if (slot)
		fgt_signal_take(slot, lending, info, context);
	else
		pass_on(number, info, context);
}
