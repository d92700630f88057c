/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What unwinding costs: a frame by rows and by libunwind, and the row of an
 * address that was not looked up before. Unwinds a copy of this program's stack
 * below a chain of calls; prints figures, passes nothing and fails nothing.
 *
 * usage: bench_unwind [ROUNDS]
 * Instructions: valgrind --tool=callgrind --toggle-collect=fgt_unwind …
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/unwind/view.h"
#include "tests/programs/unwind/unwind_capture.h"

#define MAX_DEPTH 256
#define CALLS	  32
#define STRIDE	  61u /* bytes between the addresses that are looked up */
#define ROUNDS	  20000u

static struct captured captured;
static struct fgt_unwound_frame frames[MAX_DEPTH + 2];
static bool is_through_libc;

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The stack of this thread. The function returns, but the copy stays. */
__attribute__((noinline)) static int take_snapshot(void)
{
	struct fgt_regs *regs = &captured.snapshot.regs;
	ucontext_t context;

	getcontext(&context);
	memset(&captured.snapshot, 0, sizeof(captured.snapshot));
#if defined(__x86_64__)
	const greg_t *values = context.uc_mcontext.gregs;

	fgt_regs_set(regs, fgt_arch_host.pc, (uint64_t)values[REG_RIP]);
	fgt_regs_set(regs, fgt_arch_host.sp, (uint64_t)values[REG_RSP]);
	fgt_regs_set(regs, fgt_arch_host.fp, (uint64_t)values[REG_RBP]);
#else
	fgt_arch_host.regs_from_ptrace(context.uc_mcontext.regs, regs);
#endif
	return capture_stack(getpid(), FGT_SNAPSHOT_MAX_BYTES, &captured);
}

static int call_next(int depth);

/* libc's frame between two of this program. */
static int call_from_libc(const void *key, const void *element)
{
	(void)element;
	call_next(*(const int *)key - 1);
	return 0;
}

/* Functions of different frames, so that each has a different row. */
#define LEVEL(n)                                                               \
	__attribute__((noinline, noclone)) static int level_##n(int depth)     \
	{                                                                      \
		char locals[16 + 8 * (n)];                                     \
		size_t one = 1;                                                \
		int result;                                                    \
                                                                               \
		__asm__ volatile("" : : "r"(locals) : "memory");               \
		if (is_through_libc)                                           \
			result = lfind(&depth, locals, &one, 1,                \
				       call_from_libc) != NULL;                \
		else                                                           \
			result = call_next(depth - 1);                         \
		__asm__ volatile("" : : "r"(locals) : "memory");               \
		return result + n;                                             \
	}
LEVEL(0)
LEVEL(1)
LEVEL(2)
LEVEL(3)
LEVEL(4)
LEVEL(5)
LEVEL(6)
LEVEL(7)

static int (*const levels[])(int) = { level_0, level_1, level_2, level_3,
				      level_4, level_5, level_6, level_7 };

static int call_next(int depth)
{
	if (depth <= 0)
		return take_snapshot();
	return levels[depth % 8](depth) + 1;
}

/* This process, and everything that its unwinding needs. */
struct target {
	struct fgt_image_cache *cache;
	struct fgt_maps *maps;
	struct fgt_unwinder *unwinder;
};

static void start(struct target *target)
{
	call_next(CALLS);
	if (fgt_image_cache_new(&target->cache) < 0 ||
	    capture_maps(getpid(), target->cache, &target->maps) < 0 ||
	    fgt_unwinder_new(target->cache, MAX_DEPTH, &target->unwinder) < 0)
		exit(1);
}

static void stop(struct target *target)
{
	fgt_unwinder_free(target->unwinder);
	fgt_maps_free(target->maps);
	fgt_image_cache_free(target->cache);
}

static void bench_frames(struct target *target, const char *name,
			 unsigned int rounds)
{
	struct fgt_unwind_result result;
	uint64_t begin_ns;

	for (unsigned int i = 0; i < 10; i++)
		fgt_unwind(target->unwinder, target->maps, &captured.snapshot,
			   frames, MAX_DEPTH + 2, &result);
	begin_ns = clock_ns();
	for (unsigned int i = 0; i < rounds; i++)
		fgt_unwind(target->unwinder, target->maps, &captured.snapshot,
			   frames, MAX_DEPTH + 2, &result);
	printf("unwind.%s %.1f ns a frame, %zu frames%s\n", name,
	       (double)(clock_ns() - begin_ns) / rounds / (double)result.count,
	       result.count, result.is_complete ? "" : ", truncated");
}

static void bench_chain(const char *name, bool through_libc,
			unsigned int rounds)
{
	struct target target;
	char slow[64];

	is_through_libc = through_libc;
	start(&target);
	bench_frames(&target, name, rounds);
	fgt_unwinder_leave_rows(target.unwinder);
	snprintf(slow, sizeof(slow), "%s_by_libunwind", name);
	bench_frames(&target, slow, rounds / 10 + 1);
	stop(&target);
}

static int compare_ns(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* Addresses in all of libc's code, each looked up for the first time. */
static void bench_rows(void)
{
	struct target target;
	const struct fgt_mapping *libc;
	struct fgt_view_places places = { 0 };
	struct fgt_view view;
	uint64_t begin_ns, first_ns, sum = 0, *ns;
	size_t count;

	start(&target);
	fgt_view_init(&view, target.maps, &captured.snapshot, &places,
		      fgt_image_cache_rows(target.cache));
	libc = fgt_maps_find(target.maps, (uint64_t)(uintptr_t)lfind);
	begin_ns = clock_ns();
	fgt_view_find_row(&view, (uint64_t)(uintptr_t)lfind);
	first_ns = clock_ns() - begin_ns;
	count = (libc->end - libc->start) / STRIDE;
	ns = calloc(count, sizeof(*ns));
	for (size_t i = 0; ns && i < count; i++) {
		begin_ns = clock_ns();
		fgt_view_find_row(&view, libc->start + i * STRIDE);
		ns[i] = clock_ns() - begin_ns;
		sum += ns[i];
	}
	if (ns) {
		qsort(ns, count, sizeof(*ns), compare_ns);
		printf("unwind.new_pc %.0f ns (median %llu, 99 %% %llu, most %llu; %zu addresses of libc)\n",
		       (double)sum / (double)count,
		       (unsigned long long)ns[count / 2],
		       (unsigned long long)ns[count * 99 / 100],
		       (unsigned long long)ns[count - 1], count);
	}
	printf("unwind.first_pc_of_libc %.0f us, its tables are read\n",
	       (double)first_ns / 1e3);
	printf("unwind.rows %zu bytes for these, %zu at most\n",
	       view.rows->used * sizeof(struct fgt_cfi_slot),
	       FGT_CFI_ROWS_BYTES_MAX);
	free(ns);
	stop(&target);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : ROUNDS;

	bench_chain("rows", false, rounds);
	bench_chain("rows_of_two_images", true, rounds);
	bench_rows();
	return 0;
}
