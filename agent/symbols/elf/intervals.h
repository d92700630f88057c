/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted table of address ranges that may nest. Runs anywhere.
 *
 * MT-Unsafe for one table | AS-Unsafe
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_INTERVALS_H
#define FGT_AGENT_SYMBOLS_ELF_INTERVALS_H

#include <stddef.h>
#include <stdint.h>

struct fgt_interval {
	uint64_t low, high; /* [low, high) */
	uint64_t max_high; /* the highest high of this and earlier ones */
	uint64_t value;
};

/* Zero-initialise. */
struct fgt_intervals {
	struct fgt_interval *items;
	size_t count, capacity;
};

/* Empty and reversed ranges are left out. -ENOMEM, -EFBIG above 4 M. */
int fgt_intervals_add(struct fgt_intervals *intervals, uint64_t low,
		      uint64_t high, uint64_t value);
void fgt_intervals_done(struct fgt_intervals *intervals);

/* Call after the last addition, before the first look-up. */
void fgt_intervals_sort(struct fgt_intervals *intervals);

/* The innermost range that holds address, NULL if none does. */
const struct fgt_interval *
fgt_intervals_find(const struct fgt_intervals *intervals, uint64_t address);

#endif
