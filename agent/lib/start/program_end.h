/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends the program when only the library's threads are left.
 *
 * MT-Unsafe: the worker only | AS-Unsafe
 */
#ifndef FGT_AGENT_LIB_START_PROGRAM_END_H
#define FGT_AGENT_LIB_START_PROGRAM_END_H

#include <stdbool.h>
#include <stdint.h>

/* Once the first thread has ended. */
#define FGT_PROGRAM_END_CHECK_NS UINT64_C(50000000)

/* Zeroes at first; must stay where it is until the process has ended. */
struct fgt_program_end {
	bool has_begun; /* a thread calls exit() */
	bool first_ended_before; /* before another one of the program */
};

/*
 * To be called at least once a second: ends the program, by a thread, if its
 * own threads have ended. Returns when it is to be called again; UINT64_MAX:
 * at any time.
 */
uint64_t fgt_program_end_check(struct fgt_program_end *end, uint64_t now_ns);

#endif
