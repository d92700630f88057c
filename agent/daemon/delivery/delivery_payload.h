/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The delivering process's work for a spool: encodes into a file, or sends what
 * is in one.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_PAYLOAD_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_PAYLOAD_H

#include "upload/deliver/dispatch.h"

/* Payloads go to output_fd one behind the other, see delivery_pieces.h. Errors
 * of fgt_destination_encode() and of write. */
int fgt_delivery_payload_encode(const struct fgt_ring_slice *slice,
				const struct fgt_destination *destination,
				const struct fgt_format_options *options,
				int output_fd,
				struct fgt_dispatch_outcome *ret_outcome,
				struct fgt_why *why);

/* fd: the file of a spool's entry, checked to the last byte before one is sent.
 * -EBADMSG: it is damaged; -EAGAIN: it
 * cannot be read now; errors of fgt_dispatch_payload(). */
int fgt_delivery_payload_send(int fd, const struct fgt_destination *destination,
			      const struct fgt_upload_limits *limits,
			      struct fgt_dispatch_outcome *ret_outcome,
			      struct fgt_why *why);

#endif
