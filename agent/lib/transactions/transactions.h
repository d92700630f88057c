/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all transactions of the process have in common: the rules of keeping,
 * their limits, the outbox. For transaction.c and slice_upload.c; the library
 * sees the parts only.
 */
#ifndef FGT_AGENT_LIB_TRANSACTIONS_TRANSACTIONS_H
#define FGT_AGENT_LIB_TRANSACTIONS_TRANSACTIONS_H

#include <stdint.h>

#include "agent/lib/fgtrace.h"
#include "agent/lib/transactions/outbox.h"

/* A number for each start, 0: nothing records. MT-Safe | AS-Safe */
uint64_t fgt_transactions_session(void);

/* As fgt_transaction_finish(): takes it over, its end has been noted. */
int fgt_transactions_finish(struct fgt_transaction *transaction);

/* MT-Safe | AS-Safe */
struct fgt_outbox *fgt_transactions_outbox(void);

#endif
