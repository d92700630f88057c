/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal handlers that began after the tick. A thread that has lost its CPU
 * gets the signals that came meanwhile when it has one again: a sample that
 * comes a moment later shows the handler, though at the tick the thread stood
 * where the handler interrupted it. What the kernel saved there divides the
 * two: if it lay there at the tick already, the handler had begun before. Runs
 * in the sampler's thread; reads memory, must not touch the thread.
 */
#include "agent/capture/look/look_parts.h"

#include <string.h>

/* From there on, the registers: x86-64 needs 256, aarch64 584 bytes. */
#define PLACE_BYTES 592u
/* A place is read at so many ticks after its last handler. */
#define UNUSED_MAX UINT8_MAX
/* Without a CPU for less, it hardly waited. */
#define OFF_MIN_NS 200000u
#define HASH_BEGIN UINT64_C(14695981039346656037)
#define HASH_PRIME UINT64_C(1099511628211)

/*
 * Of the registers alone, never 0: the next handler, which begins as the one
 * before it ends, has interrupted the same.
 */
static uint64_t hash_of(const uint8_t *bytes)
{
	uint64_t hash = HASH_BEGIN, word;

	for (unsigned int reg = 0; reg < fgt_arch_host.reg_count; reg++) {
		int offset = fgt_arch_host.sigreturn_offset(reg);

		if (offset < 0 || (size_t)offset + sizeof(word) > PLACE_BYTES)
			continue;
		memcpy(&word, bytes + offset, sizeof(word));
		hash = (hash ^ word) * HASH_PRIME;
	}
	return hash | 1;
}

void fgt_look_note_signals(struct fgt_look *look, struct fgt_thread *thread)
{
	struct fgt_signal_places *places = &thread->active->look->signals;
	uint8_t bytes[PLACE_BYTES];

	for (uint32_t i = 0; i < FGT_SIGNAL_PLACES; i++) {
		if (places->unused[i]++ == UNUSED_MAX)
			places->sp[i] = 0;
		if (!places->sp[i])
			continue;
		places->hash[i] = fgt_look_copy(look, thread, places->sp[i],
						bytes,
						sizeof(bytes)) == sizeof(bytes)
					  ? hash_of(bytes)
					  : 0;
	}
}

/* The place's hash at the tick; 0: not known. It is read from now on. */
static uint64_t find_place(struct fgt_signal_places *places, uint64_t sp)
{
	uint32_t at = places->next;

	for (uint32_t i = 0; i < FGT_SIGNAL_PLACES; i++) {
		if (places->sp[i] == sp) {
			places->unused[i] = 0;
			return places->hash[i];
		}
		if (!places->sp[i])
			at = i;
	}
	if (at == places->next)
		places->next = (at + 1) % FGT_SIGNAL_PLACES;
	places->sp[at] = sp;
	places->hash[at] = 0;
	places->unused[at] = 0;
	return 0;
}

size_t fgt_look_before_signal(const struct fgt_look *look,
			      struct fgt_thread *thread,
			      const struct fgt_running_sample *sample,
			      struct fgt_frame *frames, size_t count)
{
	uint64_t start = sample->regs.value[fgt_arch_host.sp], sp, hash;
	size_t first;

	if (!sample->stack_len)
		return count;
	first = fgt_stacks_interrupted(&look->stacks, start, frames, count,
				       &sp);
	if (!first || sp - start > sample->stack_len ||
	    sample->stack_len - (sp - start) < PLACE_BYTES)
		return count;
	hash = find_place(&thread->active->look->signals, sp);
	if (!hash || sample->off_ns < OFF_MIN_NS ||
	    hash == hash_of(sample->stack + (sp - start)))
		return count;
	count -= first;
	memmove(frames, frames + first, count * sizeof(*frames));
	return count;
}
