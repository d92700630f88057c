/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that a JIT compiler made: /tmp/perf-PID.map, written by the
 * target and therefore hostile (FAULTS X8).
 */
#ifndef FGT_AGENT_SYMBOLS_PERFMAP_H
#define FGT_AGENT_SYMBOLS_PERFMAP_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/owner.h"

struct fgt_perfmap;

/*
 * Reads the map of a process below root_fd. pid is the number in the target's
 * own pid namespace; the file must be regular, not a link, owned by uid or
 * root, at most 64 MiB and 1 M lines. -ENOENT none, -EPERM foreign, -EFBIG,
 * -EINVAL not a regular file, -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_perfmap_read(int root_fd, int32_t pid, uint32_t uid,
		     struct fgt_perfmap **ret_map);
/* The same from bytes (tests, fuzzing). Bad lines are skipped. */
int fgt_perfmap_parse(const char *text, size_t len,
		      struct fgt_perfmap **ret_map);
void fgt_perfmap_free(struct fgt_perfmap *map);
FGT_DEFINE_AUTO(struct fgt_perfmap *, fgt_perfmap_free);

/* NULL if no entry covers the address; of overlapping entries the later one
 * in the file counts, as a JIT reuses memory. Lives as long as the map. */
const char *fgt_perfmap_find(const struct fgt_perfmap *map, uint64_t address);

#endif
