/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts misuse. Runs in the program's threads; the line is told by the
 * library's worker.
 */
#include "agent/lib/misuse.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "agent/lib/tell.h"

static _Atomic uint64_t count;

/* The first of its kind is told here; fgt_tell() remembers, too, but under a
 * lock that a loop of mistakes should not take. */
static void tell_once(int error)
{
	static atomic_uint told;
	unsigned int bit = error == -ENOTCONN	 ? 1u
			   : error == -EALREADY	 ? 2u
			   : error == -EBUSY	 ? 4u
			   : error == -ENOTEMPTY ? 8u
						 : 16u;

	if (atomic_fetch_or_explicit(&told, bit, memory_order_relaxed) & bit)
		return;
	if (bit == 1)
		fgt_tell("a span was begun, ended or labelled on a thread that "
			 "has none: begin a task there, or enter one");
	else if (bit == 2)
		fgt_tell("a span was begun in one that has an active child "
			 "already: end that first, or begin a task");
	else if (bit == 4)
		fgt_tell("a span was to end whose child is active: end that "
			 "first");
	else if (bit == 8)
		fgt_tell("a task was to end that has active spans or child "
			 "tasks: end them first");
	else
		fgt_tell("a task or span got a number that is none or a parent "
			 "that has ended, or a name with '#' or without a "
			 "byte");
}

int fgt_misuse(int error)
{
	if (error != -ENOTCONN && error != -EALREADY && error != -EBUSY &&
	    error != -ENOTEMPTY && error != -EINVAL)
		return error;
	atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
	tell_once(error);
	return error;
}

uint64_t fgt_misuse_count(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}
