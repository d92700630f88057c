/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoded payloads on their way from the process that encodes to the daemon:
 * one behind the other in a memfd.
 *
 * MT-Unsafe for one file | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_DELIVERY_DELIVERY_PIECES_H
#define FGT_AGENT_DAEMON_DELIVERY_DELIVERY_PIECES_H

#include "upload/deliver/payload.h"

#define FGT_DELIVERY_PIECES_MAX 4096 /* of one slice */

/* Appends one at *at, which moves behind it. errno of write, the body's
 * errors. */
int fgt_delivery_piece_write(int fd, uint64_t *at,
			     const struct fgt_payload *payload);

/* A body that is a part of a file. */
struct fgt_delivery_piece {
	int fd; /* borrowed */
	uint64_t at, len;
};

/*
 * Reads the one at *at, which moves behind it. The process that wrote it may
 * mean harm: lengths and texts are checked, what a body holds is not. ret_piece
 * is used by the payload. -ENODATA: the file ends there; -EBADMSG.
 */
int fgt_delivery_piece_read(int fd, uint64_t *at,
			    struct fgt_delivery_piece *ret_piece,
			    struct fgt_payload *ret_payload);

#endif
