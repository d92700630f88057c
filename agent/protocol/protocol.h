/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control protocol: its version and its limits. A frame is [u32 big-endian
 * length][one msgpack map]; agent/protocol/README.md has the verbs and fields.
 */
#ifndef FGT_AGENT_PROTOCOL_PROTOCOL_H
#define FGT_AGENT_PROTOCOL_PROTOCOL_H

#define FGT_PROTOCOL_VERSION	  2
#define FGT_PROTOCOL_LENGTH_BYTES 4 /* in front of each frame */
#define FGT_PROTOCOL_REQUEST_MAX  (1024 * 1024)
#define FGT_PROTOCOL_KEPT_MAX	  (16 * 1024 * 1024 + 4096) /* registered */
#define FGT_PROTOCOL_REPLY_MAX	  (16 * 1024 * 1024)
#define FGT_PROTOCOL_DATA_MAX	  (256 * 1024) /* of a file, in one frame */
#define FGT_PROTOCOL_DEPTH_MAX	  16
#define FGT_PROTOCOL_KEYS_MAX	  128 /* of one map */

#endif
