/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries to destinations of the configuration, where upload.spool_dir is
 * set: kept in the spool as soon as they are encoded, and sent from there until
 * the destination has answered, also what an earlier agent left.
 *
 * Runs in the loop's thread; the disk is waited for on another one. AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_SPOOL_SPOOLER_H
#define FGT_AGENT_DAEMON_SPOOL_SPOOLER_H

#include <stdbool.h>

#include "agent/config/config.h"
#include "agent/daemon/delivery/deliveries.h"
#include "agent/daemon/loop/loop.h"
#include "agent/protocol/builder.h"

struct fgt_spooler;

/*
 * Opens the spool of the configuration on its thread; without spool_dir it does
 * nothing. deliveries is freed first. -ENOMEM, -EAGAIN.
 */
int fgt_spooler_new(struct fgt_loop *loop, struct fgt_deliveries *deliveries,
		    const struct fgt_config *config,
		    struct fgt_spooler **ret_spooler);
/* After deliveries. What is in the spool stays there. */
void fgt_spooler_free(struct fgt_spooler *spooler);

/* Destinations of a configuration that was reloaded: all pauses end. */
void fgt_spooler_configure(struct fgt_spooler *spooler,
			   const struct fgt_config *config);

/* Nothing more is sent; what is encoded is kept. */
void fgt_spooler_leave(struct fgt_spooler *spooler);
/* No work on the disk is under way. */
bool fgt_spooler_is_idle(const struct fgt_spooler *spooler);

/* The members spool_…: entries, bytes, what was dropped. */
void fgt_spooler_put(const struct fgt_spooler *spooler,
		     struct fgt_builder *builder);

#endif
