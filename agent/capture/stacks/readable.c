/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, or a mapped file? Runs in the sampler's thread, at each read of
 * a stack: must make no system call where the maps know the place, and few for
 * threads that are younger than the maps.
 */
#include "agent/capture/stacks/readable.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/clock.h"

#define RANGES_MAX 16384u
/* Something else may be mapped at a place. */
#define MEMORY_NS  10000000000u
#define REFUSED_NS 1000000000u

void fgt_readable_done(struct fgt_readable *readable)
{
	free(readable->ranges);
	*readable = (struct fgt_readable){ .ranges = NULL };
}

/* The first range that ends after an address. */
static size_t find(const struct fgt_readable *readable, uint64_t address)
{
	return FGT_ARRAY_BISECT(at, readable->count,
				readable->ranges[at].end <= address);
}

/* In the place of all that it overlaps. Without memory it is not kept. */
static void keep(struct fgt_readable *readable,
		 const struct fgt_readable_range *range)
{
	size_t first, last;

	if (readable->count == RANGES_MAX)
		readable->count = 0;
	if (FGT_ARRAY_GROW(readable->ranges, readable->count,
			   readable->capacity))
		return;
	first = last = find(readable, range->start);
	while (last < readable->count &&
	       readable->ranges[last].start < range->end)
		last++;
	memmove(readable->ranges + first + 1, readable->ranges + last,
		(readable->count - last) * sizeof(*range));
	readable->ranges[first] = *range;
	readable->count += 1 - (last - first);
}

static int ask(struct fgt_readable *readable, const struct fgt_process *process,
	       uint64_t address, uint64_t now_ns,
	       struct fgt_readable_range *ret_range)
{
	FGT_AUTO(fgt_fd_close) int dir_fd = -1;
	struct fgt_mapping mapping;
	int32_t tid;
	int r = fgt_process_open_memory(process, &dir_fd, &tid);

	if (r == 0)
		r = fgt_maps_query(dir_fd, address, &mapping);
	if (r < 0)
		return r;
	*ret_range = (struct fgt_readable_range){
		.start = mapping.start,
		.end = mapping.end,
		.until_ns =
			now_ns + (mapping.is_memory ? MEMORY_NS : REFUSED_NS),
		.is_memory = mapping.is_memory,
	};
	keep(readable, ret_range);
	return 0;
}

/* As far as memory reaches from there on, in neighbouring mappings. */
static int64_t fit(const struct fgt_maps *maps,
		   const struct fgt_mapping *mapping, uint64_t address,
		   size_t len)
{
	const struct fgt_mapping *end = maps->mappings + maps->count;
	uint64_t reach = mapping->end;

	while (reach - address < len && ++mapping < end && mapping->is_memory &&
	       mapping->start == reach)
		reach = mapping->end;
	return reach - address < len ? (int64_t)(reach - address)
				     : (int64_t)len;
}

static int64_t refuse(struct fgt_readable *readable)
{
	readable->is_refused = true;
	return 0;
}

int64_t fgt_readable_bytes(struct fgt_readable *readable,
			   const struct fgt_process *process,
			   const struct fgt_maps *maps, uint64_t address,
			   size_t len)
{
	const struct fgt_mapping *mapping = maps ? fgt_maps_find(maps, address)
						 : NULL;
	struct fgt_readable_range range = { .end = 0 };
	uint64_t now_ns;
	size_t at;
	int r;

	if (mapping && mapping->is_memory)
		return fit(maps, mapping, address, len);
	now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	at = find(readable, address);
	if (at < readable->count && readable->ranges[at].start <= address &&
	    readable->ranges[at].until_ns > now_ns) {
		range = readable->ranges[at];
	} else {
		r = readable->has_no_query
			    ? -ENOTTY
			    : ask(readable, process, address, now_ns, &range);
		readable->has_no_query |= r == -ENOTTY;
		if (r == -ENOTTY)
			return refuse(readable);
		if (r < 0)
			return r;
	}
	if (!range.is_memory)
		return refuse(readable);
	return range.end - address < len ? (int64_t)(range.end - address)
					 : (int64_t)len;
}
