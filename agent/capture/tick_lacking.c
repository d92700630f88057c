/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks again at threads that could not be unwound for want of a mapping, or of
 * which something was left for later. Runs in the sampler's thread.
 */
#include "agent/capture/sampling.h"

#define LACKING_MAX	     256u /* looked at in a tick */
#define LACKING_PAUSE_MIN_NS 20000000u
#define LACKING_PAUSE_MAX_NS 1000000000u
#define LACKING_CALM_NS	     10000000000u

/* Takes up to LACKING_MAX; false: there are more. */
static bool take_lacking(struct fgt_sampled *sampled)
{
	struct fgt_thread_table *threads = &sampled->look.threads;
	struct fgt_thread_store *store = &threads->table;
	struct fgt_thread *thread;
	uint32_t taken = 0;

	while (taken < LACKING_MAX) {
		thread = fgt_thread_store_from(store, sampled->lacking.next);
		if (!thread)
			return true;
		sampled->lacking.next =
			fgt_thread_store_index(store, thread) + 1;
		if (!thread->is_incomplete)
			continue;
		thread->is_incomplete = false;
		thread->needs_look = true;
		/* It has not run: idle again at the next chores. */
		if (!thread->active)
			fgt_thread_table_activate(threads, thread, 0);
		sampled->lacking.has_found = true;
		taken++;
	}
	return false;
}

/*
 * Blocked threads whose stacks led where no mapping was known, once the maps
 * have changed, which any look or chore may have read again; or to a rule that
 * was not read yet; and those of which too many began to wait at once.
 * Where they change all the time (JIT compilers), and the stacks lead nowhere
 * all the same, after a pause of up to LACKING_PAUSE_MAX_NS.
 */
void fgt_tick_look_where_maps_lacked(struct fgt_sampled *sampled,
				     const struct fgt_tick *tick)
{
	uint64_t elapsed_ns = tick->mono_ns - sampled->lacking.begun_ns;
	struct fgt_stacks *stacks = &sampled->look.stacks;

	if (!sampled->look.is_readable)
		return;
	if (sampled->lacking.next == 0) {
		if (elapsed_ns < sampled->lacking.pause_ns)
			return;
		sampled->lacking.generation = stacks->generation;
		stacks->is_late = false;
		sampled->lacking.begun_ns = tick->mono_ns;
		sampled->lacking.has_found = false;
	}
	if (!take_lacking(sampled))
		return;
	sampled->lacking.next = 0;
	if (!sampled->lacking.has_found || elapsed_ns > LACKING_CALM_NS)
		sampled->lacking.pause_ns = LACKING_PAUSE_MIN_NS;
	else if (sampled->lacking.pause_ns < LACKING_PAUSE_MAX_NS)
		sampled->lacking.pause_ns *= 2;
}
