/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the sampler and the symbolizer that a configuration wants.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_RECORDER_H
#define FGT_AGENT_DAEMON_RECORDER_H

#include "agent/capture/sampler.h"
#include "agent/config/config.h"
#include "agent/symbols/symbolizer.h"
#include "agent/unwind/maps/image_file.h"

/* The sampler uses the cache, which outlives it. -ENOMEM; the errors of
 * fgt_sampler_new() and fgt_rows_serve_cache(). */
int fgt_recorder_new_sampler(const struct fgt_config *config,
			     struct fgt_image_cache **ret_cache,
			     struct fgt_sampler **ret_sampler);

/* The errors of fgt_symbolizer_new(). */
int fgt_recorder_new_symbolizer(const struct fgt_config *config,
				struct fgt_image_cache *cache,
				struct fgt_symbolizer **ret_symbolizer);

#endif
