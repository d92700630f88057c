/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of which envelopes a slice and its facts consist: between dispatch_parts.c
 * and those that send them.
 */
#ifndef FGT_UPLOAD_DELIVER_DISPATCH_PARTS_H
#define FGT_UPLOAD_DELIVER_DISPATCH_PARTS_H

#include "upload/deliver/dispatch.h"
#include "upload/deliver/envelope.h"
#include "upload/format/format.h"

struct fgt_dispatch_sender {
	/* One envelope; -ENODATA of a chunk is no failure. */
	int (*send)(void *context, const struct fgt_envelope *envelope,
		    const char *event_id);
	void *context;
};

/*
 * Sends each of them, in order, up to the first failure. options: facts and
 * dsn are looked at; ids are chosen here, by those of the facts. Sets event_id
 * and envelopes of the outcome.
 */
int fgt_dispatch_parts(const struct fgt_ring_slice *slice,
		       const struct fgt_format_options *options,
		       const struct fgt_dispatch_sender *sender,
		       struct fgt_dispatch_outcome *outcome,
		       struct fgt_why *why);

#endif
