/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads of a slice were blocked in, with the reasons, by groups of
 * threads with similar names: the longest first.
 *
 * Runs in the main thread. AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_SUMMARY_SUMMARY_WAITS_H
#define FGT_AGENT_CLI_SUMMARY_SUMMARY_WAITS_H

#include <stdio.h>

#include "ringbuf/base/json.h"
#include "upload/why/group.h"

struct fgt_wait_row {
	uint32_t group; /* of its threads */
	uint32_t doing; /* number */
	uint32_t thread; /* index of the first one */
	uint32_t threads; /* so many did it */
	struct fgt_group_pids pids; /* of the slice's processes, if several */
	uint32_t wait; /* the most frequent reason, index + 1; 0: none */
	bool is_mixed; /* there are other holders */
	uint64_t samples, wait_samples; /* all, and those with that reason */
	const char *name, *function; /* of the first thread; where it stood */
};

struct fgt_summary_waits {
	const struct fgt_ring_slice *slice; /* borrowed */
	struct fgt_doings *doings;
	struct fgt_wait_row *rows; /* by samples, then name */
	uint32_t row_count;
	uint64_t samples; /* in which a thread was blocked */
};

/* slice: with symbols and state names; outlives it. -ENOMEM. */
int fgt_summary_waits_new(const struct fgt_ring_slice *slice,
			  struct fgt_summary_waits **ret_waits);
void fgt_summary_waits_free(struct fgt_summary_waits *waits);
FGT_DEFINE_AUTO(struct fgt_summary_waits *, fgt_summary_waits_free);

/* "worker-* (6)", "postgres (2: pid 12, 14)": the threads of a row. */
void fgt_summary_waits_threads(const struct fgt_summary_waits *waits,
			       const struct fgt_wait_row *row,
			       struct fgt_words *ret_words);
/* "lookup → pthread_mutex_lock: mutex g_lock, held by maint (tid 12)" */
void fgt_summary_waits_words(const struct fgt_summary_waits *waits,
			     const struct fgt_wait_row *row,
			     struct fgt_words *ret_words);

/* The longest one, in a line; nothing if there is none. */
void fgt_summary_waits_print_line(const struct fgt_summary_waits *waits,
				  FILE *file);
/* The top longest ones. */
void fgt_summary_waits_print(const struct fgt_summary_waits *waits,
			     uint32_t top, FILE *file);
/* "waits": […] into an open object. */
void fgt_summary_waits_put(const struct fgt_summary_waits *waits, uint32_t top,
			   struct fgt_json *json);

#endif
