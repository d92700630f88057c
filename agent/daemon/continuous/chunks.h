/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the life of a process is divided into chunks: without gap and without
 * overlap, the last one as long as its rest. Pure; times are CLOCK_MONOTONIC in
 * ns.
 *
 * MT-Safe for different objects | AS-Safe
 */
#ifndef FGT_AGENT_DAEMON_CONTINUOUS_CHUNKS_H
#define FGT_AGENT_DAEMON_CONTINUOUS_CHUNKS_H

#include <stdbool.h>
#include <stdint.h>

/* [from_ns, to_ns): the tick at to_ns belongs to the next chunk. */
struct fgt_chunk {
	uint64_t from_ns, to_ns;
	bool is_last;
};

struct fgt_chunks {
	uint64_t next_ns; /* where the next chunk begins */
	uint64_t length_ns;
	bool has_ended; /* the last chunk has been taken */
};

/*
 * Takes the next chunk, if its time has passed at now_ns, or the process ended
 * at ended_ns (0: it lives). False: there is none yet, or none any more. A rest
 * of less than least_ns is left out: it holds no two ticks.
 */
bool fgt_chunks_take(struct fgt_chunks *chunks, uint64_t now_ns,
		     uint64_t ended_ns, uint64_t least_ns,
		     struct fgt_chunk *ret_chunk);

#endif
