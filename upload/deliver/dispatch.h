/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends one slice where a program wants it: a Sentry DSN, or a directory.
 */
#ifndef FGT_UPLOAD_DELIVER_DISPATCH_H
#define FGT_UPLOAD_DELIVER_DISPATCH_H

#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/deliver/sentry_upload.h"
#include "upload/format/parts/transaction.h"

struct fgt_dispatch_outcome {
	char where[512]; /* without secrets: for people, logs */
	char event_id[33]; /* "" if things did not get so far */
	unsigned int envelopes; /* that arrived */
	size_t bytes; /* of them, as they left */
	unsigned int retry_after_s; /* with -EAGAIN; 0: the server named none */
};

/*
 * All three: 0; -EAGAIN it may work later (no answer, 429, 5xx, a disk that is
 * full); others: in vain, as fgt_sentry_upload(), errno of open and write.
 * ret_outcome is filled as far as things got. Sent again, envelopes keep their
 * ids. facts may be NULL, or of no transaction. A transaction longer than 30 s
 * leaves as an envelope of its own and one for each chunk of its profile, since
 * a server refuses longer profiles.
 *
 * MT-Safe | AS-Unsafe
 */

/* To where it says: an absolute path or a DSN; -EINVAL neither. limits may be
 * NULL. */
int fgt_dispatch(const struct fgt_ring_slice *slice, const char *destination,
		 const struct fgt_transaction_facts *facts,
		 const struct fgt_upload_limits *limits,
		 struct fgt_dispatch_outcome *ret_outcome, struct fgt_why *why);

/* NAME-TIME.envelope appears in it whole or not at all, readable by its owner
 * only. Needs no HTTP client. */
int fgt_dispatch_to_directory(const struct fgt_ring_slice *slice,
			      const char *directory,
			      const struct fgt_transaction_facts *facts,
			      struct fgt_dispatch_outcome *ret_outcome,
			      struct fgt_why *why);

/* https, or http to this machine, or to another one where limits say so. */
int fgt_dispatch_to_dsn(const struct fgt_ring_slice *slice, const char *dsn,
			const struct fgt_transaction_facts *facts,
			const struct fgt_upload_limits *limits,
			struct fgt_dispatch_outcome *ret_outcome,
			struct fgt_why *why);

#endif
