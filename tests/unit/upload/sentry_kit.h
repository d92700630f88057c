/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes for the tests of the Sentry format. Every function fails the
 * running test when it cannot do its work.
 */
#ifndef FGT_TESTS_UNIT_SENTRY_KIT_H
#define FGT_TESTS_UNIT_SENTRY_KIT_H

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"

struct fixture_buffer sentry_write(const struct fgt_ring_slice *slice,
				   const struct fgt_format_options *options);

/* The same of a chunk. */
struct fixture_buffer
sentry_write_chunk(const struct fgt_ring_slice *slice,
		   const struct fgt_format_options *options);

/* The samples of a profile as "stack@ms stack@ms …" for one thread. */
void sentry_samples(const char *json, int tid, char *samples, size_t size);
unsigned int sentry_count_samples(const char *json, int tid);

#endif
