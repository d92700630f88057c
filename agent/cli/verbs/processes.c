/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the list of processes once. Runs in the command line's main thread.
 */
#include "agent/cli/verbs/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/capture/threads/process.h"
#include "agent/cli/range/listed.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/owner.h"

struct process_list {
	const char *name; /* of those that are chosen; NULL: none by name */
	struct fgt_listed *items;
	uint32_t count, capacity;
};

static int visit(void *context, const struct fgt_process_info *info,
		 int32_t parent_pid)
{
	struct process_list *list = context;
	int r = FGT_ARRAY_GROW(list->items, list->count, list->capacity);

	if (r == 0)
		list->items[list->count++] = (struct fgt_listed){
			.pid = info->pid,
			.parent_pid = parent_pid,
			.is_alive = true,
			.start_time = info->start_time,
			.is_chosen = list->name && info->pid != getpid() &&
				     fgt_listed_is_named(list->name, info->name,
							 info->exe),
		};
	return r;
}

static void put(struct fgt_processes *processes, const struct fgt_listed *item)
{
	processes->pids[processes->count] = item->pid;
	processes->start_times[processes->count++] = item->start_time;
}

static int take(const struct process_list *list,
		struct fgt_processes *processes, struct fgt_why *why)
{
	processes->count = 0;
	for (uint32_t i = 0; i < list->count; i++) {
		if (!list->items[i].is_chosen)
			continue;
		if (processes->count == FGT_PROCESSES_MAX)
			return fgt_why_set(why, -E2BIG,
					   "more than %u processes; choose one "
					   "with -p PID",
					   FGT_PROCESSES_MAX);
		put(processes, &list->items[i]);
	}
	return 0;
}

static int read_list(struct process_list *list, struct fgt_why *why)
{
	int r = fgt_process_for_each(visit, list);

	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot list processes: %s; mount /proc",
				   strerror(-r));
	fgt_listed_sort(list->items, list->count);
	return 0;
}

int fgt_processes_named(const char *name, struct fgt_processes *ret_processes,
			struct fgt_why *why)
{
	struct process_list list = { .name = name };
	int r = read_list(&list, why);

	if (r == 0)
		r = take(&list, ret_processes, why);
	free(list.items);
	if (r == 0 && !ret_processes->count)
		return fgt_why_set(
			why, -ESRCH,
			"no process is called '%.100s'; ps has those "
			"that are",
			name);
	return r;
}

/* Which of them are in the list: a number may have become another process's. */
static void find_alive(const struct process_list *list,
		       struct fgt_processes *processes, bool *ret_alive)
{
	for (uint32_t i = 0; i < processes->count; i++) {
		uint64_t *start_time = &processes->start_times[i];

		for (uint32_t j = 0; j < list->count; j++) {
			const struct fgt_listed *item = &list->items[j];

			if (item->pid != processes->pids[i])
				continue;
			if (!*start_time)
				*start_time = item->start_time;
			ret_alive[i] = *start_time == item->start_time;
		}
	}
}

static bool has(const struct fgt_processes *processes, const bool *alive,
		int32_t pid)
{
	for (uint32_t i = 0; i < processes->count; i++)
		if (processes->pids[i] == pid && alive[i])
			return true;
	return false;
}

int fgt_processes_add_below(struct fgt_processes *processes,
			    struct fgt_why *why)
{
	struct process_list list = { .name = NULL };
	int missing = 0, r = read_list(&list, why);
	bool has_grown = r == 0, alive[FGT_PROCESSES_MAX] = { false };

	find_alive(&list, processes, alive);
	/* The list is by age: a second look is for clocks of equal ticks. */
	while (has_grown) {
		has_grown = false;
		missing = 0;
		for (uint32_t i = 0; i < list.count; i++) {
			const struct fgt_listed *item = &list.items[i];

			if (!has(processes, alive, item->parent_pid) ||
			    has(processes, alive, item->pid) ||
			    item->pid == getpid())
				continue;
			if (processes->count == FGT_PROCESSES_MAX) {
				missing++;
				continue;
			}
			alive[processes->count] = true;
			put(processes, item);
			has_grown = true;
		}
	}
	free(list.items);
	return r < 0 ? r : missing;
}
