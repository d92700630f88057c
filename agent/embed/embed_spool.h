/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program's deliveries in a directory that outlives it. The directory is open
 * during a call only: the program may close any descriptor, and another process
 * of it may use the same directory between two calls.
 *
 * One thread may put while another one sends: only the disk delays the first.
 *
 * Entries are found again by a hash of their destination, which may be a
 * secret.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_EMBED_EMBED_SPOOL_H
#define FGT_AGENT_EMBED_EMBED_SPOOL_H

#include "agent/embed/embed.h"
#include "ringbuf/slice/slice.h"

/* 0: encoded, and on the disk; why is "", or which entries went for it or by
 * age, for the log. Errors of fgt_spool_open_as_guest(), fgt_spooled_add() and
 * fgt_destination_encode(), with why. */
int fgt_embed_spool_put(const struct fgt_embed_spool *spool,
			const struct fgt_ring_slice *slice,
			const struct fgt_transaction_facts *facts,
			struct fgt_why *why);

/*
 * Sends the oldest one that goes there. 0: it has been sent; -ENOENT: there is
 * none; -EALREADY: another process uses the directory now; -EAGAIN: no answer, it
 * stays; other errors are final, and it has gone; why is set. With the first
 * three it is as above. ret_wait_s: what the destination asks for, 0.
 */
int fgt_embed_spool_send(const struct fgt_embed_spool *spool,
			 struct fgt_why *why, unsigned int *ret_wait_s);

/* In the child of a fork, where no other thread uses it. */
void fgt_embed_spool_forked(void);

struct fgt_dispatch_outcome;

/* What an upload has shown: for how long its server wants none of what, and what
 * is to be reported to it next time. error: of the upload. */
void fgt_embed_server_take(struct fgt_embed_server *server,
			   const struct fgt_dispatch_outcome *outcome,
			   int error);

#endif
