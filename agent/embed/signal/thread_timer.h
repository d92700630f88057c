/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers on the CPU time of a thread of this process, each of which signals
 * that very thread. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_THREAD_TIMER_H
#define FGT_AGENT_EMBED_SIGNAL_THREAD_TIMER_H

#include <stdint.h>

/* How long the kernel's own ticks are apart, at which it looks at such timers;
 * 0 if it does not show that. MT-Safe | AS-Safe */
uint64_t fgt_thread_timer_kernel_tick(void);

/* The period of CPU time, ns, with which each tick of the kernel that finds the
 * thread on a CPU counts, where they are not too many. MT-Safe | AS-Safe */
uint64_t fgt_thread_timer_period(uint64_t kernel_tick_ns);
/* … and for a thread that is on a CPU all the time: at least one within so
 * many ns, and few more. MT-Safe | AS-Safe */
uint64_t fgt_thread_timer_rare(uint64_t kernel_tick_ns, uint64_t within_ns);

/* Starts one; its signals bear value. errno of timer_create(2) and
 * timer_settime(2). MT-Safe | AS-Safe */
int fgt_thread_timer_start(int32_t tid, int number, void *value,
			   uint64_t period_ns, int *ret_timer);
/* errno of timer_settime(2): the thread may have ended. MT-Safe | AS-Safe */
int fgt_thread_timer_change(int timer, uint64_t period_ns);
/* The thread may have ended. MT-Safe | AS-Safe */
void fgt_thread_timer_end(int timer);

#endif
