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
/* A bit for each kind since the last stop. Relaxed: they carry nothing. */
static atomic_uint happened;

static const struct {
	int error; /* 0: any other */
	const char *line;
} kinds[] = {
	{ -ENOTCONN, "a span was begun, ended or labelled on a thread that has "
		     "none: begin a task there, or enter one" },
	{ -EALREADY, "a span was begun in one that has an active child "
		     "already: end that first, or begin a task" },
	{ -EBUSY, "a span was to end whose child is active: end that first" },
	{ -ENOTEMPTY, "a task was to end that has active spans or child tasks: "
		      "end them first" },
	{ 0, "a task or span got a number that is none or a parent that has "
	     "ended, or a name with '#' or without a byte" },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The first of its kind is told here; fgt_tell_line() remembers, too, but under
 * a lock that a loop of mistakes should not take. */
static void tell_once(int error)
{
	unsigned int kind = 0, bit;

	while (kind < KINDS - 1 && kinds[kind].error != error)
		kind++;
	bit = 1u << kind;
	if (!(atomic_fetch_or_explicit(&happened, bit, memory_order_relaxed) &
	      bit))
		fgt_tell_line(NULL, kinds[kind].line);
}

/* What was told while nobody listened has been forgotten. */
void fgt_misuse_started(void)
{
	unsigned int bits =
		atomic_load_explicit(&happened, memory_order_relaxed);

	for (unsigned int kind = 0; kind < KINDS; kind++)
		if (bits & 1u << kind)
			fgt_tell_line(NULL, kinds[kind].line);
}

void fgt_misuse_stopped(void)
{
	atomic_store_explicit(&happened, 0, memory_order_relaxed);
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
