/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transaction's facts in messages: keys have the names of the members of
 * struct fgt_transaction_facts; thread_runs are `tids`.
 */
#ifndef FGT_AGENT_PROTOCOL_TRANSACTION_FACTS_H
#define FGT_AGENT_PROTOCOL_TRANSACTION_FACTS_H

#include "agent/protocol/builder.h"
#include "ringbuf/base/why.h"
#include "upload/format/parts/transaction.h"

struct fgt_message;

/* Facts with room for their arrays; strings belong to the message. */
struct fgt_facts_room {
	struct fgt_transaction_facts facts;
	struct fgt_tag tags[FGT_TAGS_MAX];
	struct fgt_thread_run thread_runs[FGT_TRANSACTION_THREAD_RUNS];
};

/*
 * Reads and checks them. -EINVAL, with why: a string that is too long, an id
 * that is no hex number, an end before the begin, too many tags or threads.
 * Without a `name` only release and environment are read; -ENOENT: neither is
 * there.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_facts_read(const struct fgt_message *message,
		   struct fgt_facts_room *ret_room, struct fgt_why *why);

/* Puts them into an open map; empty strings are left out. */
void fgt_facts_put(struct fgt_builder *builder,
		   const struct fgt_transaction_facts *facts);

/* A message of them alone, of at most size bytes. -EMSGSIZE, -ENOMEM. */
int fgt_facts_pack(const struct fgt_transaction_facts *facts,
		   uint8_t *ret_bytes, size_t size, size_t *ret_len);

#endif
