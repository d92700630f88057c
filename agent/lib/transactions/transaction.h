/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transaction, as the library holds it between begin and the moment that
 * it has been delivered.
 */
#ifndef FGT_AGENT_LIB_TRANSACTIONS_TRANSACTION_H
#define FGT_AGENT_LIB_TRANSACTIONS_TRANSACTION_H

#include <pthread.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/transactions/outbox.h"
#include "agent/lib/transactions/trace_id.h"
#include "upload/format/parts/transaction.h"

#define FGT_TRANSACTION_STATUS 64 /* bytes */

struct fgt_transaction {
	struct fgt_outbox_item item; /* the first member: see _from_item() */
	struct fgt_transaction_facts facts; /* points to what is below */
	uint64_t session; /* that it was begun in, see transactions.h */
	/* FGT_TAGS_MAX, once there is one. Each key is one block, with its
	 * value behind it. */
	struct fgt_tag *tags;
	/* Of the thread that began it; FGT_TRANSACTION_THREAD_RUNS, once there is
	 * another one. */
	struct fgt_thread_run own, *thread_runs;
	size_t thread_run_count;
	/* Protects the thread_runs; innermost. */
	pthread_mutex_t lock;
	/* From here on nothing is written before it is needed. */
	char name[FGT_TRANSACTION_NAME + 1];
	char op[FGT_TRANSACTION_OP + 1];
	char status[FGT_TRANSACTION_STATUS + 1];
};

void fgt_transaction_free(struct fgt_transaction *transaction);

/* The one that a item is of. */
struct fgt_transaction *fgt_transaction_from_item(struct fgt_outbox_item *item);

#endif
