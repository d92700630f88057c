/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The span log of the process and its threads. Runs in the program's threads.
 * Must not wait, except for memory at the first call of a thread.
 */
#include "agent/lib/spans/journal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/lib/own.h"
#include "agent/lib/spans/task_table.h"

__thread struct fgt_caller *fgt_caller_known
	__attribute__((tls_model("initial-exec")));

atomic_bool fgt_journal_is_forked;

static struct {
	pthread_once_t once;
	pthread_key_t key; /* its destructor runs when a thread ends */
	int key_error;
	pthread_mutex_t opening; /* one thread makes the log. Outermost */
	_Atomic(struct fgt_span_log *) log;
} journal = {
	.once = PTHREAD_ONCE_INIT,
	.opening = PTHREAD_MUTEX_INITIALIZER,
};

struct fgt_span_log *fgt_journal_log(void)
{
	/* Acquire: pairs with the release in fgt_journal_open(). */
	return atomic_load_explicit(&journal.log, memory_order_acquire);
}

/* ---- Threads ------------------------------------------------------------ */

/* The thread's chunk of the log needs no cleanup: see span_log.h. */
static void thread_ended(void *thread)
{
	struct fgt_caller *self = thread;

	fgt_caller_known = NULL;
	fgt_thread_trace_free(self->trace);
	free(self);
}

/* The log's memory is shared with the parent, which still writes to it. */
static void in_child(void)
{
	struct fgt_span_log *log = fgt_journal_log();

	atomic_store_explicit(&fgt_journal_is_forked, true,
			      memory_order_relaxed);
	atomic_store_explicit(&journal.log, NULL, memory_order_relaxed);
	if (log)
		fgt_span_log_abandon(log);
	pthread_mutex_init(&journal.opening, NULL);
	fgt_task_table_forked();
	fgt_thread_trace_forked(fgt_caller_known ? fgt_caller_known->trace
						 : NULL);
	if (fgt_caller_known)
		*fgt_caller_known =
			(struct fgt_caller){ .tid = gettid(),
					     .trace = fgt_caller_known->trace };
}

static void prepare(void)
{
	journal.key_error = pthread_key_create(&journal.key, thread_ended);
	(void)pthread_atfork(NULL, NULL, in_child);
}

int fgt_caller_make(void)
{
	struct fgt_caller *thread;

	(void)pthread_once(&journal.once, prepare);
	if (journal.key_error)
		return -journal.key_error;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return -ENOMEM;
	thread->tid = gettid();
	if (pthread_setspecific(journal.key, thread)) {
		free(thread);
		return -ENOMEM;
	}
	fgt_caller_known = thread;
	return 0;
}

void fgt_journal_resume(void)
{
	if (!atomic_load_explicit(&fgt_journal_is_forked, memory_order_relaxed))
		return;
	fgt_task_table_resume();
	atomic_store_explicit(&fgt_journal_is_forked, false,
			      memory_order_relaxed);
}

/* ---- The log ------------------------------------------------------------ */

int fgt_journal_open(void)
{
	FGT_UNCANCELLED;
	struct fgt_span_log *log;
	int r;

	(void)pthread_once(&journal.once, prepare);
	pthread_mutex_lock(&journal.opening);
	log = fgt_journal_log();
	r = log ? fgt_span_log_share(log)
		: fgt_span_log_new(FGT_SPAN_LOG_BYTES_DEFAULT, &log);
	/* Release: pairs with the acquire in fgt_journal_log(). */
	if (r == 0)
		atomic_store_explicit(&journal.log, log, memory_order_release);
	pthread_mutex_unlock(&journal.opening);
	return r;
}

int fgt_journal_fd(void)
{
	struct fgt_span_log *log = fgt_journal_log();

	if (log)
		(void)fgt_journal_open();
	return log ? fgt_span_log_fd(log) : -1;
}

void fgt_journal_unshare(void)
{
	struct fgt_span_log *log;

	pthread_mutex_lock(&journal.opening);
	log = fgt_journal_log();
	if (log)
		fgt_span_log_unshare(log);
	pthread_mutex_unlock(&journal.opening);
}

void fgt_journal_put(struct fgt_caller *self,
		     const struct fgt_span_record *record)
{
	struct fgt_span_log *log = fgt_journal_log();

	if (log)
		(void)fgt_span_log_append(log, &self->writer, record);
}
