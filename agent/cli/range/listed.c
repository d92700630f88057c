/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders and chooses rows. Pure.
 */
#include "agent/cli/range/listed.h"

#include <string.h>

#include "ringbuf/base/array.h"

static int compare_rows(const void *left, const void *right)
{
	const struct fgt_listed *a = left, *b = right;

	if (a->is_alive != b->is_alive)
		return a->is_alive ? -1 : 1;
	if (a->start_time != b->start_time)
		return a->start_time < b->start_time ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

void fgt_listed_sort(struct fgt_listed *rows, uint32_t count)
{
	FGT_ARRAY_SORT(rows, count, compare_rows);
}

bool fgt_listed_is_named(const char *name, const char *comm, const char *exe)
{
	const char *slash = strrchr(exe, '/');

	return strcmp(comm, name) == 0 ||
	       (slash && strcmp(slash + 1, name) == 0);
}

void fgt_listed_choose_below(struct fgt_listed *rows, uint32_t count,
			     int32_t pid)
{
	bool has_grown = true;

	for (uint32_t i = 0; i < count; i++)
		rows[i].is_chosen = rows[i].pid == pid;
	while (has_grown) {
		has_grown = false;
		for (uint32_t i = 0; i < count; i++)
			for (uint32_t k = 0; k < count; k++)
				if (!rows[i].is_chosen && rows[k].is_chosen &&
				    rows[i].parent_pid == rows[k].pid)
					rows[i].is_chosen = has_grown = true;
	}
}
