/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transaction, from its begin until it is delivered, and what all of them
 * share: rules and limits of keeping, and the outbox.
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
	uint64_t session; /* fgt_transactions_session() when it began */
	/* [FGT_TAGS_MAX], NULL before the first. Key and value of a tag are one
	 * block. */
	struct fgt_tag *tags;
	/* thread_runs: &own for the thread that began it, or
	 * [FGT_TRANSACTION_THREAD_RUNS] once there is another run. */
	struct fgt_thread_run own, *thread_runs;
	size_t thread_run_count;
	/* Protects thread_runs; and trace_id, which fgt_transaction_adopt()
	 * may read while another thread sets the parent. Locks of
	 * agent/lib/context nest inside. */
	pthread_mutex_t lock;
	/* From here on not zeroed at the begin. */
	char name[FGT_TRANSACTION_NAME + 1];
	char op[FGT_TRANSACTION_OP + 1];
	char status[FGT_TRANSACTION_STATUS + 1];
};

void fgt_transaction_free(struct fgt_transaction *transaction);

/* ---- All of the process (transactions.c) ------------------------------- */

/* Another number after each start, 0: nothing records. MT-Safe | AS-Safe */
uint64_t fgt_transactions_session(void);

/* Does what fgt_transaction_finish() does: takes ownership; end_ns is set. */
int fgt_transactions_finish(struct fgt_transaction *transaction);

/* MT-Safe | AS-Safe */
struct fgt_outbox *fgt_transactions_outbox(void);

#endif
