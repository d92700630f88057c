/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of threads of this very process that are on a CPU, by a perf event on
 * the CPU time of the thread or by a timer on it. Used in the sampler's
 * thread.
 */
#ifndef FGT_AGENT_EMBED_PERF_RUNNING_OWN_H
#define FGT_AGENT_EMBED_PERF_RUNNING_OWN_H

#include "agent/capture/running/running.h"

/*
 * Where events are permitted the busiest threads have one each, at most 16;
 * their buffers, 68 KiB each or more, take no more than a quarter of what the
 * program may lock in memory, or 1.25 MiB. All other threads have timers (see
 * running_signal.h), which fire at ticks of the kernel: so do threads whose
 * stack a record has no room for, that switch more than 5000 times a second, or
 * that are in long calls in the kernel, where the event may not look.
 */
extern const struct fgt_running fgt_running_own;

#endif
