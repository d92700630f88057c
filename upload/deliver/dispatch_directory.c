/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slice and facts into a directory. Runs in any thread that may wait for a
 * disk.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "upload/deliver/dispatch_parts.h"
#include "upload/deliver/envelope_file.h"

struct put {
	const char *directory, *name;
	uint64_t wall_ns;
	struct fgt_dispatch_outcome *outcome;
	struct fgt_why *why;
};

static int send_put(void *context, const struct fgt_envelope *envelope,
		    const char *event_id)
{
	const struct put *put = context;
	size_t bytes = 0;
	int r = fgt_envelope_file_write(put->directory, put->name, put->wall_ns,
					envelope, &bytes, put->why);

	(void)event_id; /* it is in the envelope */
	put->outcome->bytes += bytes;
	return r == -ENOSPC || r == -EDQUOT || r == -EMFILE || r == -ENFILE
		       ? -EAGAIN
		       : r;
}

int fgt_dispatch_to_directory(const struct fgt_ring_slice *slice,
			      const char *directory,
			      const struct fgt_transaction_facts *facts,
			      struct fgt_dispatch_outcome *ret_outcome,
			      struct fgt_why *why)
{
	const char *name = facts && facts->name && *facts->name
				   ? facts->name
				   : slice->process.name;
	uint64_t begin_ns = facts && facts->begin_ns ? facts->begin_ns
						     : slice->tick_ns[0];
	struct put put = { .directory = directory,
			   .name = name,
			   .wall_ns = fgt_slice_wall_ns(slice, begin_ns),
			   .outcome = ret_outcome,
			   .why = why };
	const struct fgt_dispatch_sender sender = { send_put, &put };
	const struct fgt_format_options options = { .facts = facts };

	memset(ret_outcome, 0, sizeof(*ret_outcome));
	snprintf(ret_outcome->where, sizeof(ret_outcome->where), "%.500s",
		 directory);
	return fgt_dispatch_parts(slice, &options, &sender, ret_outcome, why);
}
