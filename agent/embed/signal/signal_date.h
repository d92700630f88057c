/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of which instant a sample is. Timers on CPU time expire at ticks of the
 * kernel, and a signal comes when the call of the kernel is over in which its
 * thread is then. A sample is of the instant at which its signal fell due:
 * those come as regularly as the clock, whatever the thread does.
 *
 * Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_SIGNAL_DATE_H
#define FGT_AGENT_EMBED_SIGNAL_SIGNAL_DATE_H

#include "agent/embed/signal/running_signal_slot.h"

struct fgt_kernel_ticks {
	uint64_t apart_ns; /* 0: not known */
	uint64_t one_ns; /* one of them, CLOCK_MONOTONIC; 0: none was seen */
};

/* Sets time_ns and call_ns of a sample that is of the instant at which its
 * signal came. One that interrupts user mode shows when the kernel ticks. */
void fgt_signal_date(struct fgt_kernel_ticks *ticks,
		     const struct fgt_signal_slot *slot,
		     struct fgt_running_sample *sample);

#endif
