/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums ticks per distinct stack in a tree of names, each weighted by the
 * periods that it stands for, then writes the tree's lines in byte order. Runs
 * in any thread; must not hold a line: a stack's text is written level by
 * level.
 *
 * With waits, what folded_waits.c appends follows the stack of a thread that
 * waits.
 *
 * The format has two special characters. In names ';' becomes ':', and control
 * characters become spaces.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/utf8.h"
#include "ringbuf/slice/pace.h"
#include "ringbuf/slice/processes.h"
#include "upload/format/folded/folded_tree.h"
#include "upload/format/parts/options.h"

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

int fgt_folded_step_to_text(struct folded *folded, const char *text,
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

int fgt_folded_step_to_level(struct folded *folded, struct fgt_level level,
			     uint32_t *entry)
{
	uint32_t name;
	int r = intern_name(folded, level, &name);

	return r ? r : step_down(folded, *entry, name, entry);
}

int fgt_folded_add_stack(struct folded *folded, uint32_t stack, uint32_t state,
			 uint32_t *ret_entry)
{
	int r = 0;

	*ret_entry = folded->root;
	fgt_levels_expand(&folded->levels, stack, state);
	for (uint32_t i = folded->levels.count; i > 0 && !r; i--)
		r = fgt_folded_step_to_level(
			folded, folded->levels.items[i - 1], ret_entry);
	return r;
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
	return fgt_folded_step_to_text(folded, text, &folded->root);
}

/* Sums by (stack, state) first, since expanding a stack is expensive. */
static int add_runs(struct folded *folded, uint32_t process,
		    struct fgt_id_map *stacks, uint64_t *ticks)
{
	const struct fgt_ring_slice *slice = folded->slice;
	int r;

	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		bool is_added = false;
		uint32_t id;

		if (slice->threads[run->thread].process != process)
			continue;
		r = folded->thread_runs
			    ? fgt_folded_add_wait(folded, run, &is_added)
			    : 0;
		if (r)
			return r;
		if (is_added)
			continue;
		r = fgt_id_map_add(
			stacks, (uint64_t)run->stack << 32 | run->state, &id);
		if (r)
			return r;
		ticks[id] += fgt_pace_weight(slice, run->first_tick,
					     run->tick_count);
	}
	for (uint32_t i = 0; i < stacks->count; i++) {
		uint32_t entry;

		r = fgt_folded_add_stack(folded,
					 (uint32_t)(stacks->keys[i] >> 32),
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
	if (!r && options->with_waits)
		r = fgt_folded_index_runs(folded);
	if (!r)
		r = build_tree(folded);
	if (!r)
		r = write_tree(folded);
	return r;
}
