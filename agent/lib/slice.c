/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes and frees slices. Runs in any thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "agent/lib/backend.h"

int fgt_slice_get_info(const struct fgt_slice *slice,
		       struct fgt_slice_info *ret_info)
{
	const size_t size_min =
		offsetof(struct fgt_slice_info, bytes) + sizeof(size_t);
	struct fgt_slice_info info = { .size = sizeof(info) };

	if (!slice)
		return -EINVAL;
	info.from_ns = slice->file.from_ns;
	info.to_ns = slice->file.to_ns;
	info.ticks = slice->file.ticks;
	info.threads = slice->file.threads;
	info.caller_tid = slice->caller_tid;
	info.bytes = slice->file.len_bytes;
	return fgt_settings_copy_struct(ret_info, size_min, &info,
					sizeof(info));
}

void fgt_slice_free(struct fgt_slice *slice)
{
	if (!slice)
		return;
	free(slice->file.bytes);
	free(slice);
}
