/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What running_signal.c keeps of the program and of each thread with a timer.
 * Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_SIGNAL_SOURCE_H
#define FGT_AGENT_EMBED_SIGNAL_SIGNAL_SOURCE_H

#include "agent/embed/signal/running_signal_slot.h"
#include "agent/embed/signal/signal_date.h"
#include "agent/embed/signal/signal_watch.h"
#include "agent/embed/signal/thread_stack.h"

struct fgt_thread_signal {
	struct fgt_thread *thread;
	struct fgt_signal_slot *slot;
	int timer;
	uint64_t period_ns; /* of CPU time, between two of its signals */
	uint8_t full_ticks; /* in a row, that it ran throughout */
	uint8_t quiet_ticks; /* … of them, the last ones without a signal */
	bool is_in_call; /* it was then seen with the signal unblocked */
	struct fgt_thread_room room;
	uint64_t checked_ns;
	bool is_proven; /* its handler ran */
	uint32_t index; /* in armed */
};

struct signal_source {
	int number;
	struct fgt_kernel_ticks ticks;
	const char *lost; /* why no thread is signalled any more; or NULL */
	struct fgt_why refusals; /* of some threads */
	uint64_t last_check_ns; /* of the handler */
	uint64_t last_look_ns; /* for handlers of the program */
	bool has_sample; /* at the last tick */
	unsigned long own_filters;
	struct fgt_thread_layout layout; /* need_bytes 0: not learned yet */
	struct fgt_io_uring_watch io_uring;
	struct fgt_cpu_timer_watch cpu_timers;
	uint32_t threads; /* of the program */
	bool has_yielded; /* to its timers on CPU time */
	struct fgt_thread_signal *armed[FGT_SIGNAL_SLOTS_MAX];
	uint32_t armed_count;
	uint32_t next_slot; /* where to look for a free one */
};

#endif
