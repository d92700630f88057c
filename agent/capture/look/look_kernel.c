/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions a thread was in while it was in the kernel, where its source
 * of samples may not look. The next sample of user mode may be of another
 * function. So a part of the stack is read at each tick that asks: the return
 * addresses that the next sample finds there show which of its calls had been
 * made by then. Runs in the sampler's thread; reads memory of a thread that
 * runs, and believes only words that agree.
 */
#include "agent/capture/look/look_parts.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_BYTES 16384u
#define BELOW_BYTES 1024u /* what is called may be deeper */
/* The functions with which a thread begins are called through pointers, but
 * only once; main() comes after two of libc and the one of the program. */
#define ROOT_FRAMES	 3u
#define ROOT_FRAMES_MAIN 4u

static uint64_t place_of(const struct fgt_look_words *words, uint32_t sp_low)
{
	uint64_t sp = words->sample_sp;

	return sp + (uint64_t)(int64_t)(int32_t)(sp_low - (uint32_t)sp);
}

void fgt_look_words_follow(const struct fgt_look *look,
			   struct fgt_thread *thread, uint64_t sp, size_t count)
{
	const struct fgt_unwound_frame *unwound = look->stacks.unwound;
	struct fgt_look_words *words = &thread->active->look->words;

	while (count && (unwound[count - 1].flags & FGT_FRAME_MARKER))
		count--;
	words->sample_sp = count ? sp : 0;
	if (count)
		words->root_sp = place_of(words, unwound[count - 1].sp_low);
}

/* Ticks without a sample stand for one call: what differs between them is not
 * known of it. */
static void merge(struct fgt_look_words *words, const uint8_t *bytes,
		  uint32_t len)
{
	uint32_t from = words->from;

	for (uint32_t at = len; at > from; at -= sizeof(uint64_t))
		if (memcmp(words->bytes + at - sizeof(uint64_t),
			   bytes + at - sizeof(uint64_t), sizeof(uint64_t)))
			words->from = from = at;
}

void fgt_look_words_read(struct fgt_look *look, const struct fgt_tick *tick,
			 struct fgt_thread *thread)
{
	struct fgt_look_thread *thread_look = thread->active->look;
	struct fgt_look_words *words = &thread_look->words;
	uint64_t start = (words->sample_sp - BELOW_BYTES) & ~7ull;
	bool is_waiting = thread_look->pending_ticks && words->len;
	uint64_t end = words->root_sp & ~7ull;
	int64_t len;

	if (!words->sample_sp || end <= start || !fgt_arch_host.return_offset) {
		words->len = 0;
		return;
	}
	if (end - start > WORDS_BYTES)
		start = end - WORDS_BYTES;
	if (!words->bytes)
		words->bytes = malloc(WORDS_BYTES);
	len = words->bytes ? fgt_look_copy(look, thread, start,
					   tick->other_buffer, end - start)
			   : 0;
	if (len != (int64_t)(end - start)) {
		words->len = 0;
		return;
	}
	if (is_waiting && words->start == start && words->len == len) {
		merge(words, tick->other_buffer, words->len);
		return;
	}
	memcpy(words->bytes, tick->other_buffer, (size_t)len);
	words->start = start;
	words->len = (uint32_t)len;
	words->from = is_waiting ? words->len : 0;
}

/* Had this call of the last stack been made at the tick already? */
static bool is_made(const struct fgt_look *look,
		    const struct fgt_look_words *words, size_t i)
{
	const struct fgt_unwound_frame *frame = &look->stacks.unwound[i];
	uint64_t at, word;

	if (frame->flags & FGT_FRAME_MARKER)
		return true;
	at = place_of(words, frame->sp_low) +
	     (uint64_t)(int64_t)fgt_arch_host.return_offset - words->start;
	if (!(frame->flags & FGT_FRAME_CALLER) || !words->len ||
	    at < words->from || at > words->len - sizeof(word))
		return false;
	memcpy(&word, words->bytes + at, sizeof(word));
	return word == frame->pc;
}

size_t fgt_look_words_known(const struct fgt_look *look,
			    const struct fgt_thread *thread, size_t count,
			    size_t shared)
{
	const struct fgt_look_words *words = &thread->active->look->words;
	size_t known = count != 0, trusted = ROOT_FRAMES;

	if (thread->tid == look->process.pid)
		trusted = ROOT_FRAMES_MAIN;
	/* Cut short: its last functions are not the first of the thread. */
	if (known && (look->stacks.unwound[count - 1].flags & FGT_FRAME_MARKER))
		trusted = 0;
	if (trusted < shared)
		trusted = shared;
	while (known < count && is_made(look, words, count - known) &&
	       (known < trusted ||
		fgt_stacks_is_fixed_call(&look->stacks, count - known)))
		known++;
	return known;
}
