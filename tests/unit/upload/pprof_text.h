/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pprof profile as text, for tests: "FIELD:VALUE" in the order of the file,
 * {} around messages, [] around packed numbers, a line for each field of the
 * profile. Every function fails the running test when it cannot do its work.
 */
#ifndef FGT_TESTS_UNIT_PPROF_TEXT_H
#define FGT_TESTS_UNIT_PPROF_TEXT_H

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"

/* Writes the slice as pprof, reads it back. */
struct fixture_buffer pprof_text(const struct fgt_ring_slice *slice,
				 enum fgt_state_frames state_frames);

#endif
