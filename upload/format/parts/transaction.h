/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts that a program gives of one of its transactions, for Sentry's
 * envelope. Plain data; libfgtrace includes it, too.
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_TRANSACTION_H
#define FGT_UPLOAD_FORMAT_PARTS_TRANSACTION_H

#include <stddef.h>
#include <stdint.h>

#define FGT_TAGS_MAX		    32
#define FGT_TAG_KEY_MAX		    32 /* bytes */
#define FGT_TAG_VALUE_MAX	    200
#define FGT_TRANSACTION_NAME	    200
#define FGT_TRANSACTION_OP	    64
#define FGT_TRANSACTION_THREAD_RUNS 256

struct fgt_tag {
	const char *key, *value;
};

/* A time in which a thread worked for the transaction. */
struct fgt_thread_run {
	int32_t tid;
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC; to_ns 0: to its end */
};

/*
 * Texts and arrays are borrowed; NULL, "" and 0: not given. Without a name the
 * facts are of no transaction, and only release, environment, event_id and
 * ordered_ns count: fgt_facts_of_transaction().
 */
struct fgt_transaction_facts {
	const char *name, *op, *status;
	const char *level; /* Sentry's: "fatal" of a crash */
	const char *release, *environment;
	char event_id[33], trace_id[33]; /* hex, terminated */
	uint64_t ordered_ns; /* CLOCK_REALTIME: {seq}, the same of each try */
	char span_id[17], parent_span_id[17];
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	int32_t active_tid; /* the thread that began it */
	const struct fgt_tag *tags;
	size_t tag_count;
	/* The threads that worked for it, and when: their spans of that time
	 * are its spans. Without all_threads only their stacks are written.
	 * thread_run_count 0: all threads. */
	int all_threads;
	const struct fgt_thread_run *thread_runs;
	size_t thread_run_count;
};

/* NULL if the facts are of no transaction. facts may be NULL. */
static inline const struct fgt_transaction_facts *
fgt_facts_of_transaction(const struct fgt_transaction_facts *facts)
{
	return facts && facts->name ? facts : NULL;
}

#endif
