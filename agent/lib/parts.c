/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's parts, in the order of their start. Of one start at a time:
 * library.c sees to that.
 */
#include "agent/lib/library.h"

const struct fgt_part *const fgt_parts[] = {
	&fgt_span_part,	   &fgt_activity_part,	 &fgt_transaction_part,
	&fgt_preload_part, &fgt_crash_link_part,
};

const unsigned int fgt_part_count = sizeof(fgt_parts) / sizeof(fgt_parts[0]);

static unsigned int started_count;

int fgt_parts_start(const struct fgt_options *options)
{
	for (unsigned int i = 0; i < fgt_part_count; i++) {
		const struct fgt_part *part = fgt_parts[i];
		int r = part && part->start ? part->start(options) : 0;

		if (r < 0)
			return r;
		started_count = i + 1;
	}
	return 0;
}

void fgt_parts_stop(void)
{
	while (started_count > 0) {
		const struct fgt_part *part = fgt_parts[--started_count];

		if (part && part->stop)
			part->stop();
	}
}

int fgt_parts_spans_fd(void)
{
	int fd = -1;

	for (unsigned int i = 0; i < fgt_part_count; i++)
		if (fgt_parts[i] && fgt_parts[i]->get_spans_fd)
			fd = fgt_parts[i]->get_spans_fd();
	return fd;
}

int32_t fgt_parts_own_tid(void)
{
	int32_t tid = 0;

	for (unsigned int i = 0; i < fgt_part_count && !tid; i++)
		if (fgt_parts[i] && fgt_parts[i]->own_tid)
			tid = fgt_parts[i]->own_tid();
	return tid;
}

void fgt_parts_forked(void)
{
	for (unsigned int i = 0; i < fgt_part_count; i++)
		if (fgt_parts[i] && fgt_parts[i]->forked)
			fgt_parts[i]->forked();
	started_count = 0;
}
