/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stack is made of: frames, markers, thread states, images.
 * Plain types, and one question about a state.
 */
#ifndef FGT_RINGBUF_SLICE_FRAME_H
#define FGT_RINGBUF_SLICE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGT_IMAGE_NONE	    0u /* a marker, or code that no file backs */
#define FGT_BUILD_ID_MAX    32
#define FGT_IMAGE_PATH_MAX  1024
#define FGT_THREAD_NAME_MAX 16
#define FGT_STACK_DEPTH_MAX 1024 /* upper bound of sampling.max_depth */

/* Bits of fgt_frame.flags. */
enum fgt_frame_flag {
	/*
	 * address is a return address: names are looked up at address - 1.
	 * Not set on leaves and on frames that a signal interrupted.
	 */
	FGT_FRAME_CALLER = 1u << 0,
	/* Not code: address is an enum fgt_marker. */
	FGT_FRAME_MARKER = 1u << 1,
};

/* Frames that are not code: why a stack ends or what is missing. The numbers
 * are stable: they are in .fgt files. */
enum fgt_marker {
	FGT_MARKER_KERNEL = 1, /* leaf: on CPU in the kernel */
	FGT_MARKER_KERNEL_DENIED, /* leaf: ditto, but not allowed to look */
	FGT_MARKER_NOT_SAMPLED, /* leaf: ran; stack is the last one known */
	FGT_MARKER_ELIDED, /* middle: max_depth cut frames out here */
	FGT_MARKER_OVERFLOW, /* the ring had no room for this stack */
	/* At the root of a stack that does not reach the thread's start: */
	FGT_MARKER_TRUNCATED_NO_CFI, /* no unwind rule for a PC */
	FGT_MARKER_TRUNCATED_BAD_CFI, /* the rule was malformed */
	FGT_MARKER_TRUNCATED_NO_STACK, /* more stack than was copied */
	FGT_MARKER_TRUNCATED_NO_FP, /* frame pointer not recoverable */
	FGT_MARKER_TRUNCATED_BAD_PC, /* return address outside any code */
	FGT_MARKER_TRUNCATED_LOOP, /* SP did not move upward */
	FGT_MARKER_TRUNCATED_MOVED, /* the thread moved while being read */
	FGT_MARKER_TRUNCATED_UNREADABLE, /* not permitted, or gone */
	FGT_MARKER_TRUNCATED_LATE, /* its file has not been read yet */
	FGT_MARKER_COUNT
};

/* A frame as it is interned: where in which image. */
struct fgt_frame {
	/* ELF virtual address (PC - bias); a PC if there is no image. */
	uint64_t address;
	uint32_t image; /* ring or slice image id, FGT_IMAGE_NONE */
	uint32_t flags; /* enum fgt_frame_flag */
};

/*
 * What a thread was doing at a tick: 10 bits. A blocked thread's state is
 * FGT_STATE_SYSCALL_FIRST + the architecture's system call number.
 */
enum fgt_state {
	FGT_STATE_RUNNING = 0,
	FGT_STATE_PAGE_FAULT = 1, /* blocked outside a system call */
	FGT_STATE_STOPPED = 2, /* SIGSTOP, or a debugger */
	FGT_STATE_UNKNOWN = 3, /* existed, could not be read */
	FGT_STATE_RUNNABLE = 4, /* wants a CPU and has none */
	FGT_STATE_SYSCALL_FIRST = 64,
	FGT_STATE_MAX = 1022,
	FGT_STATE_GONE = 1023, /* in the log only: the thread ended */
};

/* Waits for something other than a CPU? */
static inline bool fgt_state_is_blocked(uint32_t state)
{
	return state != FGT_STATE_RUNNING && state != FGT_STATE_RUNNABLE &&
	       state != FGT_STATE_UNKNOWN;
}

/* One mapped ELF file (or [vdso], or anonymous code) of a target. */
struct fgt_image {
	char path[FGT_IMAGE_PATH_MAX]; /* as in maps, " (deleted)" removed */
	uint8_t build_id[FGT_BUILD_ID_MAX];
	uint32_t build_id_len; /* bytes, 0 if there is none */
	uint32_t is_deleted; /* the path no longer names this file */
	uint64_t bias; /* PC = bias + ELF virtual address */
	uint64_t start; /* lowest mapped address */
	uint64_t end; /* one past the highest mapped address */
	uint64_t dev; /* of the mapping; 0 with no file */
	uint64_t ino;
};

#endif
