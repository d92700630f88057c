/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many samples are in functions of the program that have no name, and what
 * would give them names.
 *
 * MT-Safe for slices that are only read | AS-Unsafe
 */
#ifndef FGT_AGENT_CLI_SUMMARY_SUMMARY_NAMES_H
#define FGT_AGENT_CLI_SUMMARY_SUMMARY_NAMES_H

#include <stdint.h>
#include <stdio.h>

#include "ringbuf/slice/slice.h"

/* By the innermost function that is of no library of the system. */
struct fgt_nameless {
	uint64_t stripped; /* samples: its file has no symbol for it */
	uint64_t compiled; /* samples: of no file, and of no perf map */
	uint64_t running, running_compiled; /* of those that run */
	const char *path; /* the file of most of stripped; NULL: none */
};

/* slice must have its symbols, whose texts are borrowed. -ENOMEM. */
int fgt_nameless_count(const struct fgt_ring_slice *slice,
		       struct fgt_nameless *ret_nameless);

/* A line each, with the remedy, where they are many of so many samples. */
void fgt_nameless_print(const struct fgt_nameless *nameless, uint64_t samples,
			FILE *file);

#endif
