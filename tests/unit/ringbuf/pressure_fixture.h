/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine of a slice lacked. */
#ifndef FGT_TESTS_UNIT_RINGBUF_PRESSURE_FIXTURE_H
#define FGT_TESTS_UNIT_RINGBUF_PRESSURE_FIXTURE_H

#include <stdlib.h>

#include "tests/unit/ringbuf/slice_fixture.h"

/* Up to then some thread of the machine waited for a CPU for so long. */
static inline void fixture_pressure(struct fgt_ring_slice *slice, int at_ms,
				    int cpu_ms)
{
	struct fgt_slice_pressure *grown = realloc(
		slice->pressures, (slice->pressure_count + 1) * sizeof(*grown));

	if (!grown)
		abort();
	slice->pressures = grown;
	grown[slice->pressure_count++] = (struct fgt_slice_pressure){
		.mono_ns =
			FIXTURE_START_NS + (uint64_t)((int64_t)at_ms * 1000000),
		.us[FGT_PRESSURE_CPU] = (uint64_t)cpu_ms * 1000,
		.us[FGT_PRESSURE_STOLEN] = (uint64_t)(at_ms + 1000),
	};
}

#endif
