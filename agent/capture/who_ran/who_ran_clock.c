/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who ran, in a process that samples itself: by the CPU clocks of its threads,
 * which need no descriptor. As long as the CPU clock of the whole process has
 * grown by just what the active threads used, no idle thread ran, and none is
 * looked at; nor are they listed.
 * Runs in the sampler's thread, which is one of the threads.
 */
#include "agent/capture/who_ran/who_ran.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "ringbuf/base/clock.h"

#define SUM_TRIES	 3
#define WARM_NS		 700000000u
#define PROCESS_CLOCK	 2u /* CPUCLOCK_SCHED, see clock_getcpuclockid(3) */
#define PER_THREAD_CLOCK 6u /* … | CPUCLOCK_PERTHREAD_MASK */

struct clock_state {
	struct fgt_thread_table *threads;
	int32_t own_tid; /* of the thread that runs this */
	clockid_t clock;
	uint64_t rest_ns; /* process minus known threads: ended and untold */
	bool is_rest_known;
};

static int read_clock(clockid_t clock, uint64_t *ret_ns)
{
	struct timespec now;

	if (clock_gettime(clock, &now) < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	*ret_ns = fgt_timespec_ns(&now);
	return 0;
}

static clockid_t clock_of(int32_t id, unsigned int kind)
{
	return (clockid_t)((~(unsigned int)id << 3) | kind);
}

static int clock_open(const struct fgt_process *process,
		      struct fgt_thread_table *threads,
		      struct fgt_switches *switches, void **ret_state)
{
	struct clock_state *state;
	uint64_t ns;
	int rc = read_clock(clock_of(process->pid, PROCESS_CLOCK), &ns);

	(void)switches;
	if (rc == 0)
		rc = read_clock(clock_of(process->pid, PER_THREAD_CLOCK), &ns);
	/* A first thread that has ended is no reason to do without. */
	if (rc < 0 && rc != -ESRCH)
		return rc;
	state = calloc(1, sizeof(*state));
	if (!state)
		return -ENOMEM;
	state->threads = threads;
	state->clock = clock_of(process->pid, PROCESS_CLOCK);
	*ret_state = state;
	return 0;
}

/*
 * The clock of a thread is exact, also while it is on a CPU. How often it was
 * put on one it does not show: whether it was, since the last look, will do.
 */
static int clock_look(void *context, struct fgt_thread *thread)
{
	struct clock_state *state = context;
	struct fgt_cpu_use before =
		fgt_thread_table_use(state->threads, thread);
	struct fgt_cpu_use use;
	int rc;

	/*
	 * Our own clock never stands still: what counts is its value when the
	 * clock of the process was last asked for, and schedstat shows just
	 * that.
	 */
	if (thread->tid == state->own_tid)
		rc = fgt_schedstat_read(state->threads, thread, &use);
	else
		rc = read_clock(clock_of(thread->tid, PER_THREAD_CLOCK),
				&use.runtime_ns);
	if (rc < 0)
		return rc;
	use.wait_ns = before.wait_ns;
	use.switches = before.switches + (use.runtime_ns != before.runtime_ns);
	if (thread->tid != state->own_tid)
		return fgt_thread_table_take_use(state->threads, thread, &use);
	/* That the sampler ran does not make it active. */
	fgt_thread_table_set_use(state->threads, thread, &use);
	return 1;
}

/* That the sampler ran is known, and has no effect: see read_rest(). */
static void look_at(struct clock_state *state, struct fgt_thread *thread,
		    uint64_t now_ns)
{
	int rc = thread->tid == state->own_tid ? 0 : clock_look(state, thread);

	thread->has_run |= rc > 0;
	if (fgt_thread_table_note(state->threads, thread, rc, now_ns))
		state->is_rest_known = false;
}

/*
 * The other threads are asked only if the sum shows that another thread ran:
 * those that are not shown, and those that have not run for some time. The sum
 * does not know of a thread on a CPU before the kernel's next tick, 10 ms at
 * most; a tick that finds it so is missed, one in WARM_NS at most.
 */
static bool is_warm(const struct fgt_thread *thread, uint64_t now_ns)
{
	return thread->slot != FGT_THREAD_NO_SLOT &&
	       now_ns - thread->active->active_ns < WARM_NS;
}

static bool is_cold(const struct fgt_thread *thread, uint64_t now_ns)
{
	return !is_warm(thread, now_ns);
}

static bool has_run(const struct fgt_thread *thread, uint64_t now_ns)
{
	(void)now_ns;
	return thread->has_run;
}

static void look_at_those(struct clock_state *state, uint64_t now_ns,
			  bool (*is_asked)(const struct fgt_thread *thread,
					   uint64_t now_ns))
{
	struct fgt_thread_table *threads = state->threads;

	for (uint32_t i = 0; i < threads->active_count; i++) {
		struct fgt_thread *thread = threads->active[i].thread;

		if (!thread->is_ended && is_asked(thread, now_ns))
			look_at(state, thread, now_ns);
	}
}

static void forget_who_ran(struct fgt_thread_table *threads)
{
	for (uint32_t i = 0; i < threads->active_count; i++)
		threads->active[i].thread->has_run = false;
}

/*
 * What the threads used that are not known to: false if it cannot be had. The
 * kernel brings only the sampler's clock up to date for it.
 */
static bool read_rest(struct clock_state *state, uint64_t *ret_rest_ns)
{
	struct fgt_thread *own =
		fgt_thread_table_find(state->threads, state->own_tid);
	uint64_t process_ns;

	if (!own || read_clock(state->clock, &process_ns) < 0 ||
	    clock_look(state, own) < 0)
		return false;
	*ret_rest_ns = process_ns - state->threads->known_runtime_ns;
	return true;
}

/*
 * True if no idle thread ran. Of one that is on a CPU the clock may be brought
 * up to date between the look at it and that at the process: once more. What
 * stays the same then is what other threads used.
 */
static bool is_rest_unchanged(struct clock_state *state, uint64_t now_ns)
{
	uint64_t rest_ns, before_ns = state->rest_ns;

	for (int i = 0; i < SUM_TRIES && state->is_rest_known; i++) {
		if (i == 1)
			look_at_those(state, now_ns, is_cold);
		if (i > 0)
			look_at_those(state, now_ns, has_run);
		if (!read_rest(state, &rest_ns))
			return false;
		if (rest_ns == state->rest_ns)
			return true;
		if (rest_ns == before_ns)
			return false;
		before_ns = rest_ns;
	}
	return false;
}

static void look_at_all(struct clock_state *state, uint64_t now_ns)
{
	struct fgt_thread_table *threads = state->threads;
	struct fgt_thread *thread = NULL;

	while ((thread = fgt_thread_table_next(threads, thread))) {
		if (!thread->active)
			thread->has_run = false;
		/* Those that the scan has found are active, but have not been
		 * looked at. */
		if (!thread->is_ended && (!thread->active || thread->is_new ||
					  is_cold(thread, now_ns)))
			look_at(state, thread, now_ns);
	}
	/* That took time: threads on a CPU have used more since. */
	look_at_those(state, now_ns, has_run);
	state->is_rest_known = read_rest(state, &state->rest_ns);
}

static int clock_tick(void *context, uint64_t now_ns)
{
	struct clock_state *state = context;
	bool is_rest_same, has_listed;

	if (!state->own_tid)
		state->own_tid = gettid();
	forget_who_ran(state->threads);
	look_at_those(state, now_ns, is_warm);
	is_rest_same = is_rest_unchanged(state, now_ns);
	/*
	 * A thread that comes or goes runs to do it, and is then part of the
	 * rest, or known to be gone; a thread that never got a CPU so far can
	 * wait.
	 */
	if (is_rest_same && !state->threads->is_stale &&
	    !state->threads->is_scan_owed)
		return 0;
	has_listed =
		fgt_thread_table_scan(state->threads, false, FGT_LAST_PID_ASK);
	if (is_rest_same && !has_listed)
		return 0;
	look_at_all(state, now_ns);
	/* A thread that came since they were listed is part of the rest that is
	 * known now, and might never run again. */
	if (!state->threads->is_scan_owed)
		state->threads->is_stale |=
			fgt_thread_table_has_other_count(state->threads);
	return 0;
}

static bool clock_read_brief(void *context, struct fgt_switch_brief *ret_brief)
{
	struct clock_state *state = context;
	uint64_t rest_ns;

	if (!read_rest(state, &rest_ns))
		return false;
	*ret_brief = (struct fgt_switch_brief){
		.cpu_ns = rest_ns - state->threads->ended_runtime_ns,
	};
	return true;
}

const struct fgt_who_ran fgt_who_ran_clock = {
	.name = "clock",
	.open = clock_open,
	.tick = clock_tick,
	.look = clock_look,
	.read_brief = clock_read_brief,
	.is_exact = true,
	.has_scan = true,
	.close = free,
};
