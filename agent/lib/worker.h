/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's one thread in agent mode: reconnects, lets the parts work off
 * what they have, tells lines.
 */
#ifndef FGT_AGENT_LIB_WORKER_H
#define FGT_AGENT_LIB_WORKER_H

#include <stdbool.h>
#include <stdint.h>

struct fgt_worker_calls {
	/* Once a second. */
	void (*refresh)(void);
	/* After each round; is_idle: the parts have nothing left to do that
	 * came before the round; wanted: see fgt_worker_want(). */
	void (*rounded)(bool is_idle, uint64_t wanted);
	/* The last thing that the thread does. */
	void (*ended)(void);
};

/*
 * Starts the thread, which rests until fgt_worker_go(). calls must stay.
 * -EAGAIN, -ENOMEM. One at a time.
 */
int fgt_worker_start(const struct fgt_worker_calls *calls, int32_t *ret_tid);
void fgt_worker_go(void);

/* MT-Safe | AS-Safe */
void fgt_worker_wake(void);
/* Asks for a round that sees everything that was done before this call:
 * rounded() is told the number that is returned, or a later one. */
uint64_t fgt_worker_want(void);

/* It ends when the parts are idle, at until_ns at the latest (a delivery
 * under way may take longer). */
void fgt_worker_leave(uint64_t until_ns);
/* It has not come back in time: parts give up what is left, which is told in
 * its stead. Waits for the program's log, at most a second. */
void fgt_worker_give_up(void);
/* After ended() has been called, or is just about to be. */
void fgt_worker_join(void);
/* Nobody joins it: it is left to itself. */
void fgt_worker_abandon(void);

/* In the child of a fork: there is none. */
void fgt_worker_forked(void);

#endif
