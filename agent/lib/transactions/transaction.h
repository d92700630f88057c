/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transaction, from its begin until it is delivered.
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
	struct fgt_outbox_item item; /* the first member */
	struct fgt_transaction_facts facts; /* points to members below */
	uint64_t session; /* in which it began, see transactions.h */
	/* [FGT_TAGS_MAX], NULL before the first. Key and value of a tag are one
	 * block. */
	struct fgt_tag *tags;
	/* thread_runs: &own for the thread that began it, or
	 * [FGT_TRANSACTION_THREAD_RUNS] once there is another run. */
	struct fgt_thread_run own, *thread_runs;
	size_t thread_run_count;
	/* Protects thread_runs. Innermost. */
	pthread_mutex_t lock;
	/* From here on not zeroed at the begin. */
	char name[FGT_TRANSACTION_NAME + 1];
	char op[FGT_TRANSACTION_OP + 1];
	char status[FGT_TRANSACTION_STATUS + 1];
};

void fgt_transaction_free(struct fgt_transaction *transaction);

#endif
