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
#include "ringbuf/base/array.h"
#include "ringbuf/base/owner.h"

struct listed {
	int32_t pid, parent_pid;
	uint64_t start_time;
	bool is_chosen;
};

struct process_list {
	const char *name; /* of those that are chosen; NULL: none by name */
	struct listed *items;
	uint32_t count, capacity;
};

/* The name may have been cut, that of the file is not. */
static bool is_named(const struct fgt_process_info *info, const char *name)
{
	const char *slash = strrchr(info->exe, '/');

	return strcmp(info->name, name) == 0 ||
	       (slash && strcmp(slash + 1, name) == 0);
}

static int visit(void *context, const struct fgt_process_info *info,
		 int32_t parent_pid)
{
	struct process_list *list = context;
	int r = FGT_ARRAY_GROW(list->items, list->count, list->capacity);

	if (r == 0)
		list->items[list->count++] = (struct listed){
			.pid = info->pid,
			.parent_pid = parent_pid,
			.start_time = info->start_time,
			.is_chosen = list->name && info->pid != getpid() &&
				     is_named(info, list->name),
		};
	return r;
}

static int by_age(const void *left, const void *right)
{
	const struct listed *a = left, *b = right;

	if (a->start_time != b->start_time)
		return a->start_time < b->start_time ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

/* Parents are older than their children, except where numbers were used again:
 * until nothing changes. */
static void choose_below(struct process_list *list)
{
	bool has_grown = true;

	while (has_grown) {
		has_grown = false;
		for (uint32_t i = 0; i < list->count; i++)
			for (uint32_t k = 0;
			     !list->items[i].is_chosen && k < list->count; k++)
				if (list->items[k].is_chosen &&
				    list->items[k].pid ==
					    list->items[i].parent_pid)
					list->items[i].is_chosen = has_grown =
						true;
	}
}

static int take(const struct process_list *list, int32_t first,
		struct fgt_processes *processes, struct fgt_why *why)
{
	processes->count = 0;
	if (first)
		processes->pids[processes->count++] = first;
	for (uint32_t i = 0; i < list->count; i++) {
		if (!list->items[i].is_chosen || list->items[i].pid == first)
			continue;
		if (processes->count == FGT_PROCESSES_MAX)
			return fgt_why_set(why, -E2BIG,
					   "more than %u processes; choose one "
					   "with -p PID",
					   FGT_PROCESSES_MAX);
		processes->pids[processes->count++] = list->items[i].pid;
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
	FGT_ARRAY_SORT(list->items, list->count, by_age);
	return 0;
}

int fgt_processes_named(const char *name, struct fgt_processes *ret_processes,
			struct fgt_why *why)
{
	struct process_list list = { .name = name };
	int r = read_list(&list, why);

	if (r == 0)
		r = take(&list, 0, ret_processes, why);
	free(list.items);
	if (r == 0 && !ret_processes->count)
		return fgt_why_set(
			why, -ESRCH,
			"no process is called '%.100s'; ps has those "
			"that are",
			name);
	return r;
}

int fgt_processes_below(int32_t pid, struct fgt_processes *ret_processes,
			struct fgt_why *why)
{
	struct process_list list = { .name = NULL };
	int r = read_list(&list, why);

	for (uint32_t i = 0; r == 0 && i < list.count; i++)
		list.items[i].is_chosen = list.items[i].pid == pid;
	if (r == 0) {
		choose_below(&list);
		r = take(&list, pid, ret_processes, why);
	}
	free(list.items);
	return r;
}
