/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes one slice for a destination and sends it at once.
 */
#ifndef FGT_UPLOAD_DELIVER_DISPATCH_H
#define FGT_UPLOAD_DELIVER_DISPATCH_H

#include "upload/deliver/destination.h"
#include "upload/format/parts/transaction.h"

struct fgt_dispatch_outcome {
	char where[FGT_DESTINATION_WHERE_MAX]; /* without secrets */
	char event_id[33]; /* "" if no id was chosen */
	unsigned int payloads; /* that arrived */
	size_t bytes; /* of them, as they left */
	unsigned int retry_after_s; /* with errors; 0: the server named none */
	long status; /* of the last HTTP answer, 0: none */
	struct fgt_ratelimits limits; /* of Sentry, of all answers */
	/* What was not sent, since Sentry wants none of its category now. */
	unsigned int limited[FGT_CATEGORY_COUNT];
	uint32_t category; /* of the last payload; enum fgt_sentry_category */
	bool is_reported; /* limits->discards have arrived */
	bool is_partial; /* Sentry limits profiles: some of it did not arrive */
	/* 401, 403; a payload's, by a wrong configuration, too */
	bool is_refused;
};

/*
 * For Sentry a transaction leaves as one envelope, followed by one for each
 * chunk of its profile. Sent again, payloads keep their ids. options: see
 * fgt_destination_encode(). root_fd, limits: see fgt_destination_send().
 *
 * limits->limited leaves out chunks and profiles, but neither their transaction
 * nor, by -EBUSY, all that there is. The errors of fgt_destination_encode() and
 * fgt_destination_send(): -EAGAIN: it may work later. ret_outcome is filled as
 * far as things got.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_dispatch(const struct fgt_ring_slice *slice,
		 const struct fgt_destination *destination,
		 const struct fgt_format_options *options, int root_fd,
		 const struct fgt_upload_limits *limits,
		 struct fgt_dispatch_outcome *ret_outcome, struct fgt_why *why);

/* The same for one payload that was encoded before; a directory that is missing
 * or not writable is -EAGAIN here. */
int fgt_dispatch_payload(const struct fgt_payload *payload,
			 const struct fgt_destination *destination,
			 const struct fgt_upload_limits *limits,
			 struct fgt_dispatch_outcome *ret_outcome,
			 struct fgt_why *why);

/* The options that follow from the facts of a program, which may be NULL;
 * borrowed. */
struct fgt_format_options
fgt_dispatch_options(const struct fgt_transaction_facts *facts);

/*
 * The same for the text of a destination, see fgt_destination_parse(), and the
 * facts of a program: NULL, or of a transaction or none. limits may be NULL:
 * ca_file, is_http_allowed and the root of directories count, too.
 */
int fgt_dispatch_text(const struct fgt_ring_slice *slice,
		      const char *destination,
		      const struct fgt_transaction_facts *facts,
		      const struct fgt_upload_limits *limits,
		      struct fgt_dispatch_outcome *ret_outcome,
		      struct fgt_why *why);

#endif
