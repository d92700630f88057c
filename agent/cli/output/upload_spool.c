/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a destination does not take now goes into the agent's spool. Runs in the
 * command line's main thread, beside the agent that uses the directory.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "agent/cli/output/upload.h"
#include "ringbuf/base/clock.h"
#include "upload/deliver/spool/spooled.h"

static int take(void *context, const struct fgt_payload *payload,
		struct fgt_why *why)
{
	struct fgt_spool_id id;

	return fgt_spooled_add(context, payload, geteuid(), getegid(),
			       fgt_clock_ns(CLOCK_REALTIME), &id, why);
}

struct fgt_destination *fgt_upload_numbered(struct fgt_destination *destination)
{
	destination->sequence = fgt_clock_ns(CLOCK_REALTIME);
	return destination;
}

int fgt_upload_spool(const struct fgt_config *config,
		     const struct fgt_destination *destination,
		     const struct fgt_ring_slice *slice,
		     const struct fgt_format_options *options,
		     struct fgt_why *why)
{
	const struct fgt_spool_options spool_options = {
		.path = config->upload.spool_dir,
		.max_bytes = (uint64_t)config->upload.spool_mb << 20,
	};
	FGT_AUTO(fgt_spool_close) struct fgt_spool *spool = NULL;
	struct fgt_payload_taker taker = { .take = take, .is_stored = true };
	int r;

	if (!config->upload.spool_dir || !destination->name)
		return -ENOENT;
	r = fgt_spool_open_as_guest(&spool_options, &spool, why);
	if (r < 0)
		return r;
	taker.context = spool;
	return fgt_destination_encode(destination, slice, options, &taker, why);
}
