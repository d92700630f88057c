/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread of the library that refreshes the backend, runs the parts and
 * calls the program's log.
 *
 * MT-Safe: _want and _forked. All other functions: fgt_start() and fgt_stop(),
 * one call at a time. AS-Unsafe
 */
#ifndef FGT_AGENT_LIB_START_WORKER_H
#define FGT_AGENT_LIB_START_WORKER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Starts the thread, which sleeps until fgt_worker_go(). It is a user of the
 * library: it calls fgt_library_leave() as its last step. -EAGAIN, -ENOMEM. One
 * at a time.
 */
int fgt_worker_start(int32_t *ret_tid);
void fgt_worker_go(void);

/* Requests a round that sees everything that was done before this call:
 * fgt_library_round_ended() gets the returned number, or a later one. */
uint64_t fgt_worker_want(void);

/* The thread ends when the parts are idle, at until_ns at the latest (a
 * delivery that is under way may take longer). */
void fgt_worker_leave(uint64_t until_ns);
/* The thread did not end in time: parts give up what is left, and another
 * thread logs it. Waits for the program's log, at most a second. */
void fgt_worker_give_up(void);
/* After the thread has left the library, or while it does. */
void fgt_worker_join(void);
/* The thread is not joined: it ends by itself. */
void fgt_worker_abandon(void);

/* In the child of a fork, which has no worker. */
void fgt_worker_forked(void);

#endif
