/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction's facts in messages: keys of the same names as the members of
 * struct fgt_transaction_facts; tags: [{key, value}], tids: [{tid, from_ns, to_ns}].
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_TRANSACTION_FACTS_H
#define FGT_AGENT_DAEMON_DELIVERY_TRANSACTION_FACTS_H

#include "agent/protocol/builder.h"
#include "agent/protocol/message.h"
#include "upload/format/parts/transaction.h"

/* Facts with room for their arrays; texts are the message's. */
struct fgt_facts_room {
	struct fgt_transaction_facts facts;
	struct fgt_tag tags[FGT_TAGS_MAX];
	struct fgt_thread_run thread_runs[FGT_TRANSACTION_THREAD_RUNS];
};

/*
 * Reads and checks them: texts that are too long, ids that are none, an end
 * before the beginning, too many tags or threads are -EINVAL, with why.
 * Without a "name" release and environment alone are read; -ENOENT: there are
 * none of them either.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_facts_read(const struct fgt_message *message,
		   struct fgt_facts_room *ret_room, struct fgt_why *why);

/* Puts them into an open map. */
void fgt_facts_put(struct fgt_builder *builder,
		   const struct fgt_transaction_facts *facts);

#endif
