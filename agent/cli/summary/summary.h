/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice in a few lines: the hottest functions, and what each thread did; as
 * a sentence, tables, or one JSON object.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_SUMMARY_SUMMARY_H
#define FGT_AGENT_CLI_SUMMARY_SUMMARY_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/cli/summary/summary_groups.h"
#include "agent/cli/summary/summary_names.h"
#include "agent/cli/summary/summary_waits.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/slice/slice.h"
#include "upload/deliver/dispatch.h"

#define FGT_SUMMARY_STATES 3 /* of a thread, the most frequent ones */

/*
 * A tick of one thread is a sample. Time in the kernel counts as the self time
 * of the function that entered it. A function that libc has by several names
 * ("write", "__GI___libc_write") is one; those in which every thread begins are
 * left out unless they ran themselves. All text is borrowed from the slice.
 */
struct fgt_summary_function {
	uint32_t id; /* fgt_summary_function_id() */
	const char *name;
	uint64_t self; /* running samples with it as the innermost function */
	uint64_t total; /* running samples with it anywhere on the stack */
	uint64_t wall; /* all samples, in any state, with it */
};

struct fgt_summary_thread {
	uint32_t number; /* index in the slice */
	int32_t tid, pid;
	const char *name;
	uint64_t samples;
	uint64_t running;
	uint64_t runnable; /* wanted a CPU and had none */
	uint64_t complete; /* stacks that reach the thread's start */
	struct {
		const char *name;
		uint64_t samples;
	} states[FGT_SUMMARY_STATES]; /* all others, most frequent first */
	uint32_t state_count; /* of states[] in use */
};

struct fgt_summary {
	/* Sums over the threads. */
	uint64_t samples, running, runnable, complete;
	uint64_t not_sampled; /* of running: with the last stack known */
	uint64_t kernel_denied; /* of running: in a kernel not to be sampled */
	double covered_s;
	struct fgt_summary_function *functions; /* by self, total, name */
	uint32_t function_count; /* all that were running */
	struct fgt_summary_thread *threads; /* by running, name, tid */
	uint32_t thread_count;
	bool has_processes; /* several */
	struct fgt_summary_group *groups;
	uint32_t group_count;
	struct fgt_summary_waits *waits;
	struct fgt_nameless nameless;
};

/* slice must have its symbols and state names. -ENOMEM. */
int fgt_summary_new(const struct fgt_ring_slice *slice,
		    struct fgt_summary **ret_summary);
void fgt_summary_free(struct fgt_summary *summary);
FGT_DEFINE_AUTO(struct fgt_summary *, fgt_summary_free);

/* The string that stands for all names of the function of that name. */
uint32_t fgt_summary_function_id(const struct fgt_ring_slice *slice,
				 uint32_t name);

/* part of whole in percent; 0 of 0 is 0. */
double fgt_percent(uint64_t part, uint64_t whole);

/* ---- Printing ----------------------------------------------------------- */

/* What became of the slice; NULL or zero where it does not apply. */
struct fgt_summary_fate {
	const char *path; /* of the file written, "-" for standard output */
	const char *format; /* its name */
	uint64_t bytes;
	const struct fgt_dispatch_outcome *upload;
	enum fgt_destination_kind kind; /* of where it went */
	bool is_spooled; /* not uploaded yet */
	const char *upload_error;
	char kept[PATH_MAX]; /* where it is instead; "": nowhere */
};

/* "5.0 s of redis-server (1234): 4 threads, 505 ticks at 101.0 Hz, …" */
void fgt_summary_print_line(const struct fgt_ring_slice *slice,
			    const struct fgt_summary *summary, FILE *file);

/*
 * Of threads that ended before they were looked at, and how much CPU time they
 * used; "" if there is next to nothing of it. threads 0: they were not counted,
 * and the time includes what other threads used after their last look. Returns
 * text.
 */
#define FGT_BRIEF_TEXT_MAX 160
const char *fgt_brief_text(uint64_t threads, uint64_t cpu_ns, char *text);

/* What it means that so many ticks are missing; "" if they are few. Returns
 * text. */
#define FGT_MISSED_TEXT_MAX 224
const char *fgt_missed_text(uint64_t ticks, uint64_t missed, char *text);

/* The top hottest functions and longest waits, then so many threads; 0: no such
 * table. */
void fgt_summary_print_tables(const struct fgt_summary *summary, uint32_t top,
			      uint32_t threads, FILE *file);

/* "  and 3 more: --top 0 shows all"; nothing if there are none. */
void fgt_print_more(uint32_t more, const char *flag, FILE *file);

/* One JSON object with all of it, ended by a newline; errno of write(). */
int fgt_summary_print_json(const struct fgt_ring_slice *slice,
			   const struct fgt_summary *summary, uint32_t top,
			   const struct fgt_summary_fate *fate, FILE *file);

/*
 * Text from outside: control characters and what is not UTF-8 become '?'. On a
 * terminal more than so many characters are cut, with "..." at the end. Returns
 * the characters printed.
 */
size_t fgt_print_text(FILE *file, const char *text, size_t columns);
/* The same, filled up with blanks. */
void fgt_print_padded(FILE *file, const char *text, size_t columns);
/* Widens a column, so that the text of one of its rows fits; on a terminal to
 * 40 at most. */
void fgt_column_fit(FILE *file, const char *text, size_t *columns);

#endif
