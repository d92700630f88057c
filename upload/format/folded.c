/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums ticks per distinct stack in a tree of names, each weighted by the
 * periods that it stands for, then writes the tree's lines in byte order. Runs
 * in any thread; must not hold a line: a stack's text is written level by
 * level.
 *
 * With holders, the stack of a thread that waits for a lock goes on, above
 * "--", with that of the thread that holds it, from its leaf to its root, and
 * with that thread's name: as graphs of wake-ups have them.
 *
 * The format has two special characters. In names ';' becomes ':', and control
 * characters become spaces.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/id_map.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/utf8.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"
#include "upload/format/parts/levels.h"
#include "upload/format/parts/options.h"

#define NO_ENTRY UINT32_MAX

struct tree_entry {
	uint32_t parent, name; /* NO_ENTRY at the root; id in names */
	uint32_t first_child, next_sibling;
	uint64_t ticks; /* of stacks that end here */
};

/* One entry stands for up to two parts of the output. */
struct output_part {
	uint32_t entry;
	bool is_line; /* its own line; else everything below it */
};

struct folded {
	const struct fgt_ring_slice *slice;
	struct fgt_levels levels;
	struct fgt_strings names; /* as they are written */
	struct fgt_id_map entries; /* (parent, name) → entry */
	struct tree_entry *entry; /* [entries.count], by id */
	uint32_t capacity;
	uint32_t first_root;
	uint32_t root; /* NO_ENTRY; of several processes the one of that which
			* is being added */
	struct output_part *parts; /* still to be written, the next one last */
	size_t part_count, part_capacity;
	uint32_t path[2 * FGT_LEVELS_MAX + 4];
	uint32_t *thread_runs; /* [thread_count + 1], with holders; else NULL */
	struct fgt_sink_buffer out;
};

static void sanitise(const char *name, char *safe, size_t size, size_t *ret_len)
{
	size_t len = strnlen(name, FGT_STRING_MAX), at = 0, used = 0;

	while (at < len && used + 4 < size) {
		size_t wide = fgt_utf8_len(name + at, len - at);
		unsigned char c = (unsigned char)name[at];

		if (!wide) {
			memcpy(safe + used, FGT_UTF8_REPLACEMENT, 3);
			used += 3;
			at++;
			continue;
		}
		memcpy(safe + used, name + at, wide);
		if (c == ';')
			safe[used] = ':';
		else if (c < 0x20 || c == 0x7f)
			safe[used] = ' ';
		used += wide;
		at += wide;
	}
	*ret_len = used;
}

static int intern_name(struct folded *folded, struct fgt_level level,
		       uint32_t *ret_name)
{
	char buffer[FGT_LEVEL_NAME_MAX], safe[FGT_STRING_MAX];
	const char *name = fgt_level_name(folded->slice, level, buffer);
	size_t len;

	sanitise(name, safe, sizeof(safe), &len);
	return fgt_strings_intern(&folded->names, safe, len, ret_name);
}

/* Finds or adds the child of parent that is called name. */
static int step_down(struct folded *folded, uint32_t parent, uint32_t name,
		     uint32_t *ret_entry)
{
	uint32_t count = folded->entries.count, id, *head;
	int r;

	r = FGT_ARRAY_GROW(folded->entry, count, folded->capacity);
	if (!r)
		r = fgt_id_map_add(&folded->entries,
				   (uint64_t)parent << 32 | name, &id);
	if (r)
		return r;
	*ret_entry = id;
	if (folded->entries.count == count)
		return 0;
	head = parent == NO_ENTRY ? &folded->first_root
				  : &folded->entry[parent].first_child;
	folded->entry[id] = (struct tree_entry){ .parent = parent,
						 .name = name,
						 .first_child = NO_ENTRY,
						 .next_sibling = *head };
	*head = id;
	return 0;
}

static int step_to_text(struct folded *folded, const char *text,
			uint32_t *entry)
{
	char safe[FGT_STRING_MAX];
	uint32_t name;
	size_t len;
	int r;

	sanitise(text, safe, sizeof(safe), &len);
	r = fgt_strings_intern(&folded->names, safe, len, &name);
	return r ? r : step_down(folded, *entry, name, entry);
}

static int add_stack(struct folded *folded, uint32_t stack, uint32_t state,
		     uint32_t *ret_entry)
{
	uint32_t entry = folded->root, name;
	int r;

	fgt_levels_expand(&folded->levels, stack, state);
	for (uint32_t i = folded->levels.count; i > 0; i--) {
		r = intern_name(folded, folded->levels.items[i - 1], &name);
		if (r)
			return r;
		r = step_down(folded, entry, name, &entry);
		if (r)
			return r;
	}
	*ret_entry = entry;
	return 0;
}

/* ---- Holders ---------------------------------------------------------------- */

static int index_runs(struct folded *folded)
{
	const struct fgt_ring_slice *slice = folded->slice;
	uint32_t run = 0;

	if (!FGT_ARRAY_NEW(folded->thread_runs, slice->thread_count + 1))
		return -ENOMEM;
	for (uint32_t thread = 0; thread < slice->thread_count; thread++) {
		folded->thread_runs[thread] = run;
		while (run < slice->run_count &&
		       slice->runs[run].thread == thread)
			run++;
	}
	folded->thread_runs[slice->thread_count] = run;
	return 0;
}

/* The thread that holds what a run waits for; thread_count: none is known. */
static uint32_t holder_of(const struct fgt_ring_slice *slice,
			  const struct fgt_run *run)
{
	return fgt_slice_find_thread(
		slice, run->wait ? slice->waits[run->wait - 1].owner_tid : 0);
}

/* From the waiting thread's leaf on. */
static int add_holder(struct folded *folded, const struct fgt_run *holder,
		      uint32_t *entry)
{
	const struct fgt_ring_slice *slice = folded->slice;
	char buffer[FGT_LEVEL_NAME_MAX];
	uint32_t name;
	int r = step_to_text(folded, "--", entry);

	fgt_levels_expand(&folded->levels, holder->stack, holder->state);
	for (uint32_t i = 0; i < folded->levels.count && !r; i++) {
		r = intern_name(folded, folded->levels.items[i], &name);
		if (!r)
			r = step_down(folded, *entry, name, entry);
	}
	if (r)
		return r;
	return step_to_text(
		folded,
		fgt_level_thread_name(slice, &slice->threads[holder->thread],
				      buffer),
		entry);
}

static int add_ticks(struct folded *folded, const struct fgt_run *run,
		     const struct fgt_run *holder, uint32_t first, uint32_t end)
{
	uint32_t entry;
	int r;

	if (first >= end)
		return 0;
	r = add_stack(folded, run->stack, run->state, &entry);
	if (!r && holder)
		r = add_holder(folded, holder, &entry);
	if (!r)
		folded->entry[entry].ticks +=
			fgt_pace_weight(folded->slice, first, end - first);
	return r;
}

/* What the holder did at the ticks of that run. */
static int add_held(struct folded *folded, const struct fgt_run *run,
		    uint32_t thread)
{
	const struct fgt_ring_slice *slice = folded->slice;
	uint32_t at = run->first_tick, end = at + run->tick_count;
	int r = 0;

	for (uint32_t i = folded->thread_runs[thread];
	     i < folded->thread_runs[thread + 1] && at < end && !r; i++) {
		const struct fgt_run *holder = &slice->runs[i];
		uint32_t to = holder->first_tick + holder->tick_count;

		if (to <= at || holder->first_tick >= end)
			continue;
		r = add_ticks(folded, run, NULL, at, holder->first_tick);
		if (at < holder->first_tick)
			at = holder->first_tick;
		if (to > end)
			to = end;
		if (!r)
			r = add_ticks(folded, run, holder, at, to);
		at = to;
	}
	return r ? r : add_ticks(folded, run, NULL, at, end);
}

/* ---- All --------------------------------------------------------------------- */

/* Of several processes, a frame at the root of all stacks. */
static int begin_process(struct folded *folded, uint32_t number)
{
	struct fgt_process_of of = fgt_slice_process(folded->slice, number);
	char text[FGT_LEVEL_NAME_MAX];

	folded->root = NO_ENTRY;
	if (fgt_slice_process_count(folded->slice) == 1)
		return 0;
	snprintf(text, sizeof(text), "%.100s (%d)", of.title, of.pid);
	return step_to_text(folded, text, &folded->root);
}

/* Sums by (stack, state) first, since expanding a stack is expensive. */
static int add_runs(struct folded *folded, uint32_t process,
		    struct fgt_id_map *stacks, uint64_t *ticks)
{
	const struct fgt_ring_slice *slice = folded->slice;
	int r;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		uint32_t id, holder = slice->thread_count;

		if (slice->threads[run->thread].process != process)
			continue;
		if (folded->thread_runs)
			holder = holder_of(slice, run);
		if (holder < slice->thread_count) {
			r = add_held(folded, run, holder);
			if (r)
				return r;
			continue;
		}
		r = fgt_id_map_add(
			stacks, (uint64_t)run->stack << 32 | run->state, &id);
		if (r)
			return r;
		ticks[id] += fgt_pace_weight(slice, run->first_tick,
					     run->tick_count);
	}
	for (uint32_t i = 0; i < stacks->count; i++) {
		uint32_t entry;

		r = add_stack(folded, (uint32_t)(stacks->keys[i] >> 32),
			      (uint32_t)stacks->keys[i], &entry);
		if (r)
			return r;
		folded->entry[entry].ticks += ticks[i];
	}
	return 0;
}

static int add_process(struct folded *folded, uint32_t process)
{
	struct fgt_id_map stacks = { 0 };
	uint64_t *ticks = NULL;
	int r = begin_process(folded, process);

	if (!r && !FGT_ARRAY_NEW(ticks, folded->slice->run_count))
		r = -ENOMEM;
	if (!r)
		r = add_runs(folded, process, &stacks, ticks);
	free(ticks);
	fgt_id_map_done(&stacks);
	return r;
}

static int build_tree(struct folded *folded)
{
	int r = 0;

	for (uint32_t i = 0; i < fgt_slice_process_count(folded->slice) && !r;
	     i++)
		r = add_process(folded, i);
	return r;
}

/* The character behind the name in the output decides between equal
 * prefixes. */
static void part_suffix(const struct folded *folded,
			const struct output_part *part, char suffix[24])
{
	if (part->is_line)
		snprintf(suffix, 24, " %llu\n",
			 (unsigned long long)folded->entry[part->entry].ticks);
	else
		strcpy(suffix, ";");
}

/* Against the byte order of the lines, which LC_ALL=C sort has. */
static int last_part_first(const void *a, const void *b, void *context)
{
	const struct folded *folded = context;
	const struct output_part *parts[2] = { a, b };
	const char *text[2];
	char suffix[2][24];
	bool is_suffix[2] = { false, false };

	for (int i = 0; i < 2; i++) {
		text[i] = fgt_strings_get(&folded->names,
					  folded->entry[parts[i]->entry].name);
		part_suffix(folded, parts[i], suffix[i]);
	}
	for (;; text[0]++, text[1]++) {
		for (int i = 0; i < 2; i++)
			if (!*text[i] && !is_suffix[i]) {
				is_suffix[i] = true;
				text[i] = suffix[i];
			}
		if (*text[0] != *text[1])
			return (unsigned char)*text[0] < (unsigned char)*text[1]
				       ? 1
				       : -1;
		if (!*text[0])
			return 0;
	}
}

static int push_part(struct folded *folded, uint32_t entry, bool is_line)
{
	if (FGT_ARRAY_GROW(folded->parts, folded->part_count,
			   folded->part_capacity))
		return -ENOMEM;
	folded->parts[folded->part_count++] =
		(struct output_part){ entry, is_line };
	return 0;
}

/* Pushes a list of siblings; the one that is written first goes last. */
static int push_siblings(struct folded *folded, uint32_t entry)
{
	size_t first = folded->part_count;
	int r = 0;

	for (; entry != NO_ENTRY && !r;
	     entry = folded->entry[entry].next_sibling) {
		if (folded->entry[entry].ticks)
			r = push_part(folded, entry, true);
		if (!r && folded->entry[entry].first_child != NO_ENTRY)
			r = push_part(folded, entry, false);
	}
	if (folded->part_count > first)
		qsort_r(folded->parts + first, folded->part_count - first,
			sizeof(*folded->parts), last_part_first, folded);
	return r;
}

static void write_line(struct folded *folded, uint32_t line)
{
	char text[32];
	uint32_t depth = 0;

	for (uint32_t entry = line; entry != NO_ENTRY;
	     entry = folded->entry[entry].parent)
		folded->path[depth++] = folded->entry[entry].name;
	while (depth-- > 0) {
		const char *name =
			fgt_strings_get(&folded->names, folded->path[depth]);

		fgt_sink_buffer_put(&folded->out, name, strlen(name));
		if (depth)
			fgt_sink_buffer_put(&folded->out, ";", 1);
	}
	snprintf(text, sizeof(text), " %llu\n",
		 (unsigned long long)folded->entry[line].ticks);
	fgt_sink_buffer_put(&folded->out, text, strlen(text));
}

static int write_tree(struct folded *folded)
{
	int r = push_siblings(folded, folded->first_root);

	while (!r && folded->part_count) {
		struct output_part part = folded->parts[--folded->part_count];

		if (part.is_line)
			write_line(folded, part.entry);
		else
			r = push_siblings(
				folded, folded->entry[part.entry].first_child);
	}
	return r ? r : fgt_sink_buffer_flush(&folded->out);
}

static void folded_free(struct folded *folded)
{
	if (!folded)
		return;
	fgt_levels_done(&folded->levels);
	fgt_strings_done(&folded->names);
	fgt_id_map_done(&folded->entries);
	free(folded->entry);
	free(folded->parts);
	free(folded->thread_runs);
	free(folded);
}
FGT_DEFINE_AUTO(struct folded *, folded_free);

int fgt_folded_write(const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     const struct fgt_sink *sink)
{
	FGT_AUTO(folded_free) struct folded *folded = NULL;
	int r;

	folded = calloc(1, sizeof(*folded));
	if (!folded)
		return -ENOMEM;
	folded->slice = slice;
	folded->first_root = NO_ENTRY;
	fgt_sink_buffer_init(&folded->out, sink);
	r = fgt_strings_init(&folded->names);
	if (!r)
		r = fgt_levels_init(&folded->levels, slice,
				    options->state_frames, FGT_LEVELS_MAX);
	if (!r && options->with_holders)
		r = index_runs(folded);
	if (!r)
		r = build_tree(folded);
	if (!r)
		r = write_tree(folded);
	return r;
}
