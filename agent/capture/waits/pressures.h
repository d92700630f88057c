/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long threads of the whole machine waited for CPUs, disks and memory, and
 * how long other virtual machines had its CPUs: of the last two minutes, one
 * history in a process.
 */
#ifndef FGT_AGENT_CAPTURE_WAITS_PRESSURES_H
#define FGT_AGENT_CAPTURE_WAITS_PRESSURES_H

#include "ringbuf/slice/slice.h"

/* Reads it, if the last time was half a second ago: some 50 µs. Called by one
 * thread at a time, often. */
void fgt_pressures_note(uint64_t now_ns);
/* Adds to a slice that was just cut what its ticks need. -ENOMEM. MT-Safe */
int fgt_pressures_cut(struct fgt_ring_slice *slice);

#endif
