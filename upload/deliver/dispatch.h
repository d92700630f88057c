/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends one slice to the destination of a program: a Sentry DSN, or a
 * directory.
 */
#ifndef FGT_UPLOAD_DELIVER_DISPATCH_H
#define FGT_UPLOAD_DELIVER_DISPATCH_H

#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"
#include "upload/deliver/sentry_upload.h"
#include "upload/format/parts/transaction.h"

struct fgt_dispatch_outcome {
	char where[512]; /* the destination without secrets, for messages */
	char event_id[33]; /* "" if no id was chosen */
	unsigned int envelopes; /* that arrived */
	size_t bytes; /* of them, as they left */
	unsigned int retry_after_s; /* with -EAGAIN; 0: the server named none */
};

/*
 * destination is an absolute path or a DSN, else -EINVAL.
 *  - A DSN: https, http to this machine, or http to another one where limits
 *    allow it.
 *  - A directory: NAME-TIME.envelope appears in it whole or not at all,
 *    readable by its owner only. Needs no HTTP client.
 * A transaction longer than 30 s leaves as one envelope, followed by one for
 * each chunk of its profile, since a server refuses longer profiles. Sent
 * again, envelopes keep their ids. facts may be NULL, or of no transaction;
 * limits may be NULL.
 *
 * 0; -EAGAIN: it may work later (no answer, 429, 5xx, a full disk, no
 * descriptors); other errors are permanent: those of fgt_sentry_upload(), errno
 * of open and write. ret_outcome is filled as far as things got.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_dispatch(const struct fgt_ring_slice *slice, const char *destination,
		 const struct fgt_transaction_facts *facts,
		 const struct fgt_upload_limits *limits,
		 struct fgt_dispatch_outcome *ret_outcome, struct fgt_why *why);

#endif
