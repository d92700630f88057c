/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that poll(2), select(2) and epoll_wait(2) wait for. For this
 * room only.
 *
 * Runs in the sampler's thread. MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_CAPTURE_WAITS_POLLED_H
#define FGT_AGENT_CAPTURE_WAITS_POLLED_H

#include "agent/capture/waits/waits.h"

#define FGT_POLLED_SHOWN 8u

/* Each once, as far as it can be known; the lowest ones, in order. */
struct fgt_polled {
	int32_t descriptors[FGT_POLLED_SHOWN];
	uint32_t count; /* of these */
	uint32_t total; /* of all that were found */
	bool is_cut; /* there are more than these */
};

/* Of poll() and ppoll(); false: the memory cannot be read. */
bool fgt_polled_read_poll(const uint64_t args[6],
			  const struct fgt_wait_source *source,
			  struct fgt_polled *ret_polled);
/* Of select() and pselect6(). */
bool fgt_polled_read_select(const uint64_t args[6],
			    const struct fgt_wait_source *source,
			    struct fgt_polled *ret_polled);
/* Of an epoll descriptor; false, too: the source does not list these. */
bool fgt_polled_read_epoll(int32_t descriptor,
			   const struct fgt_wait_source *source,
			   struct fgt_polled *ret_polled);

/*
 * "descriptors 3 (pipe), 5 (socket:[12]) and 12 more", with what each is if the
 * source describes those of polls: see struct fgt_wait_source. Writes whole
 * entries only; "" for none. before: a text that comes first.
 */
void fgt_polled_write(const struct fgt_polled *polled,
		      const struct fgt_wait_source *source, const char *before,
		      char text[FGT_WAIT_TEXT_MAX]);

#endif
