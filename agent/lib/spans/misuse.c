/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts misuse. Runs in the program's threads; the worker logs the line.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/lib/library.h"
#include "agent/lib/report.h"
#include "agent/lib/settings.h"
#include "agent/lib/spans/spans.h"

#define LINE_BYTES 256

static _Atomic uint64_t count;
/* A bit for each kind since the last stop. Relaxed: only the bits matter. */
static atomic_uint happened;

static const struct {
	int error;
	const char *line;
} kinds[] = {
	{ -ENOTCONN,
	  "a span was begun, ended or labelled on a thread without a "
	  "task: call fgt_task_begin() or fgt_task_enter() there" },
	{ -EALREADY, "a span was begun in a parent that has an active child: "
		     "end that child first, or begin a task" },
	{ -EBUSY,
	  "a span with an active child was ended: end the child first" },
	{ -ENOTEMPTY, "a task with active spans or child tasks was ended: end "
		      "them first" },
	{ -EINVAL,
	  "a task or span got an unknown number, a parent that has ended, "
	  "or a name that is empty or contains '#'" },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* A name must not break or extend the line of the log. */
static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

/* The first of its kind only, so that a loop of mistakes takes no lock. */
static void log_once(unsigned int kind, const char *name)
{
	char line[LINE_BYTES], culprit[FGT_SPAN_NAME_MAX + 1] = "";
	unsigned int bit = 1u << kind;

	if (atomic_fetch_or_explicit(&happened, bit, memory_order_relaxed) &
	    bit)
		return;
	/* fgt_misuse_started() logs it. */
	if (fgt_library_phase() == FGT_PHASE_IDLE ||
	    fgt_library_phase() == FGT_PHASE_FORKED)
		return;
	if (name)
		fgt_settings_copy_text(culprit, sizeof(culprit), name);
	clean(culprit);
	snprintf(line, sizeof(line), "%s (first: thread %d%s%s%s)",
		 kinds[kind].line, gettid(), name ? ", '" : "", culprit,
		 name ? "'" : "");
	fgt_report_line(NULL, line);
}

/* Without thread and name: both are unknown by now. */
void fgt_misuse_started(void)
{
	unsigned int bits =
		atomic_load_explicit(&happened, memory_order_relaxed);

	for (unsigned int kind = 0; kind < KINDS; kind++)
		if (bits & 1u << kind)
			fgt_report_line(NULL, kinds[kind].line);
}

void fgt_misuse_stopped(void)
{
	atomic_store_explicit(&happened, 0, memory_order_relaxed);
}

int fgt_misuse(int error, const char *name)
{
	unsigned int kind = 0;

	while (kind < KINDS && kinds[kind].error != error)
		kind++;
	if (kind == KINDS)
		return error;
	atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
	log_once(kind, name);
	return error;
}

uint64_t fgt_misuse_count(void)
{
	return atomic_load_explicit(&count, memory_order_relaxed);
}
