/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops a process's first thread many times and unwinds each snapshot
 * twice: by rows, and by libunwind alone.
 *
 * usage: compare_rows PID SNAPSHOTS
 *
 * Prints how many stacks were equal, how many differed in which way, the first
 * few that did, and what a frame costs either way. Only for
 * processes of the tests: it stops them at any instruction.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/unwind/cfi/cfi_rows.h"
#include "tests/programs/unwind/unwind_capture.h"

#define MAX_DEPTH	256
#define STEPS_AFTER	1 /* instructions after each stop: epilogues, too */
#define PRINTED_MAX	5
#define INTERVAL_MAX_US 120

/* How two stacks of one snapshot can differ. */
enum verdict {
	EQUAL,
	BOTH_COMPLETE,
	ROWS_COMPLETE,
	LIBUNWIND_COMPLETE,
	NEITHER_COMPLETE,
	VERDICTS
};

static const char *const verdict_names[VERDICTS] = { "equal", "both_complete",
						     "rows_complete",
						     "libunwind_complete",
						     "neither_complete" };

/* One way to unwind, and its stack of the last snapshot. */
struct way {
	struct fgt_unwinder *unwinder;
	struct fgt_unwind_result result;
	struct fgt_unwound_frame frames[MAX_DEPTH + 2];
	uint64_t ns, frame_count; /* over all */
};

static struct way rows, libunwind;
static struct captured captured;
static struct fgt_image_cache *cache;
static struct fgt_maps *maps;
static int32_t pid;
static uint64_t counts[VERDICTS], complete_count;

static void fail(const char *what)
{
	fprintf(stderr, "compare_rows: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Waits for a stop that this program asked for; the process gets its own
 * signals. */
static void wait_for_stop(int request)
{
	int status;

	for (;;) {
		if (waitpid(pid, &status, __WALL) < 0 || !WIFSTOPPED(status)) {
			errno = ESRCH;
			fail("the process ended");
		}
		if (status >> 16 == PTRACE_EVENT_STOP ||
		    (request == PTRACE_SINGLESTEP &&
		     WSTOPSIG(status) == SIGTRAP))
			return;
		if (ptrace(request, pid, 0, WSTOPSIG(status)) < 0)
			fail("continuing with a signal");
	}
}

static void take_snapshot(void)
{
	struct user_regs_struct regs;
	struct iovec vector = { &regs, sizeof(regs) };

	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &vector) < 0)
		fail("registers");
	memset(&captured.snapshot, 0, sizeof(captured.snapshot));
	fgt_arch_host.regs_from_ptrace(&regs, &captured.snapshot.regs);
	if (capture_stack(pid, FGT_SNAPSHOT_MAX_BYTES, &captured) < 0)
		fail("the stack");
}

static void unwind(struct way *way)
{
	uint64_t begin_ns;

	capture_unwind(pid, way->unwinder, maps, &captured, way->frames,
		       MAX_DEPTH + 2, &way->result);
	/* Unwound again for the figures: the first time may have read rules. */
	begin_ns = clock_ns();
	fgt_unwind(way->unwinder, maps, &captured.snapshot, way->frames,
		   MAX_DEPTH + 2, &way->result);
	way->ns += clock_ns() - begin_ns;
	way->frame_count += way->result.count;
}

static void print_stack(const char *name, const struct way *way)
{
	printf("# %s, reason %d:\n", name, (int)way->result.reason);
	for (size_t i = 0; i < way->result.count; i++) {
		uint64_t pc = way->frames[i].pc;
		const struct fgt_mapping *mapping = fgt_maps_find(maps, pc);
		const struct fgt_image *image = NULL;

		if (mapping && mapping->image != FGT_MAPS_NO_IMAGE)
			image = &maps->images[mapping->image].image;
		printf("#   %" PRIx64 " flags %u %s\n",
		       image ? pc - image->bias : pc, way->frames[i].flags,
		       image ? image->path : "");
	}
}

static enum verdict compare(void)
{
	if (rows.result.count == libunwind.result.count &&
	    rows.result.reason == libunwind.result.reason &&
	    !memcmp(rows.frames, libunwind.frames,
		    rows.result.count * sizeof(rows.frames[0])))
		return EQUAL;
	if (rows.result.is_complete)
		return libunwind.result.is_complete ? BOTH_COMPLETE
						    : ROWS_COMPLETE;
	return libunwind.result.is_complete ? LIBUNWIND_COMPLETE
					    : NEITHER_COMPLETE;
}

static void read_maps(void)
{
	fgt_maps_free(maps);
	maps = NULL;
	if (capture_maps(pid, cache, &maps) < 0)
		fail("maps");
	fgt_unwinder_forget(rows.unwinder);
	fgt_unwinder_forget(libunwind.unwinder);
}

static void check_snapshot(void)
{
	enum verdict verdict;

	take_snapshot();
	unwind(&rows);
	if (rows.result.need_maps) {
		read_maps();
		unwind(&rows);
	}
	unwind(&libunwind);
	verdict = compare();
	if (verdict != EQUAL && counts[verdict] < PRINTED_MAX) {
		printf("# %s\n", verdict_names[verdict]);
		print_stack("rows", &rows);
		print_stack("libunwind", &libunwind);
	}
	counts[verdict]++;
	complete_count += rows.result.is_complete;
}

static void run(uint64_t wanted)
{
	uint64_t done = 0;

	if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0)
		fail("ptrace");
	while (done < wanted) {
		if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) < 0)
			fail("interrupt");
		wait_for_stop(PTRACE_CONT);
		check_snapshot();
		done++;
		for (int i = 0; i < STEPS_AFTER && done < wanted; i++) {
			if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) < 0)
				fail("step");
			wait_for_stop(PTRACE_SINGLESTEP);
			check_snapshot();
			done++;
		}
		if (ptrace(PTRACE_CONT, pid, 0, 0) < 0)
			fail("continue");
		usleep((useconds_t)random() % INTERVAL_MAX_US);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: compare_rows PID SNAPSHOTS\n");
		return 2;
	}
	pid = atoi(argv[1]);
	if (fgt_image_cache_new(&cache) < 0 ||
	    fgt_unwinder_new(cache, MAX_DEPTH, &rows.unwinder) < 0 ||
	    fgt_unwinder_new(cache, MAX_DEPTH, &libunwind.unwinder) < 0)
		return 1;
	fgt_unwinder_leave_rows(libunwind.unwinder);
	read_maps();
	run(strtoull(argv[2], NULL, 10));
	for (int i = 0; i < VERDICTS; i++)
		printf("%s %" PRIu64 "\n", verdict_names[i], counts[i]);
	printf("complete %" PRIu64 "\n", complete_count);
	printf("frames %" PRIu64 "\n", rows.frame_count);
	/* How many addresses the stacks went through. */
	printf("addresses %zu\n", fgt_image_cache_rows(cache)->used *
					  sizeof(struct fgt_cfi_slot) /
					  sizeof(struct fgt_cfi_slot));
	printf("rows_ns_per_frame %.1f\n",
	       (double)rows.ns / (double)rows.frame_count);
	printf("libunwind_ns_per_frame %.1f\n",
	       (double)libunwind.ns / (double)libunwind.frame_count);
	fgt_unwinder_free(rows.unwinder);
	fgt_unwinder_free(libunwind.unwinder);
	fgt_maps_free(maps);
	fgt_image_cache_free(cache);
	return 0;
}
