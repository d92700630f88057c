/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler has counted of one thread.
 */
#ifndef FGT_AGENT_CAPTURE_THREADS_CPU_USE_H
#define FGT_AGENT_CAPTURE_THREADS_CPU_USE_H

#include <stdint.h>

/* Compared whole, with zero tolerance. */
struct fgt_cpu_use {
	uint64_t runtime_ns; /* on a CPU */
	uint64_t wait_ns; /* runnable, waiting for one */
	uint64_t switches; /* times put on a CPU */
};

#endif
