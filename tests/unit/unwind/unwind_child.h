/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of tests/programs/unwind as children: started, listened to, ended.
 */
#ifndef FGT_TESTS_UNIT_UNWIND_CHILD_H
#define FGT_TESTS_UNIT_UNWIND_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/unwind/maps/maps.h"
#include "agent/unwind/unwinder.h"

#define CHILD_FUNCTIONS_MAX 32
#define CHILD_THREADS_MAX   256
#define CHILD_NAME_MAX	    32

struct child_function {
	char name[CHILD_NAME_MAX];
	uint64_t start;
};

struct child_thread {
	int32_t tid;
	char kind[CHILD_NAME_MAX];
	int depth;
};

/* A running program, its maps, and an unwinder for it. */
struct child {
	int32_t pid;
	FILE *input, *output;
	struct child_function functions[CHILD_FUNCTIONS_MAX];
	size_t function_count;
	struct child_thread threads[CHILD_THREADS_MAX];
	size_t thread_count;
	struct fgt_image_cache *cache;
	struct fgt_maps *maps;
	struct fgt_unwinder *unwinder;
};

/* Starts it and reads its output up to "ready". Fails the test on errors. */
void child_start(struct child *child, const char *program, const char *argument,
		 unsigned int max_depth);
void child_stop(struct child *child);

/* The name of the function that holds a frame's PC, by the functions that the
 * program printed: the nearest below in its own image; "" elsewhere. */
const char *child_function_at(const struct child *child,
			      const struct fgt_unwound_frame *frame);

/* Prints a stack where a test is about to fail. */
void child_print_stack(const struct child *child,
		       const struct fgt_unwound_frame *frames,
		       const struct fgt_unwind_result *result);

#endif
