/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One slice of several targets. Any thread; the targets' names and numbers are
 * what the agent wrote.
 */
#include "agent/cli/range/several.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cli/range/listed.h"
#include "ringbuf/base/array.h"
#include "ringbuf/slice/merge.h"

/* ---- Which targets ------------------------------------------------------- */

static bool is_named(const struct fgt_message *target, const char *name)
{
	const char *comm = "", *exe = "";

	(void)fgt_message_get_string(target, "name", &comm);
	(void)fgt_message_get_string(target, "exe", &exe);
	return !name || fgt_listed_is_named(name, comm, exe);
}

/* Those with that name, or all; ended ones last. */
static int list_rows(const struct fgt_message *reply, const char *name,
		     struct fgt_listed **ret_rows, uint32_t *ret_count)
{
	struct fgt_message_array targets = { .count = 0 };
	struct fgt_message target;
	struct fgt_listed *rows;
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
	fgt_listed_sort(rows, count);
	*ret_rows = rows;
	*ret_count = count;
	return 0;
}

/* The chosen rows come first. */
static uint32_t keep_chosen(struct fgt_listed *rows, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (rows[i].is_chosen)
			rows[kept++] = rows[i];
	return kept;
}

static int choose(const struct fgt_target_choice *choice,
		  const struct fgt_message *targets,
		  struct fgt_listed **ret_rows, uint32_t *ret_count)
{
	bool is_by_pid = !choice->is_all && choice->pid;
	int r = list_rows(targets,
			  choice->is_all || is_by_pid ? NULL : choice->name,
			  ret_rows, ret_count);

	if (r == 0 && is_by_pid) {
		fgt_listed_choose_below(*ret_rows, *ret_count, choice->pid);
		*ret_count = keep_chosen(*ret_rows, *ret_count);
	}
	return r;
}

/* ---- Their slices -------------------------------------------------------- */

struct slices {
	struct fgt_ring_slice **items;
	uint32_t count;
};

static void slices_done(struct slices *slices)
{
	for (uint32_t i = 0; i < slices->count; i++)
		fgt_ring_slice_free(slices->items[i]);
	free(slices->items);
}

/* The first answer fixes the time for all others. */
static void fix_range(struct fgt_range *range,
		      const struct fgt_ring_slice *first)
{
	range->has_from = range->has_to = true;
	range->from = (struct fgt_time){ .form = FGT_TIME_MONOTONIC,
					 .ns = first->requested_from_ns };
	range->to = (struct fgt_time){ .form = FGT_TIME_MONOTONIC,
				       .ns = first->requested_to_ns };
}

/* Then no other target can be had either. */
static bool is_end(int error)
{
	return error == -EHOSTDOWN || error == -ENOMEM || error == -ECANCELED;
}

/* One that has ended may have done so before that time. */
static bool is_without_data(int error)
{
	return error == -ENODATA || error == -ESRCH;
}

static int cut_rows(const struct fgt_several *several,
		    const struct fgt_listed *rows, uint32_t count,
		    struct slices *slices, struct fgt_several_missing *missing,
		    struct fgt_why *why)
{
	struct fgt_range range = several->range;
	int error = -ENODATA;

	if (!FGT_ARRAY_NEW(slices->items, count))
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	for (uint32_t i = 0; i < count; i++) {
		struct fgt_why own = { "" };
		int r = several->cut(several->context, rows[i].pid, &range,
				     &slices->items[slices->count], &own);

		if (is_end(r)) {
			*why = own;
			return r;
		}
		if (r == 0 && slices->count++ == 0)
			fix_range(&range, slices->items[0]);
		if (r < 0 && !is_without_data(r)) {
			missing->why = own;
			missing->count += rows[i].is_alive;
			error = r;
		}
		/* The cause where none can be had. */
		if (r < 0 && (r == error || error == -ENODATA))
			*why = own;
	}
	return slices->count ? 0 : error;
}

static int merge(const struct slices *slices, struct fgt_ring_slice **ret_slice,
		 struct fgt_why *why)
{
	int r = fgt_slice_merge(
		(const struct fgt_ring_slice *const *)slices->items,
		slices->count, ret_slice);

	if (r == -EINVAL)
		return fgt_why_set(why, r,
				   "the targets were sampled at different "
				   "rates: choose one by its pid");
	return r < 0 ? fgt_why_set(why, r, FGT_NO_MEMORY) : 0;
}

int fgt_several_cut(const struct fgt_several *several,
		    const struct fgt_message *targets,
		    struct fgt_ring_slice **ret_slice,
		    struct fgt_several_missing *ret_missing,
		    struct fgt_why *why)
{
	const struct fgt_target_choice *choice = &several->choice;
	struct slices slices = { .count = 0 };
	struct fgt_listed *rows = NULL;
	uint32_t count = 0;
	int32_t pid = choice->pid;
	int r = targets ? choose(choice, targets, &rows, &count) : 0;

	*ret_missing = (struct fgt_several_missing){ .of = count };
	if (r < 0) {
		r = fgt_why_set(why, r, FGT_NO_MEMORY);
	} else if (count > 1) {
		r = cut_rows(several, rows, count, &slices, ret_missing, why);
		if (r == 0 && slices.count == 1)
			*ret_slice = FGT_TAKE(slices.items[0]);
		else if (r == 0)
			r = merge(&slices, ret_slice, why);
	} else {
		/* Where none fits the agent knows what to answer. */
		if (count && choice->is_all)
			pid = rows[0].pid;
		r = several->cut(several->context, pid, &several->range,
				 ret_slice, why);
	}
	slices_done(&slices);
	free(rows);
	return r;
}
