/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slice of several targets: a request for each, then one table of each
 * kind. Runs in the command line's main thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/complaint.h"
#include "agent/cli/verbs/fetch.h"
#include "ringbuf/base/array.h"
#include "ringbuf/slice/merge.h"

struct target_row {
	int32_t pid, parent_pid;
	bool is_alive, is_chosen;
	uint64_t start_time;
};

struct slices {
	struct fgt_ring_slice **items;
	uint32_t count;
	uint32_t failed; /* processes of which there is no slice */
	struct fgt_why why; /* of the last one of them */
};

static void slices_done(struct slices *slices)
{
	for (uint32_t i = 0; i < slices->count; i++)
		fgt_ring_slice_free(slices->items[i]);
	free(slices->items);
}

/* ---- Which targets ------------------------------------------------------- */

static int compare_rows(const void *left, const void *right)
{
	const struct target_row *a = left, *b = right;

	if (a->is_alive != b->is_alive)
		return a->is_alive ? -1 : 1;
	if (a->start_time != b->start_time)
		return a->start_time < b->start_time ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

/* As the agent compares: the name may have been cut, that of the file is not. */
static bool is_named(const struct fgt_message *target, const char *name)
{
	const char *own = "", *exe = "", *slash;

	(void)fgt_message_get_string(target, "name", &own);
	(void)fgt_message_get_string(target, "exe", &exe);
	slash = strrchr(exe, '/');
	return !name || strcmp(own, name) == 0 ||
	       (slash && strcmp(slash + 1, name) == 0);
}

/* Those with that name, or all; ended ones last. */
static int list_rows(const struct fgt_message *reply, const char *name,
		     struct target_row **ret_rows, uint32_t *ret_count)
{
	struct fgt_message_array targets = { .count = 0 };
	struct fgt_message target;
	struct target_row *rows;
	uint32_t count = 0;

	(void)fgt_message_get_array(reply, "targets", &targets);
	if (!FGT_ARRAY_NEW(rows, targets.count))
		return -ENOMEM;
	while (fgt_message_next(&targets, &target) == 0) {
		int64_t pid = 0, parent = 0;

		(void)fgt_message_get_int(&target, "pid", &pid);
		(void)fgt_message_get_int(&target, "parent_pid", &parent);
		if (pid < 1 || pid > INT32_MAX || !is_named(&target, name))
			continue;
		rows[count].pid = (int32_t)pid;
		rows[count].parent_pid = (int32_t)parent;
		(void)fgt_message_get_bool(&target, "alive",
					   &rows[count].is_alive);
		(void)fgt_message_get_uint(&target, "start_time",
					   &rows[count].start_time);
		count++;
	}
	FGT_ARRAY_SORT(rows, count, compare_rows);
	*ret_rows = rows;
	*ret_count = count;
	return 0;
}

/* A process, and what came with it, to any depth. */
static void choose_children(struct target_row *rows, uint32_t count,
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

/* The chosen rows come first. */
static uint32_t keep_chosen(struct target_row *rows, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (rows[i].is_chosen)
			rows[kept++] = rows[i];
	return kept;
}

static int choose(const struct fgt_fetch *fetch, struct target_row **ret_rows,
		  uint32_t *ret_count, struct fgt_why *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *request = NULL;
	FGT_AUTO(fgt_message_free) struct fgt_message *reply = NULL;
	int r = fgt_builder_new_request("targets", &request);

	if (r < 0)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	r = fgt_fetch_reply(fetch->socket_path, request, &reply, why);
	if (r < 0)
		return r;
	r = list_rows(reply, fetch->is_all || fetch->pid ? NULL : fetch->name,
		      ret_rows, ret_count);
	if (r < 0)
		return fgt_why_set(why, r, FGT_NO_MEMORY);
	if (!fetch->is_all && fetch->pid) {
		choose_children(*ret_rows, *ret_count, fetch->pid);
		*ret_count = keep_chosen(*ret_rows, *ret_count);
	}
	return 0;
}

/* ---- Their slices -------------------------------------------------------- */

static int fetch_one(const struct fgt_fetch *fetch, struct slices *slices,
		     bool *is_clock_set, struct fgt_why *why)
{
	FGT_AUTO(fgt_channel_close) struct fgt_channel channel = { .fd = -1 };
	bool was_set = false;
	int r = fgt_fetch_open(fetch->socket_path, &channel, why);

	if (r == 0)
		r = fgt_fetch_slice(fetch, &channel,
				    &slices->items[slices->count], &was_set,
				    why);
	if (r < 0)
		return r;
	slices->count++;
	*is_clock_set |= was_set;
	return 0;
}

/* The one that fits, or the agent's own error of that there is none. */
static int fetch_only(const struct fgt_fetch *asked,
		      const struct target_row *row, struct slices *slices,
		      bool *is_clock_set, struct fgt_why *why)
{
	struct fgt_fetch fetch = *asked;

	if (!FGT_ARRAY_NEW(slices->items, 1))
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	if (row && asked->is_all)
		fetch.pid = row->pid;
	return fetch_one(&fetch, slices, is_clock_set, why);
}

/* The first answer fixes the time for all others. */
static void fix_range(struct fgt_fetch *fetch,
		      const struct fgt_ring_slice *first)
{
	struct fgt_range *range = &fetch->range;

	range->has_from = range->has_to = true;
	range->from = (struct fgt_time){ .form = FGT_TIME_MONOTONIC,
					 .ns = first->requested_from_ns };
	range->to = (struct fgt_time){ .form = FGT_TIME_MONOTONIC,
				       .ns = first->requested_to_ns };
}

static int fetch_rows(const struct fgt_fetch *asked,
		      const struct target_row *rows, uint32_t count,
		      struct slices *slices, bool *is_clock_set)
{
	struct fgt_fetch fetch = *asked;

	if (!FGT_ARRAY_NEW(slices->items, count))
		return fgt_why_set(&slices->why, -ENOMEM, FGT_NO_MEMORY);
	for (uint32_t i = 0; i < count; i++) {
		struct fgt_why why = { "" };
		int r;

		fetch.name = NULL;
		fetch.pid = rows[i].pid;
		r = fetch_one(&fetch, slices, is_clock_set, &why);
		if (r == -EHOSTDOWN || r == -ENOMEM) {
			slices->why = why;
			return r;
		}
		if (r == 0 && slices->count == 1)
			fix_range(&fetch, slices->items[0]);
		/* One that has ended may have done so before that time. */
		if (r < 0 &&
		    (slices->count == 0 || !(r == -ENODATA || r == -ESRCH))) {
			slices->why = why;
			slices->failed += rows[i].is_alive;
		}
	}
	if (slices->count == 0)
		return -ENODATA;
	return 0;
}

int fgt_fetch_slices(const struct fgt_fetch *fetch,
		     struct fgt_ring_slice **ret_slice, bool *ret_is_clock_set,
		     struct fgt_why *why)
{
	bool is_many = fetch->is_all || fetch->with_children || fetch->name;
	struct slices slices = { .count = 0 };
	struct target_row *rows = NULL;
	uint32_t count = 0;
	int r = is_many ? choose(fetch, &rows, &count, why) : 0;

	*ret_is_clock_set = false;
	if (r == 0 && count > 1) {
		r = fetch_rows(fetch, rows, count, &slices, ret_is_clock_set);
		if (r < 0)
			*why = slices.why;
	} else if (r == 0) {
		r = fetch_only(fetch, count ? rows : NULL, &slices,
			       ret_is_clock_set, why);
	}
	if (r == 0 && slices.failed)
		fgt_note(NULL, "%u of %u processes are missing: %s",
			 slices.failed, count, slices.why.text);
	if (r == 0 && slices.count == 1)
		*ret_slice = FGT_TAKE(slices.items[0]);
	else if (r == 0) {
		r = fgt_slice_merge(
			(const struct fgt_ring_slice *const *)slices.items,
			slices.count, ret_slice);
		if (r == -EINVAL)
			(void)fgt_why_set(why, r,
					  "the targets were sampled at "
					  "different rates: choose one with "
					  "-p PID");
		else if (r < 0)
			(void)fgt_why_set(why, r, FGT_NO_MEMORY);
	}
	slices_done(&slices);
	free(rows);
	return r;
}
