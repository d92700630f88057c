/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library that is not there: what the HTTP example calls, without an
 * effect, so that the benchmark's first row is the same program. The shared
 * library beside it differs in what its functions do. Embedded, a thread wakes
 * as often as a sampler does, and asks what none can do without.
 */
#include "agent/lib/fgtrace.h"

#include <errno.h>
#include <pthread.h>

#include "tests/bench/bare_tick.h"

static void *tick(void *nothing)
{
	bare_tick_run_asking();
	return nothing;
}

int fgt_start(const struct fgt_options *options)
{
	pthread_t thread;

	if (options->mode != FGT_EMBEDDED)
		return -ENOENT;
	return -pthread_create(&thread, NULL, tick, NULL);
}

void fgt_stop(void)
{
}

int fgt_flush(unsigned int timeout_ms)
{
	(void)timeout_ms;
	return 0;
}

int fgt_get_status(struct fgt_status *ret_status)
{
	(void)ret_status;
	return -EINVAL;
}

struct fgt_transaction *fgt_transaction_begin(const char *name, const char *op)
{
	(void)name;
	(void)op;
	return NULL;
}

int fgt_transaction_set_parent(struct fgt_transaction *transaction,
			       const char *header)
{
	(void)transaction;
	(void)header;
	return 0;
}

int fgt_transaction_set_status(struct fgt_transaction *transaction,
			       const char *status)
{
	(void)transaction;
	(void)status;
	return 0;
}

int fgt_transaction_finish(struct fgt_transaction *transaction)
{
	(void)transaction;
	return 0;
}

int fgt_task_begin(const char *name, uint64_t parent, uint64_t *ret_task)
{
	(void)name;
	(void)parent;
	(void)ret_task;
	return 0;
}

int fgt_task_end(uint64_t task)
{
	(void)task;
	return 0;
}

int fgt_span_begin(const char *name, uint64_t parent, uint64_t *ret_span)
{
	(void)name;
	(void)parent;
	(void)ret_span;
	return 0;
}

int fgt_span_end(uint64_t span)
{
	(void)span;
	return 0;
}
