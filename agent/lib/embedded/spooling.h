/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries of a program that records itself, through options.spool_dir: on
 * the disk before the first try, and tried until the destination answers, also
 * by the next run of the program.
 *
 * The worker's thread, but _start and _stop. AS-Unsafe
 */
#ifndef FGT_AGENT_LIB_EMBEDDED_SPOOLING_H
#define FGT_AGENT_LIB_EMBEDDED_SPOOLING_H

#include "agent/embed/embed.h"
#include "agent/lib/backend.h"

/* At a start: what an earlier run left for this destination (NULL: none) is
 * sent. path: borrowed; NULL: there is no spool. ret_tid: of the thread that
 * sends, 0: none. -EAGAIN: it cannot be started. */
int fgt_spooling_start(const struct fgt_embed_ops *ops,
		       const struct fgt_own_threads *own, const char *path,
		       const char *destination, int32_t *ret_tid);
/* Nothing is sent, or by this thread, which ends afterwards. */
void fgt_spooling_stop(void);

/* -ENODEV: there is no spool; 0: on the disk; else it is not, and is delivered
 * without a spool; why is set. */
int fgt_spooling_deliver(const struct fgt_delivery *delivery,
			 const struct fgt_upload_limits *limits,
			 struct fgt_why *why);

/* Has what is due sent; does not wait. Once a second. */
void fgt_spooling_tend(const struct fgt_upload_limits *limits);

/* Nothing is being sent. */
bool fgt_spooling_is_idle(void);

#endif
