/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slice's life, its look-ups, and what is added to it after the cut.
 * Runs in any thread; must not be called from a signal handler.
 */
#include "ringbuf/slice/slice.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/slice/wall_clock.h"

int fgt_slice_new(struct fgt_ring_slice **ret_slice)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	int error;

	slice = calloc(1, sizeof(*slice));
	if (!slice)
		return -ENOMEM;
	error = fgt_strings_init(&slice->strings);
	if (error)
		return error;
	*ret_slice = FGT_TAKE(slice);
	return 0;
}

void fgt_ring_slice_free(struct fgt_ring_slice *slice)
{
	if (!slice)
		return;
	free(slice->processes);
	free(slice->members);
	free(slice->anchors);
	free(slice->pressures);
	free(slice->tick_ns);
	free(slice->paces);
	free(slice->runs);
	free(slice->edges);
	free(slice->waits);
	free(slice->wakers);
	free(slice->wakes);
	free(slice->run_waits);
	free(slice->tasks);
	free(slice->spans);
	free(slice->marks);
	free(slice->counters);
	free(slice->labels);
	free(slice->notes);
	free(slice->threads);
	free(slice->nodes);
	free(slice->frames);
	free(slice->images);
	free(slice->states);
	free(slice->symbols);
	fgt_strings_done(&slice->strings);
	free(slice);
}

const char *fgt_slice_string(const struct fgt_ring_slice *slice, uint32_t id)
{
	return fgt_strings_get(&slice->strings, id);
}

uint64_t fgt_slice_leaf_marker(const struct fgt_ring_slice *slice,
			       uint32_t stack)
{
	const struct fgt_frame *leaf;

	if (stack == FGT_NODE_NONE)
		return 0;
	leaf = &slice->frames[slice->nodes[stack].frame].frame;
	return leaf->flags & FGT_FRAME_MARKER ? leaf->address : 0;
}

uint32_t fgt_slice_find_thread(const struct fgt_ring_slice *slice, int32_t tid)
{
	size_t at = FGT_ARRAY_BISECT(i, slice->thread_count,
				     slice->threads[i].tid < tid);

	return tid && at < slice->thread_count && slice->threads[at].tid == tid
		       ? (uint32_t)at
		       : slice->thread_count;
}

const char *fgt_slice_state_name(const struct fgt_ring_slice *slice,
				 uint32_t state)
{
	size_t found = FGT_ARRAY_BISECT(at, slice->state_count,
					slice->states[at].state < state);

	if (found < slice->state_count && slice->states[found].state == state &&
	    slice->states[found].name)
		return fgt_slice_string(slice, slice->states[found].name);
	return "unknown";
}

const char *fgt_marker_name(uint64_t marker)
{
	static const char *const names[FGT_MARKER_COUNT] = {
		[FGT_MARKER_KERNEL] = "[kernel]",
		[FGT_MARKER_KERNEL_DENIED] = "[kernel: not permitted]",
		[FGT_MARKER_NOT_SAMPLED] = "[not sampled: last known stack]",
		[FGT_MARKER_ELIDED] = "[frames elided]",
		[FGT_MARKER_OVERFLOW] = "[overflow: no room in the ring]",
		[FGT_MARKER_TRUNCATED_NO_CFI] = "[truncated: no unwind rule]",
		[FGT_MARKER_TRUNCATED_BAD_CFI] = "[truncated: bad unwind rule]",
		[FGT_MARKER_TRUNCATED_NO_STACK] =
			"[truncated: stack larger than its copy]",
		[FGT_MARKER_TRUNCATED_NO_FP] =
			"[truncated: frame pointer unknown]",
		[FGT_MARKER_TRUNCATED_BAD_PC] =
			"[truncated: return address outside code]",
		[FGT_MARKER_TRUNCATED_LOOP] =
			"[truncated: stack pointer did not move]",
		[FGT_MARKER_TRUNCATED_MOVED] =
			"[truncated: thread moved meanwhile]",
		[FGT_MARKER_TRUNCATED_UNREADABLE] = "[truncated: not readable]",
		[FGT_MARKER_TRUNCATED_LATE] =
			"[truncated: unwind rule not read yet]",
	};

	if (marker >= FGT_MARKER_COUNT || !names[marker])
		return "[unknown marker]";
	return names[marker];
}

uint64_t fgt_slice_wall_ns(const struct fgt_ring_slice *slice, uint64_t mono_ns)
{
	return fgt_wall_at(slice->anchors, slice->anchor_count, mono_ns);
}

static int intern_text(struct fgt_ring_slice *slice, const char *text,
		       uint32_t *ret_id)
{
	if (!text)
		text = "";
	return fgt_strings_intern(&slice->strings, text,
				  strnlen(text, FGT_STRING_MAX), ret_id);
}

const char *fgt_slice_note(const struct fgt_ring_slice *slice, const char *key)
{
	for (uint32_t i = 0; i < slice->note_count; i++)
		if (!strcmp(fgt_slice_string(slice, slice->notes[i].key), key))
			return fgt_slice_string(slice, slice->notes[i].value);
	return NULL;
}

int fgt_slice_add_note(struct fgt_ring_slice *slice, const char *key,
		       const char *value)
{
	struct fgt_slice_note note, *grown;
	int error;

	if (fgt_slice_note(slice, key))
		return -EEXIST;
	if (slice->note_count >= FGT_SLICE_NOTES_MAX)
		return -ENOSPC;
	error = intern_text(slice, key, &note.key);
	if (!error)
		error = intern_text(slice, value, &note.value);
	if (error)
		return error;
	grown = reallocarray(slice->notes, slice->note_count + 1,
			     sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	grown[slice->note_count++] = note;
	slice->notes = grown;
	return 0;
}

int fgt_slice_add_mark(struct fgt_ring_slice *slice, uint64_t at_ns,
		       int32_t tid, const char *name)
{
	uint64_t last_ns = slice->tick_ns[slice->tick_count - 1];
	struct fgt_slice_mark mark = { .at_ns = at_ns, .tid = tid }, *grown;
	size_t place;
	int error = intern_text(slice, name, &mark.name);

	if (error)
		return error;
	if (mark.at_ns < slice->tick_ns[0])
		mark.at_ns = slice->tick_ns[0];
	if (mark.at_ns > last_ns)
		mark.at_ns = last_ns;
	grown = reallocarray(slice->marks, (size_t)slice->mark_count + 1,
			     sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	slice->marks = grown;
	place = FGT_ARRAY_BISECT(at, slice->mark_count,
				 grown[at].at_ns <= mark.at_ns);
	memmove(grown + place + 1, grown + place,
		(slice->mark_count++ - place) * sizeof(*grown));
	grown[place] = mark;
	return 0;
}

int fgt_slice_add_symbols(struct fgt_ring_slice *slice, uint32_t frame,
			  const struct fgt_symbol_text *symbols, size_t count)
{
	uint32_t first = slice->symbol_count;
	size_t given = count;
	int error;

	if (frame >= slice->frame_count || !count ||
	    slice->frames[frame].symbol_count)
		return -EINVAL;
	if (count > FGT_SYMBOLS_PER_FRAME_MAX)
		count = FGT_SYMBOLS_PER_FRAME_MAX;
	error = FGT_ARRAY_RESERVE(slice->symbols, slice->symbol_count + count,
				  slice->symbol_capacity);
	if (error)
		return error;
	for (uint32_t i = 0; i < count; i++) {
		struct fgt_symbol *symbol = &slice->symbols[first + i];
		/* The last one is the real function: never the one left out. */
		const struct fgt_symbol_text *text =
			&symbols[i + 1 == count ? given - 1 : i];

		error = intern_text(slice, text->function, &symbol->function);
		if (error)
			return error;
		error = intern_text(slice, text->file, &symbol->file);
		if (error)
			return error;
		symbol->line = text->line;
		symbol->reason = text->reason;
	}
	slice->symbol_count += (uint32_t)count;
	slice->frames[frame].symbol_first = first;
	slice->frames[frame].symbol_count = (uint32_t)count;
	return 0;
}

int fgt_slice_name_states(struct fgt_ring_slice *slice,
			  const char *(*name_of)(const char *arch,
						 uint32_t state))
{
	for (uint32_t i = 0; i < slice->state_count; i++) {
		const char *name =
			name_of(slice->process.arch, slice->states[i].state);
		int error;

		error = intern_text(slice, name, &slice->states[i].name);
		if (error)
			return error;
	}
	return 0;
}
