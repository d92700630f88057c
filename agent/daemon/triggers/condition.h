/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a trigger fires, and how often: functions of numbers and slices, with
 * the clock passed in. Times are CLOCK_MONOTONIC in ns.
 *
 * MT-Safe for different objects | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_TRIGGERS_CONDITION_H
#define FGT_AGENT_DAEMON_TRIGGERS_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config/config.h"
#include "ringbuf/slice/slice.h"

/* ---- How often ----------------------------------------------------------- */

/* { 0 } has never fired. */
struct fgt_trigger_limit {
	uint64_t fired_ns[FGT_TRIGGER_PER_HOUR_MAX]; /* a ring */
	uint64_t count; /* so far */
};

struct fgt_trigger_pace {
	uint64_t min_gap_ns;
	uint32_t max_per_hour; /* 1 to FGT_TRIGGER_PER_HOUR_MAX */
};

/* When it may fire again; at most now_ns: it may at once. */
uint64_t fgt_trigger_limit_next(const struct fgt_trigger_limit *limit,
				const struct fgt_trigger_pace *pace);
/* It fires now. */
void fgt_trigger_limit_note(struct fgt_trigger_limit *limit, uint64_t now_ns);

/* ---- The CPU time of a process ------------------------------------------- */

#define FGT_TRIGGER_POINTS 18

/* Its CPU clock at a few instants; { 0 } has none. */
struct fgt_trigger_cpu {
	struct {
		uint64_t at_ns, cpu_ns;
	} points[FGT_TRIGGER_POINTS]; /* oldest first */
	size_t count;
	/* Since then the clock has not moved. */
	uint64_t rests_since_ns;
};

/* for_ns: the time that a share is taken over, at least. A clock that goes back
 * is another process's: it begins again. */
void fgt_trigger_cpu_add(struct fgt_trigger_cpu *cpu, uint64_t now_ns,
			 uint64_t cpu_ns, uint64_t for_ns);

/* Percent of one core over the last for_ns, or a little more. False: it has not
 * been watched for so long. */
bool fgt_trigger_cpu_percent(const struct fgt_trigger_cpu *cpu, uint64_t for_ns,
			     double *ret_percent);

/* ---- What a ring shows ----------------------------------------------------- */

/* A time in a slice; tid and thread are of its thread. */
struct fgt_trigger_stretch {
	uint64_t from_ns, to_ns;
	int32_t tid; /* 0: of all threads */
	char thread[FGT_THREAD_NAME_MAX];
	char state[32];
};

/* Patterns of fnmatch(3); thread NULL: every thread. */
struct fgt_trigger_state {
	const char *state, *thread;
	uint64_t longer_ns;
};

/*
 * The longest time in which a thread was in states that match, without a CPU in
 * between where the slice knows the context switches. states of the slice have
 * names. False: none is as long as longer_ns.
 */
bool fgt_trigger_find_state(const struct fgt_ring_slice *slice,
			    const struct fgt_trigger_state *wanted,
			    struct fgt_trigger_stretch *ret_stretch);

/*
 * The longest time in which no thread ran at any tick, though at each of them
 * one was runnable. False: it is shorter than longer_ns; -ENOMEM counts as
 * that.
 */
bool fgt_trigger_find_starved(const struct fgt_ring_slice *slice,
			      uint64_t longer_ns,
			      struct fgt_trigger_stretch *ret_stretch);

/*
 * Threads each of which waits for a lock that the next one holds, or for its
 * end, the last for one of the first: at the first tick and at the last one.
 * ret_text: "mover (tid 12) and counter (tid 13)", as far as it fits. False:
 * there are none; -ENOMEM counts as that.
 */
bool fgt_trigger_find_deadlock(const struct fgt_ring_slice *slice,
			       int32_t *ret_tid, char *ret_text, size_t size);

/* Was a thread running or runnable at one of the ticks from from_ns on? */
bool fgt_trigger_is_busy(const struct fgt_ring_slice *slice, uint64_t from_ns);

#endif
