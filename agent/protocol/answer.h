/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library reads out of a frame of the agent, which it does not trust.
 */
#ifndef FGT_AGENT_PROTOCOL_ANSWER_H
#define FGT_AGENT_PROTOCOL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Absent keys are 0, false and "". */
struct fgt_answer {
	bool has_ok, is_ok; /* a reply, and what it says */
	int error; /* its negative errno */
	char why[256];
	/* of slice */
	uint64_t from_ns, to_ns, ticks, threads;
	const uint8_t *data; /* in the frame */
	size_t data_len;
	bool is_end;
	uint64_t len;
	/* of register */
	double hz;
	char limitation[256];
};

/* -EBADMSG: not one msgpack map, or a key with a value of another type. */
int fgt_answer_parse(const uint8_t *bytes, size_t len,
		     struct fgt_answer *ret_answer);

#endif
