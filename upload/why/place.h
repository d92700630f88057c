/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a stack stands in the program: the innermost function that belongs to
 * the program itself, and the function of the system's libraries that it
 * called.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_UPLOAD_WHY_PLACE_H
#define FGT_UPLOAD_WHY_PLACE_H

#include <stdbool.h>

#include "ringbuf/slice/slice.h"

#define FGT_PLACE_CALLERS 2u

/* String ids of the slice, 0: there is none. */
struct fgt_place {
	/* The innermost function of the program; without one, the innermost
	 * function of the stack. */
	uint32_t function;
	uint32_t call; /* the library's function that it called */
	/* Functions of the program that called it, the innermost first; one
	 * that calls itself counts once. */
	uint32_t callers[FGT_PLACE_CALLERS];
	bool is_own; /* function is the program's */
};

/*
 * The places of all nodes, of malloc(). Libraries of the system are libc, the
 * loader, and the run-time libraries of compilers; functions of the namespaces
 * std, core and alloc (C++, Rust) and runtime (Go) count as theirs, wherever
 * they are linked to. Needs symbols. -ENOMEM.
 */
int fgt_places_new(const struct fgt_ring_slice *slice,
		   struct fgt_place **ret_places);

/* node: may be FGT_NODE_NONE. */
struct fgt_place fgt_place_of(const struct fgt_place *places, uint32_t node);

/* Whether a path names such a library. */
bool fgt_place_is_library(const char *path);
/* Whether a function's name is of such a namespace, or a thread's first
 * function (_start). */
bool fgt_place_is_runtime(const char *function);

#endif
