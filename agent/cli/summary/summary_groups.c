/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts threads by the patterns of their names and by their states. Pure,
 * except for what it prints.
 */
#include "agent/cli/summary/summary_groups.h"

#include <errno.h>
#include <string.h>

#include "agent/cli/summary/summary.h"
#include "ringbuf/base/array.h"

/* A thread: its pattern, and the state of most of its samples. */
struct group_member {
	char pattern[FGT_GROUP_NAME_MAX];
	const char *state;
};

static const char *main_state(const struct fgt_summary_thread *thread)
{
	const char *name = "running";
	uint64_t most = thread->running;

	if (thread->runnable > most) {
		name = "runnable";
		most = thread->runnable;
	}
	/* They are sorted. */
	if (thread->state_count && thread->states[0].samples > most)
		name = thread->states[0].name;
	return name;
}

static int by_pattern(const void *left, const void *right)
{
	const struct group_member *a = left, *b = right;
	int order = strcmp(a->pattern, b->pattern);

	return order ? order : strcmp(a->state, b->state);
}

static int by_threads(const void *left, const void *right)
{
	const struct fgt_summary_group *a = left, *b = right;

	if (a->threads != b->threads)
		return a->threads < b->threads ? 1 : -1;
	return strcmp(a->pattern, b->pattern);
}

/* Keeps states[] sorted; what falls off the end is counted. States come in the
 * order of their names. */
static void add_state(struct fgt_summary_group *group, const char *name,
		      uint32_t threads)
{
	uint32_t at = group->state_count;

	while (at > 0 && group->states[at - 1].threads < threads)
		at--;
	if (at == FGT_SUMMARY_GROUP_STATES) {
		group->others += threads;
		return;
	}
	if (group->state_count == FGT_SUMMARY_GROUP_STATES)
		group->others += group->states[--group->state_count].threads;
	memmove(&group->states[at + 1], &group->states[at],
		(group->state_count - at) * sizeof(*group->states));
	group->states[at].name = name;
	group->states[at].threads = threads;
	group->state_count++;
}

/* Of the members of one pattern, in the order of their states. */
static struct fgt_summary_group sum_up(const struct group_member *members,
				       uint32_t count)
{
	struct fgt_summary_group group = { .threads = count };

	memcpy(group.pattern, members->pattern, sizeof(group.pattern));
	for (uint32_t first = 0, i = 0; i < count; i++) {
		if (i + 1 < count &&
		    strcmp(members[i].state, members[i + 1].state) == 0)
			continue;
		add_state(&group, members[i].state, i + 1 - first);
		first = i + 1;
	}
	return group;
}

int fgt_summary_groups_new(const struct fgt_summary_thread *threads,
			   uint32_t thread_count,
			   struct fgt_summary_group **ret_groups,
			   uint32_t *ret_count)
{
	FGT_AUTO(free) void *memory = NULL;
	struct fgt_summary_group *groups;
	struct group_member *members;
	uint32_t count = 0;

	if (!FGT_ARRAY_NEW(members, thread_count))
		return -ENOMEM;
	memory = members;
	if (!FGT_ARRAY_NEW(groups, thread_count / FGT_SUMMARY_GROUP_MIN))
		return -ENOMEM;
	for (uint32_t i = 0; i < thread_count; i++) {
		fgt_group_pattern(threads[i].name, members[i].pattern);
		members[i].state = main_state(&threads[i]);
	}
	FGT_ARRAY_SORT(members, thread_count, by_pattern);
	for (uint32_t first = 0, i = 0; i < thread_count; i++) {
		if (i + 1 < thread_count &&
		    strcmp(members[i].pattern, members[i + 1].pattern) == 0)
			continue;
		if (i + 1 - first >= FGT_SUMMARY_GROUP_MIN)
			groups[count++] =
				sum_up(&members[first], i + 1 - first);
		first = i + 1;
	}
	FGT_ARRAY_SORT(groups, count, by_threads);
	*ret_groups = groups;
	*ret_count = count;
	return 0;
}

void fgt_summary_groups_print(const struct fgt_summary_group *groups,
			      uint32_t count, FILE *file)
{
	size_t columns = 16;

	if (!count)
		return;
	for (uint32_t i = 0; i < count; i++)
		fgt_column_fit(file, groups[i].pattern, &columns);
	fputs("threads with similar names: so many were mostly in\n", file);
	for (uint32_t i = 0; i < count; i++) {
		const struct fgt_summary_group *group = &groups[i];

		fputs("  ", file);
		fgt_print_padded(file, group->pattern, columns);
		fprintf(file, " %u:", group->threads);
		for (uint32_t j = 0; j < group->state_count; j++) {
			fputs(j ? ", " : " ", file);
			fgt_print_text(file, group->states[j].name, 32);
			fprintf(file, " %u", group->states[j].threads);
		}
		if (group->others)
			fprintf(file, ", others %u", group->others);
		fputc('\n', file);
	}
	fputc('\n', file);
}

void fgt_summary_groups_put(const struct fgt_summary_group *groups,
			    uint32_t count, struct fgt_json *json)
{
	fgt_json_begin_array(json, "thread_groups");
	for (uint32_t i = 0; i < count; i++) {
		const struct fgt_summary_group *group = &groups[i];

		fgt_json_begin_object(json, NULL);
		fgt_json_put_string(json, "pattern", group->pattern);
		fgt_json_put_uint(json, "threads", group->threads);
		fgt_json_begin_array(json, "mostly_in");
		for (uint32_t j = 0; j < group->state_count; j++) {
			fgt_json_begin_object(json, NULL);
			fgt_json_put_string(json, "state",
					    group->states[j].name);
			fgt_json_put_uint(json, "threads",
					  group->states[j].threads);
			fgt_json_end_object(json);
		}
		fgt_json_end_array(json);
		fgt_json_put_uint(json, "others", group->others);
		fgt_json_end_object(json);
	}
	fgt_json_end_array(json);
}
