/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a process's files in /proc for threads that must go on: the loop,
 * slices, deliveries. A process can make such a read wait for ever, without
 * rights (see fgt_procfs_open()). So another thread does it, which is given up
 * then (see heartbeat.h); the caller waits for 0.75 s at most.
 */
#ifndef FGT_AGENT_DAEMON_LOOP_ASIDE_H
#define FGT_AGENT_DAEMON_LOOP_ASIDE_H

#include "agent/daemon/loop/loop.h"

struct fgt_heartbeat;

/*
 * Before there are threads that call _run; until then it runs in its caller.
 * _stop: from then on _run fails; _end: it runs in its caller again.
 * -ENOMEM, -EAGAIN. MT-Unsafe
 */
int fgt_aside_begin(struct fgt_loop *loop);
void fgt_aside_stop(void);
void fgt_aside_end(void);

/*
 * Returns when run(context) has returned. It writes to its context only behind
 * its calls, and keeps what it has open by fgt_call_keep(). uid: whose process
 * it is about. Runs here if this thread can be given up itself.
 *
 * -EAGAIN: it was given up, or others about processes of that user, or too many
 * in all, have not returned. MT-Safe
 */
int fgt_aside_run(void (*run)(void *context), void *context, uint32_t uid);

/* In the watchdog's thread: see fgt_jobs_give_up() and fgt_jobs_tend(). */
void fgt_aside_give_up(struct fgt_heartbeat *heartbeat, uint64_t beat);
void fgt_aside_tend(void);

#endif
