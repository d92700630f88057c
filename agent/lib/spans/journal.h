/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span log of this process, if it has one, and what each thread that calls
 * the library needs to write to it.
 */
#ifndef FGT_AGENT_LIB_SPANS_JOURNAL_H
#define FGT_AGENT_LIB_SPANS_JOURNAL_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "agent/lib/context/thread_trace.h"
#include "ringbuf/spans/span_log.h"

/* One thread of the program; used by that thread only. */
struct fgt_caller {
	int32_t tid;
	uint64_t task; /* the current one, perhaps ended; 0: none */
	struct fgt_span_writer writer;
	struct fgt_thread_trace *trace; /* NULL before its first one */
};

/* Initial-exec: read without a call. The library's other thread-local variable
 * is for readers of contexts: agent/lib/context/thread_trace.h. */
extern __thread struct fgt_caller *fgt_caller_known
	__attribute__((tls_model("initial-exec")));

/* Set in the child of a fork, until it starts the library itself. */
extern atomic_bool fgt_journal_is_forked;

int fgt_caller_make(void);

/* The calling thread. -ECHILD, -ENOMEM. MT-Safe | AS-Unsafe */
static inline int fgt_caller_get(struct fgt_caller **ret_thread)
{
	/* Relaxed: a child has one thread when it is set. */
	if (atomic_load_explicit(&fgt_journal_is_forked, memory_order_relaxed))
		return -ECHILD;
	if (!fgt_caller_known) {
		int r = fgt_caller_make();

		if (r < 0)
			return r;
	}
	*ret_thread = fgt_caller_known;
	return 0;
}

/* The thread id, without a system call each time. MT-Safe | AS-Unsafe */
static inline int32_t fgt_caller_tid(void)
{
	struct fgt_caller *self;

	return fgt_caller_get(&self) < 0 ? (int32_t)gettid() : self->tid;
}

/*
 * Makes the log if there is none, and its memfd if that was closed. The log
 * stays until the process ends, so that threads use it without a check. Errors
 * of fgt_span_log_new() and _share().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_journal_open(void);

/* The memfd of the log, for a recorder: sealed against shrinking, borrowed, a
 * new one if the program has closed it; -1: none. MT-Safe | AS-Unsafe */
int fgt_journal_fd(void);

/* Recording has stopped: closes the memfd. MT-Safe */
void fgt_journal_unshare(void);

/* NULL: there is none. MT-Safe | AS-Safe */
struct fgt_span_log *fgt_journal_log(void);

/* Appends, if there is a log. The caller fills in the tid of the record. */
void fgt_journal_put(struct fgt_caller *self,
		     const struct fgt_span_record *record);

/* In the child of a fork, when it starts the library. */
void fgt_journal_resume(void);

#endif
