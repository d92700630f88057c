/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's own threads when the program changes its user or groups.
 *
 * setuid(2) and its like are of one thread; the C library has them done by
 * every thread, each on a signal that it keeps for itself, and ends the program
 * where one may what another may not. A program that keeps capabilities beyond
 * the change (PR_SET_KEEPCAPS, capset(2): of one thread, too) and changes its
 * groups with them would end by ours, which have lost them. So ours keep what
 * they are permitted, without effect, and at each such change put into effect
 * what is in effect in the program's first thread. What that has given up they
 * give up when they run next, and all of it half a second after the change.
 *
 * Nothing is done where the program has no capabilities.
 */
#ifndef FGT_AGENT_LIB_RIGHTS_H
#define FGT_AGENT_LIB_RIGHTS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

/* One thread each. */
enum fgt_rights_thread {
	FGT_RIGHTS_WORKER,
	FGT_RIGHTS_SAMPLER,
	FGT_RIGHTS_ACTIVITY,
	FGT_RIGHTS_THREADS
};

/* At a thread's beginning, before the program may rely on it. */
void fgt_rights_begin(enum fgt_rights_thread which);
/* By that thread, whenever it runs: returns when it has to come again, if that
 * is before when_ns, else when_ns. */
uint64_t fgt_rights_follow(enum fgt_rights_thread which, uint64_t when_ns);
/* The thread has ended, or is about to. MT-Safe */
void fgt_rights_end(enum fgt_rights_thread which);

/* ---- For the handler --------------------------------------------------- */

struct fgt_rights_slot {
	/* 0: none. Written by the thread itself and when it has ended. Relaxed:
	 * it matters to that thread only. */
	_Atomic int32_t tid;
	/* Of user or groups. Written by the thread's handler. Relaxed: ditto. */
	atomic_uint changes;
};

struct fgt_rights_table {
	struct fgt_rights_slot slots[FGT_RIGHTS_THREADS];
	int32_t pid; /* written before the handler is there, and by children */
	void (*previous)(int number, siginfo_t *info, void *context);
};

extern struct fgt_rights_table fgt_rights_table;

/* Of the C library's signal. AS-Safe */
void fgt_rights_handle(int number, siginfo_t *info, void *context);

#endif
