/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries of a program that records itself, through options.spool_dir: on
 * the disk before the first try, and tried until the destination answers, also
 * by the next run of the program.
 *
 * The worker's thread. AS-Unsafe
 */
#ifndef FGT_AGENT_LIB_EMBEDDED_SPOOLING_H
#define FGT_AGENT_LIB_EMBEDDED_SPOOLING_H

#include "agent/embed/embed.h"
#include "agent/lib/backend.h"

/* At a start: what an earlier run left for this destination (NULL: none) is
 * sent. path: borrowed; NULL: there is no spool. */
void fgt_spooling_start(const struct fgt_embed_ops *ops, const char *path,
			const char *destination);

/* -ENODEV: there is no spool; 0: on the disk; else it is not, and is delivered
 * without a spool; why is set. */
int fgt_spooling_deliver(const struct fgt_delivery *delivery,
			 const struct fgt_upload_limits *limits,
			 struct fgt_why *why);

/* Sends what is due; blocks as long as deliveries do. Once a second. */
void fgt_spooling_tend(const struct fgt_upload_limits *limits);

#endif
