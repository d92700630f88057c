/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory this process may come to use before the kernel ends it.
 */
#ifndef FGT_RINGBUF_BASE_MEMORY_LIMIT_H
#define FGT_RINGBUF_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/*
 * The least limit of the memory group that a text like /proc/self/cgroup names
 * and of those above it: memory.max of version 2, memory.limit_in_bytes of
 * version 1. mount: like /sys/fs/cgroup. In a container the text may name a
 * path that only the host sees: then the limit of the mount's top counts.
 * UINT64_MAX: none is known.
 *
 * MT-Safe | AS-Unsafe
 */
uint64_t fgt_memory_limit_read(const char *groups_path, const char *mount);

/* The less of that limit, of this process, and of the machine's memory. */
uint64_t fgt_memory_limit(void);

#endif
