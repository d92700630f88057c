/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads of a target are active, and what is kept of those that are not
 * any more: next to nothing, for there may be thousands. Runs in the sampler's
 * thread.
 */
#include "agent/capture/threads/thread_table.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define IDLE_NS	       1000000000u /* no less than thread_stack.c calls calm */
#define FIRST_CAPACITY 64u
#define GIVE_BACK_MIN  65536u /* bytes */

static size_t bytes_of(uint32_t count)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (count * sizeof(struct fgt_active_thread) + page - 1) / page *
	       page;
}

static bool grow(struct fgt_thread_table *threads)
{
	uint32_t before = threads->active_capacity;
	uint32_t capacity = before ? before * 2 : FIRST_CAPACITY;
	void *memory;

	if (before)
		memory = mremap(threads->active, bytes_of(before),
				bytes_of(capacity), MREMAP_MAYMOVE);
	else
		memory = mmap(NULL, bytes_of(capacity), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	threads->active = memory;
	threads->active_capacity = capacity;
	for (uint32_t i = 0; i < threads->active_count; i++)
		threads->active[i].thread->active = &threads->active[i];
	return true;
}

void fgt_thread_table_free_active(struct fgt_thread_table *threads)
{
	if (threads->active_capacity)
		munmap(threads->active, bytes_of(threads->active_capacity));
	threads->active = NULL;
	threads->active_capacity = 0;
}

/* All threads begin as active ones: their memory is not kept for ever. */
static void give_back(struct fgt_thread_table *threads)
{
	size_t used = bytes_of(threads->active_count);
	size_t touched = bytes_of(threads->active_peak);

	if (touched <= 2 * used + GIVE_BACK_MIN)
		return;
	madvise((char *)threads->active + used, touched - used, MADV_DONTNEED);
	threads->active_peak = threads->active_count;
}

static bool begin_active(struct fgt_thread_table *threads,
			 struct fgt_thread *thread)
{
	struct fgt_cpu_use use;

	if (threads->active_count == threads->active_capacity && !grow(threads))
		return false;
	use = fgt_thread_table_use(threads, thread);
	thread->active = &threads->active[threads->active_count];
	*thread->active = (struct fgt_active_thread){
		.thread = thread,
		.syscall_fd = -1,
		.use = use,
	};
	if (threads->on_active &&
	    !threads->on_active(threads->context, thread)) {
		thread->active = NULL;
		return false;
	}
	if (threads->active_peak < ++threads->active_count)
		threads->active_peak = threads->active_count;
	return true;
}

bool fgt_thread_table_activate(struct fgt_thread_table *threads,
			       struct fgt_thread *thread, uint64_t now_ns)
{
	if (!thread->active && !begin_active(threads, thread))
		return false;
	thread->active->active_ns = now_ns;
	return true;
}

struct fgt_cpu_use fgt_thread_table_use(const struct fgt_thread_table *threads,
					const struct fgt_thread *thread)
{
	struct fgt_cpu_use use = { .runtime_ns = thread->runtime_ns };
	const struct fgt_thread_aside *aside =
		fgt_thread_store_find_aside(&threads->table, thread);

	if (thread->active)
		return thread->active->use;
	if (aside) {
		use.wait_ns = aside->wait_ns;
		use.switches = aside->switch_count;
	}
	return use;
}

static void keep_use(struct fgt_thread_table *threads,
		     struct fgt_thread *thread, const struct fgt_cpu_use *use)
{
	struct fgt_thread_aside *aside =
		fgt_thread_store_find_aside(&threads->table, thread);

	thread->runtime_ns = use->runtime_ns;
	if (aside) {
		aside->wait_ns = use->wait_ns;
		aside->switch_count = use->switches;
	}
}

void fgt_thread_table_set_use(struct fgt_thread_table *threads,
			      struct fgt_thread *thread,
			      const struct fgt_cpu_use *use)
{
	struct fgt_cpu_use before = fgt_thread_table_use(threads, thread);

	threads->known_runtime_ns += use->runtime_ns - before.runtime_ns;
	thread->has_switched |= use->switches != before.switches;
	if (thread->active)
		thread->active->use = *use;
	else
		keep_use(threads, thread, use);
}

bool fgt_thread_table_take_use(struct fgt_thread_table *threads,
			       struct fgt_thread *thread,
			       const struct fgt_cpu_use *use)
{
	struct fgt_cpu_use before = fgt_thread_table_use(threads, thread);
	bool has_run = use->runtime_ns != before.runtime_ns ||
		       use->switches != before.switches;

	/* Activated before its use is set: its account begins where the last
	 * look left it. Without memory the next look reports what it did. */
	if (has_run && !thread->active &&
	    !fgt_thread_table_activate(threads, thread, 0))
		return false;
	fgt_thread_table_set_use(threads, thread, use);
	return has_run;
}

void fgt_thread_table_deactivate(struct fgt_thread_table *threads,
				 struct fgt_thread *thread)
{
	struct fgt_active_thread *active = thread->active;
	struct fgt_active_thread *last;

	if (!active)
		return;
	if (threads->on_idle)
		threads->on_idle(threads->context, thread);
	keep_use(threads, thread, &active->use);
	fgt_fd_budget_close(threads->budget, &active->syscall_fd);
	last = &threads->active[--threads->active_count];
	*active = *last;
	active->thread->active = active;
	thread->active = NULL;
}

void fgt_thread_table_retire(struct fgt_thread_table *threads, uint64_t now_ns,
			     uint64_t period_ns)
{
	/* What ran was shown at its tick, or at the one before. */
	uint64_t idle_ns = IDLE_NS > 2 * period_ns ? IDLE_NS : 2 * period_ns;

	for (uint32_t i = threads->active_count; i-- > 0;) {
		struct fgt_thread *thread = threads->active[i].thread;

		if (!thread->needs_look &&
		    now_ns - thread->active->active_ns >= idle_ns)
			fgt_thread_table_deactivate(threads, thread);
	}
	give_back(threads);
	fgt_thread_store_give_back(&threads->table);
}

void fgt_thread_table_look_at_all(struct fgt_thread_table *threads,
				  uint64_t now_ns)
{
	struct fgt_thread *thread = NULL;

	while ((thread = fgt_thread_table_next(threads, thread))) {
		thread->needs_look = true;
		fgt_thread_table_activate(threads, thread, now_ns);
	}
}

bool fgt_thread_table_note(struct fgt_thread_table *threads,
			   struct fgt_thread *thread, int found,
			   uint64_t now_ns)
{
	if (found > 0)
		fgt_thread_table_activate(threads, thread, now_ns);
	if (found != -ESRCH)
		return false;
	fgt_thread_table_end(threads, thread);
	threads->is_stale = true;
	return true;
}
