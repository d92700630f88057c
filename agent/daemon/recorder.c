/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the configuration to the options of sampler and symbolizer. Runs in the
 * main thread, before the loop.
 */
#include "agent/daemon/recorder.h"

#include "agent/capture/who_ran/switches.h"
#include "agent/daemon/loop/log.h"
#include "agent/symbols/elf/image_open.h"
#include "agent/unwind/rows/rows.h"
#include "ringbuf/base/memory_limit.h"

/* Unwind rules may have this part of the memory at most. */
#define RULES_PART 8

static void explain(void *context, int32_t pid, const char *text)
{
	(void)context;
	fgt_log(FGT_LOG_WARNING, "sampling", "pid %d: %s", pid, text);
}

int fgt_recorder_new_sampler(const struct fgt_config *config,
			     struct fgt_image_cache **ret_cache,
			     struct fgt_sampler **ret_sampler)
{
	const struct fgt_sampler_options options = {
		.hz = (unsigned int)config->sampling.hz,
		.max_depth = (unsigned int)config->sampling.max_depth,
		.ring = { .seconds = (unsigned int)config->ring.seconds,
			  .size_bytes = (size_t)config->ring.memory_mb << 20 },
		.provider = config->sampling.provider,
		.switches = FGT_SWITCHES_BUILT_IN,
		.max_cpu_percent = config->sampling.max_cpu_percent,
		.is_self_included = config->sampling.is_self_included,
		.is_watched = true,
		.explain = explain,
	};
	struct fgt_image_cache *cache = NULL;
	int r = fgt_image_cache_new(&cache);

	/* An ordinary user's targets are that user's own. */
	if (r == 0 && geteuid() == 0)
		r = fgt_rows_serve_cache(cache, NULL);
	if (r == 0) /* rings may have a half */
		fgt_image_cache_limit_rules(cache,
					    fgt_memory_limit() / RULES_PART);
	if (r == 0)
		r = fgt_sampler_new(&options, cache, ret_sampler);
	if (r < 0)
		fgt_image_cache_free(cache);
	else
		*ret_cache = cache;
	return r;
}

int fgt_recorder_new_symbolizer(const struct fgt_config *config,
				struct fgt_image_cache *cache,
				struct fgt_symbolizer **ret_symbolizer)
{
	const struct fgt_symbolizer_options options = {
		.demangle = config->symbols.demangle,
		.debug_dirs = (const char *const *)config->symbols.debug_dirs,
		.debug_dir_count = config->symbols.debug_dir_count,
		.open_image = fgt_image_open_cached,
		.context = cache,
	};

	return fgt_symbolizer_new(&options, ret_symbolizer);
}
