/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of pprof and OTLP as text, for tests: "FIELD:VALUE" in the order of
 * the file, {} around messages, [] around packed numbers, a line for each field
 * of a pprof profile, and of OTLP's profile and dictionary. Every function
 * fails the running test when it cannot do its work.
 */
#ifndef FGT_TESTS_UNIT_PROTO_TEXT_H
#define FGT_TESTS_UNIT_PROTO_TEXT_H

#include "tests/unit/ringbuf/slice_fixture.h"
#include "upload/format/format.h"

/* Writes the slice as pprof, reads it back. */
struct fixture_buffer pprof_text(const struct fgt_ring_slice *slice,
				 enum fgt_state_frames state_frames);
struct fixture_buffer pprof_text_with(const struct fgt_ring_slice *slice,
				      const struct fgt_format_options *options);

/* The same as OTLP. */
struct fixture_buffer otlp_text(const struct fgt_ring_slice *slice,
				const struct fgt_format_options *options);

#endif
