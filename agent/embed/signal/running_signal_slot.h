/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a signal handler leaves for the sampler: the registers of the thread
 * that it interrupted and a piece of its stack.
 *
 * A slot belongs to one thread of this process. The sampler makes it FREE or
 * EMPTY; the handler, in that thread, takes it from EMPTY or FULL over WRITING
 * to FULL, so that any one of the samples since the last tick is in it: the
 * first or the last would show only what is at one end of a run. The one of a
 * long call in the kernel, which comes when the call ends, is kept in any case:
 * the ticks that had no sample were in that call. The sampler takes it from
 * FULL over READING to EMPTY. Slots are never unmapped: a handler may begin
 * long after its timer is gone. One that finds then that the slot was lent
 * again leaves it as it was: each signal bears the number of its lending.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_RUNNING_SIGNAL_SLOT_H
#define FGT_AGENT_EMBED_SIGNAL_RUNNING_SIGNAL_SLOT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/capture/running/running.h"
#include "agent/unwind/arch/snapshot.h"

#define FGT_SIGNAL_SLOTS_MAX   512u
#define FGT_SIGNAL_SLOT_BYTES  65536u
#define FGT_SIGNAL_SLOT_HEAD   512u
#define FGT_SIGNAL_FIRST_BYTES 8192u /* wanted until more are needed */
#define FGT_SIGNAL_STACK_BYTES (FGT_SIGNAL_SLOT_BYTES - FGT_SIGNAL_SLOT_HEAD)
/* Of a thread that needs more: the handler copies them in 18 µs. */
#define FGT_SIGNAL_DEEP_BYTES FGT_SNAPSHOT_MAX_BYTES

enum fgt_signal_state {
	FGT_SIGNAL_FREE, /* as memory is when it is new */
	FGT_SIGNAL_EMPTY,
	FGT_SIGNAL_WRITING,
	FGT_SIGNAL_FULL,
	FGT_SIGNAL_READING,
};

struct fgt_signal_slot {
	/* Written by both sides, see above; the values below go with it. */
	atomic_uint state; /* enum fgt_signal_state */
	/* Set by the sampler, while FREE. */
	_Atomic int32_t tid;
	atomic_uint want_bytes; /* of stack, at most FGT_SIGNAL_DEEP_BYTES */
	atomic_uint period_ns; /* of its timer, CPU time; 0: not known */
	/* With such an overrun, a signal comes from a long call. */
	atomic_uint long_overrun;
	/* [FGT_SIGNAL_DEEP_BYTES], in the place of stack; NULL: not needed. */
	_Atomic(uint8_t *) deep;
	/* Of the thread's own stack, copied from there on where a sample finds
	 * the thread on an alternate one. */
	_Atomic uint64_t want_other;
	uint32_t lending; /* its number, less than FGT_SIGNAL_SLOT_BYTES */
	uint64_t stack_low, stack_high; /* of the thread, 0 if not known */
	bool is_stack_asked; /* false: not known of any thread */
	/* The handler's. */
	uint32_t count; /* samples since the last tick */
	uint32_t random;
	int32_t found_tid;
	const uint8_t *taken; /* where the sample is: stack or deep */
	uint32_t asked_bytes, len_bytes; /* of stack */
	/* Behind them: so much of the thread's own stack, from there on. */
	uint32_t other_bytes;
	uint64_t other_start;
	/* CLOCK_MONOTONIC: of the last signal; of the sample's, the one before
	 * it, and the first one after it; 0: none. */
	struct timespec last_at, taken_at, before_at, next_at;
	uint32_t taken_period_ns; /* the timer's then */
	bool is_after_call; /* the kernel's: the signal may have been pending */
	int32_t overrun; /* expirations that came while it was pending */
	bool is_of_long_call; /* the sample that is kept */
	bool has_room_aside; /* so the alternate stack has, see below */
	/* Since it was lent, the thread was seen on a stack that is not known
	 * to be its own (coroutines), without an alternate one, or with one
	 * that is too small for two signals. The room for the signal's frame is
	 * unknown there, or there is none, so its timer was stopped.
	 * Cleared by the sampler, while FREE. */
	atomic_bool is_foreign;
	struct fgt_regs regs;
	_Alignas(FGT_SIGNAL_SLOT_HEAD) uint8_t stack[FGT_SIGNAL_STACK_BYTES];
};

_Static_assert(sizeof(struct fgt_signal_slot) == FGT_SIGNAL_SLOT_BYTES,
	       "slots lie side by side");

/* All that the handler knows; set before it is installed. */
struct fgt_signal_table {
	struct fgt_signal_slot *slots;
	uint32_t count;
	int32_t pid;
	/* The program's, before the signal was taken. */
	struct sigaction previous;
	/* An alternate stack has room for a handler of the program and for this
	 * one, with so many bytes. */
	uint64_t alternate_least;
	/* The program has handlers that may be on one for long. Relaxed: a
	 * handler may be installed at any moment. */
	atomic_bool is_alternate_used;
};
extern struct fgt_signal_table fgt_signal_table;

/* ---- The sampler's side (running_signal_slots.c) ------------------------ */

/* 1 the first time, 0 if they are there already; -ENOMEM. */
int fgt_signal_slots_map(void);
bool fgt_signal_slots_are_written(void);
/* In the child of a fork, where no thread has one: all are FREE. AS-Safe */
void fgt_signal_slots_forget(void);
/* One for a thread whose stack is known to lie there, or 0 and 0;
 * is_stack_asked: it would be known, if it were one as most are. The search
 * begins at *next_slot. NULL: all are taken. */
struct fgt_signal_slot *fgt_signal_slot_get(uint32_t *next_slot, int32_t tid,
					    uint64_t stack_low,
					    uint64_t stack_high,
					    bool is_stack_asked);
/* What the next samples shall hold: so many bytes of stack, and its own stack
 * from interrupted_sp on, if that is not 0. */
void fgt_signal_slot_want(struct fgt_signal_slot *slot, uint32_t bytes,
			  uint64_t interrupted_sp);
/* Its timer has this period, of CPU time. is_busy: the thread runs all the
 * time, so that a signal that is late comes from a long call. */
void fgt_signal_slot_set_period(struct fgt_signal_slot *slot,
				uint64_t period_ns, bool is_busy);
/* The sample that is in it, while READING, of the instant at which the signal
 * came: borrowed. */
struct fgt_running_sample
fgt_signal_slot_sample(const struct fgt_signal_slot *slot);
/* NULL is accepted. */
void fgt_signal_slot_put(struct fgt_signal_slot *slot);
/* What the signals of its thread shall bear: an address in it, as far from its
 * begin as the lending's number. */
static inline void *fgt_signal_slot_value(struct fgt_signal_slot *slot)
{
	return (char *)slot + slot->lending;
}

/* A signal that the program leaves alone and that does nothing by default: it
 * has the handler from now on. -ENOSPC: none; errno of sigaction. MT-Unsafe */
int fgt_signal_choice_take(int *ret_number);
/* Now and then: has the program handlers for an alternate stack, during which
 * this signal may come? Not counted are those of faults, which are rarely on it
 * for long: languages give each thread a small stack for them. */
void fgt_signal_look_for_handlers(int number);
/* The program may have put another handler in its place. AS-Safe */
bool fgt_signal_choice_is_kept(int number);
/* Restores the former handler if the present one is the source's. AS-Safe */
void fgt_signal_choice_give_back(void);

/* ---- The handler's (running_signal_sig.c) ------------------------------- */

/* The handler, and its parts for tests. AS-Safe, needs no TLS */
void fgt_signal_handle(int number, siginfo_t *info, void *context);
/* The slot that a signal names, and which lending of it; NULL: the signal
 * is not the source's. */
struct fgt_signal_slot *fgt_signal_find(const siginfo_t *info,
					uint32_t *ret_lending);
/* False: it is being read, or was lent again. */
bool fgt_signal_take(struct fgt_signal_slot *slot, uint32_t lending,
		     const siginfo_t *info, const void *context);

#endif
