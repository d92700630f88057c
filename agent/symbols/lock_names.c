/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks by the functions that wait for them: of Rust, and of glibc those that the
 * kernel has refused. Pure.
 */
#include "agent/symbols/lock_names.h"

#include <string.h>

#define DEPTH_MAX 8 /* frames between the wait and the lock's function */

/* "<std::sys::sync::mutex::futex::Mutex>::lock_contended" */
static bool is_lock(const char *function)
{
	const char *mutex = strstr(function, "Mutex");

	return mutex && (strstr(mutex, "::lock_contended") ||
			 strstr(mutex, "::lock_slow"));
}

static bool is_endless_wait(const char *function)
{
	return !strncmp(function, "__futex_abstimed_wait",
			strlen("__futex_abstimed_wait"));
}

/* It waits for nothing, for ever: FUTEX_LOCK_PI has failed with EDEADLK, or with
 * ESRCH. */
static bool is_refusal(const char *function)
{
	return strcmp(function, "__pthread_mutex_lock_full") == 0;
}

static bool is_any_in(const struct fgt_ring_slice *slice, uint32_t node,
		      bool (*is_wanted)(const char *function))
{
	for (int depth = 0; depth < DEPTH_MAX && node != FGT_NODE_NONE;
	     depth++, node = slice->nodes[node].parent) {
		const struct fgt_slice_frame *frame =
			&slice->frames[slice->nodes[node].frame];

		for (uint32_t i = 0; i < frame->symbol_count; i++)
			if (is_wanted(fgt_slice_string(
				    slice,
				    slice->symbols[frame->symbol_first + i]
					    .function)))
				return true;
	}
	return false;
}

void fgt_lock_names_apply(struct fgt_ring_slice *slice)
{
	for (uint32_t i = 0; i < slice->run_count; i++) {
		const struct fgt_run *run = &slice->runs[i];
		struct fgt_slice_wait *wait =
			run->wait ? &slice->waits[run->wait - 1] : NULL;

		if (!wait || wait->kind != FGT_WAIT_NOTIFICATION)
			continue;
		if (is_any_in(slice, run->stack, is_lock)) {
			wait->kind = FGT_WAIT_MUTEX;
		} else if (is_any_in(slice, run->stack, is_refusal) &&
			   is_any_in(slice, run->stack, is_endless_wait)) {
			wait->kind = FGT_WAIT_PI_LOCK;
			wait->address = wait->object = 0; /* on its stack */
		}
	}
}
