/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of threads of this very process that are on a CPU. Each that uses one
 * gets a timer on its own CPU time, whose signal finds it running, never
 * asleep: the kernel sends it when the thread is about to go on in its own
 * code. The handler copies registers and stack into a slot; the next tick
 * takes them.
 *
 * The signal is one that is ignored by default: one that outlives an exec does
 * no harm. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_RUNNING_SIGNAL_H
#define FGT_AGENT_EMBED_SIGNAL_RUNNING_SIGNAL_H

#include "agent/capture/running/running.h"

/*
 * open() takes a free signal, one in a process: -EBUSY; -ENOSPC the program
 * handles all that could be used; -ENOMEM, errno of timer_create(2) and
 * sigaction(2). close() gives it back, and waits for handlers under way.
 *
 * limit(): no thread is signalled any more, once the handler is replaced (seen
 * within 40 ms if its replacement calls it, or no thread is signalled, else at
 * once), or the program uses io_uring. No thread is signalled as long as the
 * program has several threads and a timer on its CPU time that signals the
 * process. Single threads are not signalled that block the signal, are near
 * the end of their stack, or whose stack is locked in memory or not known.
 */
extern const struct fgt_running fgt_running_signal;

#endif
