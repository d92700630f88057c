/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes that were stored: their header gets, when they leave, the time, by
 * which a server corrects clocks, and the DSN, which is not stored; a report of
 * the client may follow their items.
 *
 * MT-Safe for different envelopes | AS-Unsafe
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_FRESH_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_FRESH_H

#include "upload/format/sentry/sentry_envelope.h"

struct fgt_sentry_fresh {
	const struct fgt_envelope *stored; /* outlives it */
	const char *dsn; /* without secret; NULL: none */
	const struct fgt_sentry_body *report; /* NULL: none */
};

/*
 * The same envelope with both added to its first line, unless that has a time
 * already. Its write returns also -EBADMSG: the first line is no header.
 */
struct fgt_envelope fgt_sentry_fresh(const struct fgt_sentry_fresh *fresh);

#endif
