/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tiny capture for the tests of unwind: snapshots of threads of a child,
 * and of programs whose call chain is known.
 */
#ifndef FGT_TESTS_PROGRAMS_UNWIND_CAPTURE_H
#define FGT_TESTS_PROGRAMS_UNWIND_CAPTURE_H

#include "agent/unwind/arch/snapshot.h"
#include "agent/unwind/maps/maps.h"
#include "agent/unwind/unwinder.h"

/* A snapshot that owns its stack bytes. */
struct captured {
	struct fgt_snapshot snapshot;
	uint8_t stack[FGT_SNAPSHOT_MAX_BYTES];
	uint8_t other[FGT_SNAPSHOT_MAX_BYTES];
};

/* Stops the thread, takes all registers, lets it go. -errno */
int capture_by_ptrace(int32_t pid, int32_t tid, struct captured *captured);

/* What procfs has of a blocked thread: SP and PC, and if they are wanted the
 * registers of its call's arguments. -EAGAIN not blocked. */
int capture_by_syscall(int32_t pid, int32_t tid, bool has_args,
		       struct captured *captured);

/* Copies len bytes of the stack from SP on; cut at the mapping's end. */
int capture_stack(int32_t pid, size_t len, struct captured *captured);

int capture_maps(int32_t pid, struct fgt_image_cache *cache,
		 struct fgt_maps **ret_maps);

/* Unwinds, copying more of the stack as asked. The thread must not move. */
void capture_unwind(int32_t pid, struct fgt_unwinder *unwinder,
		    const struct fgt_maps *maps, struct captured *captured,
		    struct fgt_unwound_frame *frames, size_t capacity,
		    struct fgt_unwind_result *ret_result);

#endif
