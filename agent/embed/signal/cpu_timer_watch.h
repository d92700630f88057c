/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does this very process have a timer on CPU time that signals the process, as
 * profilers do? Its signal comes at the same ticks of the kernel as those of
 * timers that signal threads. Where the handler of the latter has begun first,
 * with all signals blocked, the kernel gives the former to any other thread,
 * whose sleep it ends. Used in the sampler's thread.
 */
#ifndef FGT_AGENT_EMBED_SIGNAL_CPU_TIMER_WATCH_H
#define FGT_AGENT_EMBED_SIGNAL_CPU_TIMER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: none was seen. */
struct fgt_cpu_timer_watch {
	uint64_t seen_ns;
	uint64_t listed_ns; /* when those of timer_create(2) were last read */
	bool is_listed; /* one was among them, or might have been */
	unsigned int
		own_timers; /* set by the caller: so many are this source's */
};

/*
 * Is there one now, or was there within the last seconds? Those of setitimer(2)
 * are seen at once, those of timer_create(2) within a second, also while they
 * are not set; where there are too many of these, one is taken to be among
 * them. now_ns: of the tick. MT-Unsafe | AS-Unsafe
 */
bool fgt_cpu_timer_watch_ask(struct fgt_cpu_timer_watch *watch,
			     uint64_t now_ns);
/* The same, of one that was there: asked once a second. */
bool fgt_cpu_timer_watch_follow(struct fgt_cpu_timer_watch *watch,
				uint64_t now_ns);

/*
 * Is one among /proc/PID/timers, as in proc(5), read from the descriptor? 1, 0;
 * -E2BIG not among the first 700 beside so many own ones, and there are more;
 * errno of read(2). MT-Safe | AS-Safe
 */
int fgt_cpu_timer_find(int timers_fd, unsigned int own_timers);

#endif
