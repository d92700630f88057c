/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of threads of this very process that are on a CPU. Each that uses one
 * gets a timer on its own CPU time, whose signal finds it running, never
 * asleep: the kernel sends it when the thread is about to go on in its own
 * code. The handler copies registers and stack into a slot; the next tick
 * takes them.
 *
 * The signal is one that is ignored by default, so that one which outlives an
 * exec hurts nobody. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_RUNNING_SIGNAL_H
#define FGT_AGENT_EMBED_SIGNAL_RUNNING_SIGNAL_H

#include "agent/capture/running/running_perf.h"
#include "agent/capture/running/running_perf_thread.h"
#include "agent/capture/threads/thread_table.h"

struct fgt_running_signal;

/*
 * Takes a free signal. One in a process: -EBUSY; -ENOSPC the program handles
 * all that could be used; -ENOMEM, errno of timer_create(2) and sigaction(2).
 */
int fgt_running_signal_open(struct fgt_running_signal **ret_signal,
			    struct fgt_why *why);
/* Gives it back, and waits for handlers that are under way. */
void fgt_running_signal_close(struct fgt_running_signal *signal);
FGT_DEFINE_AUTO(struct fgt_running_signal *, fgt_running_signal_close);

/*
 * Once a tick: who may not be signalled, and why? NULL: all may. Nobody, for
 * good, once the handler is not ours any more (seen within 40 ms if whoever
 * took its place calls it, or nobody is signalled, else at once), or the
 * program uses io_uring; nobody as long as it has several threads and a timer
 * on its CPU time that signals the process; some that block the signal, or are
 * near the end of their stack, or whose stack is locked in memory, or not
 * known. threads: of the program. Valid until the close.
 */
const char *fgt_running_signal_check(struct fgt_running_signal *signal,
				     uint32_t threads, uint64_t now_ns);

/* Decides by what a thread did whether it shall have a timer. */
void fgt_running_signal_consider(struct fgt_running_signal *signal,
				 struct fgt_thread *thread,
				 const struct fgt_perf_use *use);
/* Takes the timer of a thread away. */
void fgt_running_signal_drop(struct fgt_running_signal *signal,
			     struct fgt_thread *thread);

/* Hands out what the handler left. */
void fgt_running_signal_drain(struct fgt_running_signal *signal,
			      const struct fgt_perf_handler *handler);

#endif
