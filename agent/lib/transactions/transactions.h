/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all transactions of the process: rules and limits of keeping, and
 * the outbox.
 */
#ifndef FGT_AGENT_LIB_TRANSACTIONS_TRANSACTIONS_H
#define FGT_AGENT_LIB_TRANSACTIONS_TRANSACTIONS_H

#include <stdint.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/transactions/outbox.h"

/* Another number after each start, 0: nothing records. MT-Safe | AS-Safe */
uint64_t fgt_transactions_session(void);

/* As fgt_transaction_finish(): takes ownership; end_ns is set. */
int fgt_transactions_finish(struct fgt_transaction *transaction);

/* MT-Safe | AS-Safe */
struct fgt_outbox *fgt_transactions_outbox(void);

#endif
