/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this process says things of itself: its span log, if it has one, and
 * each thread's place in it.
 */
#ifndef FGT_AGENT_LIB_SPANS_JOURNAL_H
#define FGT_AGENT_LIB_SPANS_JOURNAL_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "ringbuf/spans/span_log.h"

/* What a thread knows; its own. */
struct fgt_caller {
	int32_t tid;
	uint64_t task; /* its current one, perhaps ended; 0: none */
	struct fgt_span_writer writer;
};

/* The only variable of ours in the threads of the program. Initial-exec: read
 * without a call. */
extern __thread struct fgt_caller *fgt_caller_known
	__attribute__((tls_model("initial-exec")));

/* Set in the child of a fork, until it starts the library itself. */
extern atomic_bool fgt_journal_is_forked;

int fgt_thread_make(void);

/* What this thread knows. -ECHILD, -ENOMEM. MT-Safe | AS-Unsafe */
static inline int fgt_caller_get(struct fgt_caller **ret_thread)
{
	/* Relaxed: a child has one thread when it is set. */
	if (atomic_load_explicit(&fgt_journal_is_forked, memory_order_relaxed))
		return -ECHILD;
	if (!fgt_caller_known) {
		int r = fgt_thread_make();

		if (r < 0)
			return r;
	}
	*ret_thread = fgt_caller_known;
	return 0;
}

/* Of this thread, without asking the kernel each time. MT-Safe | AS-Unsafe */
static inline int32_t fgt_thread_tid(void)
{
	struct fgt_caller *self;

	return fgt_caller_get(&self) < 0 ? (int32_t)gettid() : self->tid;
}

/*
 * Makes the log if there is none yet, and its memfd if that was closed. The
 * log stays until the process ends, so that threads need not ask whether it is
 * still there. As fgt_span_log_new() and _share().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_journal_open(size_t size_bytes);

/* Nobody records this process any more: closes the memfd. MT-Safe */
void fgt_journal_unshare(void);

/* NULL: there is none. MT-Safe | AS-Safe */
struct fgt_span_log *fgt_journal_log(void);

/* Appends, if there is a log. tid of the record is the caller's to fill. */
void fgt_journal_put(struct fgt_caller *self,
		     const struct fgt_span_record *record);

/* The child of a fork begins anew. */
void fgt_journal_resume(void);

/*
 * Bytes of a text that are kept: at most max, no character in two. 0 for NULL.
 */
size_t fgt_journal_text_len(const char *text, size_t max);

#endif
