/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of a slice. Runs in any thread; must not trust the numbers of what
 * it checks.
 */
#include "ringbuf/slice/processes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"

struct fgt_process_of fgt_slice_process(const struct fgt_ring_slice *slice,
					uint32_t number)
{
	const struct fgt_slice_process *process;
	struct fgt_process_of of = {
		.pid = slice->process.pid,
		.name = slice->process.name,
		.exe = slice->process.exe,
		.title = *slice->process.title ? slice->process.title
					       : slice->process.name,
	};

	if (number >= slice->process_count)
		return of;
	process = &slice->processes[number];
	of.pid = process->pid;
	of.name = fgt_slice_string(slice, process->name);
	of.exe = fgt_slice_string(slice, process->exe);
	of.title = process->title ? fgt_slice_string(slice, process->title)
				  : of.name;
	return of;
}

struct fgt_process_of fgt_slice_process_of(const struct fgt_ring_slice *slice,
					   uint32_t thread)
{
	return fgt_slice_process(slice, slice->threads[thread].process);
}

uint32_t fgt_slice_process_count(const struct fgt_ring_slice *slice)
{
	return slice->process_count ? slice->process_count : 1;
}

int fgt_slice_of_process(const struct fgt_ring_slice *slice, uint32_t number,
			 struct fgt_ring_slice **ret_part)
{
	struct fgt_ring_slice view = *slice;
	int r;

	view.run_count = 0;
	if (!FGT_ARRAY_NEW(view.runs, slice->run_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->run_count; i++)
		if (slice->threads[slice->runs[i].thread].process == number)
			view.runs[view.run_count++] = slice->runs[i];
	r = fgt_slice_narrow_runs(&view, ret_part);
	free(view.runs);
	return r;
}

bool fgt_processes_are_valid(const struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->process_count; i++) {
		const struct fgt_slice_process *process = &slice->processes[i];

		if (process->name >= slice->strings.count ||
		    process->exe >= slice->strings.count ||
		    process->title >= slice->strings.count)
			return false;
	}
	for (uint32_t i = 0; i < slice->thread_count; i++) {
		uint32_t process = slice->threads[i].process;

		if (process && process >= slice->process_count)
			return false;
	}
	return slice->member_count == 0;
}

static int copy_processes(const struct fgt_ring_slice *source,
			  struct fgt_ring_slice *result, uint32_t *marks)
{
	int r;

	for (uint32_t i = 0; i < result->thread_count; i++)
		marks[result->threads[i].process] = 1;
	r = FGT_NARROW_TABLE(source, result, processes, process_count, marks);
	for (uint32_t i = 0; i < result->process_count && !r; i++) {
		struct fgt_slice_process *process = &result->processes[i];

		r = fgt_narrow_string(source, result, &process->name);
		if (!r)
			r = fgt_narrow_string(source, result, &process->exe);
		if (!r)
			r = fgt_narrow_string(source, result, &process->title);
	}
	for (uint32_t i = 0; i < result->thread_count && !r; i++)
		result->threads[i].process =
			marks[result->threads[i].process] - 1;
	return r;
}

/* Its service is that of the source, which all of its processes have. */
static void set_process(struct fgt_ring_slice *slice)
{
	struct fgt_process_of of = fgt_slice_process(slice, 0);
	struct fgt_process_info *info = &slice->process;

	if (info->pid != of.pid)
		slice->ended_by[0] = '\0';
	info->pid = of.pid;
	info->start_time = slice->processes[0].start_time;
	snprintf(info->name, sizeof(info->name), "%s", of.name);
	snprintf(info->exe, sizeof(info->exe), "%s", of.exe);
	snprintf(info->title, sizeof(info->title), "%s",
		 fgt_slice_string(slice, slice->processes[0].title));
}

int fgt_processes_narrow(const struct fgt_ring_slice *source,
			 struct fgt_ring_slice *result)
{
	uint32_t *marks;
	int r;

	memcpy(result->ended_by, source->ended_by, sizeof(result->ended_by));
	if (!source->process_count)
		return 0;
	if (!FGT_ARRAY_NEW(marks, source->process_count))
		return -ENOMEM;
	r = copy_processes(source, result, marks);
	free(marks);
	if (r == 0 && result->process_count == 1)
		set_process(result);
	return r;
}

int fgt_members_new(const struct fgt_ring_slice *slice,
		    struct fgt_slice_member **ret_members, uint32_t *ret_count)
{
	struct fgt_slice_member *members;
	uint32_t count = 0;

	if (!FGT_ARRAY_NEW(members, slice->thread_count))
		return -ENOMEM;
	for (uint32_t i = 0; i < slice->thread_count; i++)
		if (slice->threads[i].process)
			members[count++] = (struct fgt_slice_member){
				i, slice->threads[i].process
			};
	*ret_members = members;
	*ret_count = count;
	return 0;
}

bool fgt_members_settle(struct fgt_ring_slice *slice)
{
	bool is_valid = true;

	for (uint32_t i = 0; i < slice->member_count && is_valid; i++) {
		const struct fgt_slice_member *member = &slice->members[i];

		is_valid = member->thread < slice->thread_count;
		if (is_valid)
			slice->threads[member->thread].process =
				member->process;
	}
	free(slice->members);
	slice->members = NULL;
	slice->member_count = 0;
	return is_valid;
}
