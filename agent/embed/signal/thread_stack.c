/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of this process's own threads. Runs in the sampler's thread; reads
 * descriptions of other threads only through the kernel: they may end at any
 * moment.
 *
 * The kernel knows where a thread's list of robust locks begins, and libc
 * keeps that list in its description of the thread, which also shows the
 * stack. Where in it, the sampler's own description shows.
 */
#include "agent/embed/signal/thread_stack.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/unwind/arch/memory.h"
#include "ringbuf/base/owner.h"

#define SEARCH_BYTES 4096u /* of a description */
#define PAGE_BYTES   4096u
/* Beside the frame: the handler, and what the loader might need. */
#define HANDLER_BYTES	2048u
#define PAGES_MAX	512u
#define FRAME_BYTES_MIN 4096u
/* Unused, a few calls may reach its end between two looks … */
#define FAR_BYTES  1048576u
#define NEAR_BYTES 131072u
/* … but not those of a thread that went no deeper for so long. */
#define CALM_MS	     100u
#define CALM_NEAR_MS 1000u /* a thread that was idle was calm for as long */
#define UNUSED_MAX   1023u /* pages that a thread has bits for */
/* The stack of the first thread, whatever its limit is by now: nothing else is
 * mapped so near, unless by a program that asks for these very addresses.
 * Without any limit the kernel puts new mappings far below. */
#define FIRST_BYTES_MAX	      (UINT64_C(1) << 40)
#define FIRST_BYTES_UNCHECKED (UINT64_C(64) << 20)
#define FIRST_GAP_BYTES	      (UINT64_C(1) << 20) /* that the kernel keeps */

static uint64_t robust_list(int32_t tid)
{
	struct robust_list_head *head = NULL;
	size_t len;

	if (syscall(SYS_get_robust_list, tid, &head, &len) < 0)
		return 0;
	return (uint64_t)(uintptr_t)head;
}

/* Reads through this thread: the first thread may have ended, and shows no
 * memory then. */
static bool read_memory(uint64_t address, void *buffer, size_t len)
{
	return fgt_memory_read(gettid(), address, buffer, len) == (int64_t)len;
}

/* Without its guard. */
static bool own_stack(uint64_t *ret_start, uint64_t *ret_end)
{
	pthread_attr_t attributes;
	size_t len;
	void *start;
	bool is_known;

	if (pthread_getattr_np(pthread_self(), &attributes))
		return false;
	is_known = !pthread_attr_getstack(&attributes, &start, &len);
	pthread_attr_destroy(&attributes);
	if (!is_known)
		return false;
	*ret_start = (uint64_t)(uintptr_t)start;
	*ret_end = *ret_start + len;
	return true;
}

/* Are these the stack with its guard, how long that is, and the guard? How long
 * the latter is, some libcs report wrongly. */
static bool is_stack(const uint64_t words[3], uint64_t start, uint64_t end)
{
	return words[2] < words[1] && words[0] + words[1] == end &&
	       words[0] + words[2] == start;
}

/* The kernel puts the program's name there. */
static uint64_t first_stack_high(void)
{
	uint64_t name = getauxval(AT_EXECFN);

	return name ? (name + PAGE_BYTES) & ~(uint64_t)(PAGE_BYTES - 1) : 0;
}

/* Where the mapping ends that lies next below the one with this end; 0: there
 * is no such one. */
static uint64_t find_end_below(FILE *maps, uint64_t high)
{
	uint64_t start = 0, end = 0, below = 0;
	char *line = NULL;
	size_t size = 0;

	while (end < high && getline(&line, &size, maps) > 0) {
		below = end;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) != 2)
			break;
	}
	free(line);
	return start < high && high <= end ? below : 0;
}

/* It grows until it is near what is mapped below it; 0: not known. */
static uint64_t first_stack_floor(void)
{
	FGT_AUTO(fgt_file_close) FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t below = maps ? find_end_below(maps, first_stack_high()) : 0;

	return below ? below + FIRST_GAP_BYTES : 0;
}

void fgt_thread_layout_learn(struct fgt_thread_layout *ret_layout)
{
	uint64_t own = (uint64_t)(uintptr_t)pthread_self();
	uint64_t head = robust_list(0);
	uint64_t frame_bytes = getauxval(AT_MINSIGSTKSZ);
	uint64_t words[3], start, end;

	*ret_layout = (struct fgt_thread_layout){ 0 };
	if (frame_bytes < FRAME_BYTES_MIN)
		frame_bytes = FRAME_BYTES_MIN;
	ret_layout->first_floor = first_stack_floor();
	ret_layout->need_bytes = (frame_bytes + HANDLER_BYTES + PAGE_BYTES) /
				 PAGE_BYTES * PAGE_BYTES;
	if (head < own || head - own > SEARCH_BYTES || !own_stack(&start, &end))
		return;
	ret_layout->robust_offset = head - own;
	for (uint64_t at = 0; at < SEARCH_BYTES; at += sizeof(uint64_t)) {
		if (!read_memory(own + at, words, sizeof(words)))
			return;
		if (!is_stack(words, start, end))
			continue;
		ret_layout->stack_offset = at;
		return;
	}
}

static uint64_t first_stack_low(const struct fgt_thread_layout *layout,
				uint64_t *ret_high)
{
	uint64_t most_bytes = layout->first_floor ? FIRST_BYTES_MAX
						  : FIRST_BYTES_UNCHECKED;
	uint64_t high = first_stack_high(), low;
	struct rlimit limit;

	if (!high || getrlimit(RLIMIT_STACK, &limit) < 0)
		return 0;
	if (limit.rlim_cur > most_bytes)
		limit.rlim_cur = most_bytes;
	if (limit.rlim_cur >= high)
		return 0;
	*ret_high = high;
	low = (high - limit.rlim_cur + PAGE_BYTES - 1) &
	      ~(uint64_t)(PAGE_BYTES - 1);
	return low > layout->first_floor ? low : layout->first_floor;
}

/* 0: libc does not show it, or of no other than the first thread. */
static uint64_t described_low(const struct fgt_thread_layout *layout,
			      int32_t tid, uint64_t *ret_high)
{
	uint64_t head = robust_list(tid), words[3];

	if (!head || !layout->stack_offset ||
	    !read_memory(head - layout->robust_offset + layout->stack_offset,
			 words, sizeof(words)))
		return 0;
	/* A description lies at the end of the stack that it describes. */
	if (!words[0] || words[2] > words[1] || head < words[0] ||
	    head - words[0] > words[1])
		return 0;
	/* Frames lie below it: the rest is not unwound. */
	*ret_high = head - layout->robust_offset;
	return words[0] + words[2];
}

uint64_t fgt_thread_stack_low(const struct fgt_thread_layout *layout,
			      int32_t tid, uint64_t *ret_high)
{
	uint64_t low = described_low(layout, tid, ret_high);

	/* In the child of a fork the first thread may be any one. */
	if (!low && tid == getpid())
		low = first_stack_low(layout, ret_high);
	return low;
}

/* Whether something is mapped in all of its pages, and whether they were used,
 * a byte each. */
static bool look_at_pages(uint64_t start, size_t count,
			  unsigned char *ret_pages)
{
	return mincore((void *)(uintptr_t)start, count * PAGE_BYTES,
		       ret_pages) == 0;
}

/* The first thread's stack grows down to where it was needed. */
static size_t count_unmapped(uint64_t start, size_t count)
{
	unsigned char pages[PAGES_MAX];
	size_t low = 0, high = count; /* mapped from high on */

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (look_at_pages(start + middle * PAGE_BYTES, count - middle,
				  pages))
			high = middle;
		else
			low = middle + 1;
	}
	return high;
}

uint64_t fgt_thread_stack_unused(uint64_t low, uint64_t most_bytes)
{
	uint64_t start = low & ~(uint64_t)(PAGE_BYTES - 1);
	unsigned char pages[PAGES_MAX];
	size_t count = most_bytes / PAGE_BYTES;

	if (count > sizeof(pages))
		count = sizeof(pages);
	if (!look_at_pages(start, count, pages))
		return look_at_pages(start + (count - 1) * PAGE_BYTES, 1, pages)
			       ? count_unmapped(start, count) * PAGE_BYTES
			       : most_bytes;
	for (size_t i = 0; i < count; i++)
		if (pages[i] & 1)
			return i * PAGE_BYTES;
	return most_bytes;
}

bool fgt_thread_has_room(const struct fgt_thread_layout *layout,
			 const struct fgt_thread_room *room,
			 struct fgt_thread *thread, uint64_t now_ns)
{
	uint64_t need_bytes = layout->need_bytes, most = need_bytes + FAR_BYTES;
	uint64_t whole = room->high - room->low, unused, pages;
	struct fgt_active_thread *active = thread->active;
	uint32_t now_ms = (uint32_t)(now_ns / 1000000u), calm_ms;

	if (!room->low)
		return true;
	/* What lies above the stack is no part of it. */
	unused =
		fgt_thread_stack_unused(room->low, whole < most ? whole : most);
	if (unused >= most)
		return true;
	pages = unused / PAGE_BYTES;
	if (pages > UNUSED_MAX) /* frames of signals have never been so large */
		pages = UNUSED_MAX;
	if (pages != thread->stack_unused) {
		thread->stack_unused = pages & UNUSED_MAX;
		active->stack_since_ms = now_ms;
	}
	calm_ms = unused < need_bytes + NEAR_BYTES ? CALM_NEAR_MS : CALM_MS;
	return unused > need_bytes &&
	       now_ms - active->stack_since_ms >= calm_ms;
}
