/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heartbeats: what a thread is doing, and about which process, so that another
 * thread sees that it has stopped getting on. And calls that may never return,
 * since a process or file system of another user has to answer: a thread
 * inside one may be given up.
 *
 * A step is one store to memory that no other thread writes. A thread without a
 * heartbeat, and a program that records itself, has no cost but a test.
 */
#ifndef FGT_RINGBUF_BASE_HEARTBEAT_H
#define FGT_RINGBUF_BASE_HEARTBEAT_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fgt_beat_step {
	FGT_STEP_IDLE, /* waits for work */
	FGT_STEP_TIMER, /* waits for the next tick */
	FGT_STEP_WORK,
	/* Calls that may never return. */
	FGT_STEP_MEMORY, /* reads memory of the process */
	FGT_STEP_PROCFS, /* reads its files in /proc */
	FGT_STEP_FILE, /* opens or reads a file that it has mapped */
	FGT_STEP_COUNT
};

/* "at work", "reading its memory", … */
const char *fgt_step_name(enum fgt_beat_step step);

/* At [40]: a number that each step changes; [32]: the step; [0]: the pid. */
#define FGT_BEAT_STEP_SHIFT 32
#define FGT_BEAT_NUMBER	    (UINT64_C(1) << 40)

struct fgt_heartbeat {
	/* The thread's, but fgt_heartbeat_give_up() takes it away. */
	_Atomic uint64_t beat;
	uint64_t work; /* only the thread's: the beat at FGT_STEP_WORK */
	_Atomic int32_t tid; /* 0: this place is free; -1: given up, ended */
	const char *name;
	jmp_buf *given_up;
	int kept_fd; /* only the thread's; -1: none */
	_Atomic int32_t lost_pid; /* about which it was given up; relaxed */
};

/*
 * Gives the calling thread a heartbeat; name: a string constant, for messages.
 * given_up: where it goes on to end when it was given up, NULL: it never is.
 * NULL where there are too many. _end() must come before the thread ends.
 * MT-Safe | AS-Unsafe
 */
struct fgt_heartbeat *fgt_heartbeat_begin(const char *name, jmp_buf *given_up);
void fgt_heartbeat_end(void);

/* ---- Steps of the calling thread: MT-Safe | AS-Unsafe --------------------- */

/* Is there any thread with a heartbeat? Set once. */
extern atomic_bool fgt_heartbeat_is_used;
struct fgt_heartbeat *fgt_heartbeat_own(void); /* NULL: it has none */

static inline struct fgt_heartbeat *fgt_heartbeat_of_caller(void)
{
	/* Relaxed: what a thread itself has set. */
	return atomic_load_explicit(&fgt_heartbeat_is_used,
				    memory_order_relaxed)
		       ? fgt_heartbeat_own()
		       : NULL;
}

/* IDLE, TIMER or WORK; pid: about which process, 0: none. */
static inline void fgt_heartbeat_set(struct fgt_heartbeat *heartbeat,
				     enum fgt_beat_step step, int32_t pid)
{
	if (!heartbeat)
		return;
	heartbeat->work =
		((heartbeat->work + FGT_BEAT_NUMBER) & -FGT_BEAT_NUMBER) |
		(uint64_t)FGT_STEP_WORK << FGT_BEAT_STEP_SHIFT | (uint32_t)pid;
	atomic_store_explicit(&heartbeat->beat,
			      heartbeat->work -
				      ((uint64_t)(FGT_STEP_WORK - (int)step)
				       << FGT_BEAT_STEP_SHIFT),
			      memory_order_relaxed);
}

/*
 * Around each call that may never return, and around no other call. Between
 * them no lock is held and nothing that another thread uses is written, as the
 * thread may be given up there: then _leave() does not return, and the thread
 * goes on where it ends. descriptor: closed then, -1: none.
 */
static inline struct fgt_heartbeat *fgt_call_enter(enum fgt_beat_step step)
{
	struct fgt_heartbeat *heartbeat = fgt_heartbeat_of_caller();

	if (!heartbeat)
		return NULL;
	heartbeat->work += FGT_BEAT_NUMBER;
	/* Release: pairs with the acquire in fgt_heartbeat_give_up(), which
	 * hands all of this thread's work over to another one. */
	atomic_store_explicit(&heartbeat->beat,
			      heartbeat->work +
				      ((uint64_t)((int)step - FGT_STEP_WORK)
				       << FGT_BEAT_STEP_SHIFT),
			      memory_order_release);
	return heartbeat;
}

/* What the thread has open between its calls about a process: closed if it is
 * given up in one of them. fd may be -1: none any more. */
static inline void fgt_call_keep(int fd)
{
	struct fgt_heartbeat *heartbeat = fgt_heartbeat_of_caller();

	if (heartbeat)
		heartbeat->kept_fd = fd;
}

_Noreturn void fgt_heartbeat_end_lost(struct fgt_heartbeat *heartbeat,
				      int descriptor);

static inline void fgt_call_leave(struct fgt_heartbeat *heartbeat,
				  int descriptor)
{
	uint64_t beat;

	if (!heartbeat)
		return;
	/* An exchange: the beat is 0 if the thread was given up. */
	beat = atomic_exchange_explicit(&heartbeat->beat, heartbeat->work,
					memory_order_acq_rel);
	if (!beat)
		fgt_heartbeat_end_lost(heartbeat, descriptor);
}

/* ---- For the thread that watches ------------------------------------------ */

#define FGT_HEARTBEATS_MAX 96u

/* NULL: that place is free. number: below FGT_HEARTBEATS_MAX. MT-Safe */
struct fgt_heartbeat *fgt_heartbeat_at(uint32_t number);

static inline enum fgt_beat_step fgt_beat_step(uint64_t beat)
{
	return (enum fgt_beat_step)(beat >> FGT_BEAT_STEP_SHIFT & 0xff);
}

static inline int32_t fgt_beat_pid(uint64_t beat)
{
	return (int32_t)(uint32_t)beat;
}

/* Is the thread inside a call that may never return? */
static inline bool fgt_beat_is_call(uint64_t beat)
{
	return fgt_beat_step(beat) > FGT_STEP_WORK;
}

/*
 * Gives up a thread whose beat is still this one, inside such a call: it will
 * do nothing any more but end. False: it has gone on, or never is given up.
 * What it had is the caller's then, except what the kernel may write when the
 * call returns, which must stay until the thread has ended.
 */
bool fgt_heartbeat_give_up(struct fgt_heartbeat *heartbeat, uint64_t beat);
/* Is any thread still in such a call about that process? Others keep away from
 * it. MT-Safe */
bool fgt_heartbeat_is_lost_in(int32_t pid);
/* Has a thread that was given up returned from its call? Then it can be joined,
 * and its place must be freed, once. */
bool fgt_heartbeat_has_ended(const struct fgt_heartbeat *heartbeat);
void fgt_heartbeat_free(struct fgt_heartbeat *heartbeat);

#endif
