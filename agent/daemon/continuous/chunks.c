/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides time into chunks. Any thread; must not read a clock.
 */
#include "agent/daemon/continuous/chunks.h"

static bool take_rest(struct fgt_chunks *chunks, uint64_t ended_ns,
		      uint64_t least_ns, struct fgt_chunk *ret_chunk)
{
	chunks->has_ended = true;
	if (ended_ns < chunks->next_ns + least_ns)
		return false;
	*ret_chunk = (struct fgt_chunk){
		.from_ns = chunks->next_ns,
		.to_ns = ended_ns + 1, /* with the last tick */
		.is_last = true,
	};
	chunks->next_ns = ret_chunk->to_ns;
	return true;
}

bool fgt_chunks_take(struct fgt_chunks *chunks, uint64_t now_ns,
		     uint64_t ended_ns, uint64_t least_ns,
		     struct fgt_chunk *ret_chunk)
{
	uint64_t end_ns = chunks->next_ns + chunks->length_ns;

	if (chunks->has_ended)
		return false;
	if (ended_ns != 0 && ended_ns < end_ns)
		return take_rest(chunks, ended_ns, least_ns, ret_chunk);
	if (now_ns < end_ns)
		return false;
	*ret_chunk = (struct fgt_chunk){ .from_ns = chunks->next_ns,
					 .to_ns = end_ns };
	chunks->next_ns = end_ns;
	return true;
}
