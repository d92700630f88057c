/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of JIT code from /tmp/perf-PID.map, which the target writes. Runs in
 * the daemon; trusts nothing about that file: it may be a FIFO, a link or
 * endless.
 */
#ifndef FGT_AGENT_SYMBOLS_PERFMAP_H
#define FGT_AGENT_SYMBOLS_PERFMAP_H

#include <stddef.h>
#include <stdint.h>

#include "ringbuf/base/owner.h"

#define FGT_PERFMAP_BYTES_MAX (64u << 20)
#define FGT_PERFMAP_LINES_MAX (1u << 20)

struct fgt_perfmap;

/*
 * Reads /tmp/perf-<ns_pid>.map below root_fd: a regular file, no link, of owner
 * uid or root, of at most 64 MB. Its lines are "START SIZE NAME" (hexadecimal);
 * other lines are skipped, what follows the first million is not read. Where
 * lines overlap the later one wins. *map stays if it is of that file and the
 * file is unchanged; otherwise it is freed, and NULL on error. Never blocks on
 * a FIFO.
 * -ENOENT, -EINVAL not a regular file, -ELOOP a link, -EPERM owned by another
 * user, -EFBIG, -EIO, -ENOMEM, errors of fgt_file_open().
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_perfmap_refresh(int root_fd, int32_t ns_pid, uint32_t uid,
			struct fgt_perfmap **map);

void fgt_perfmap_free(struct fgt_perfmap *map);
FGT_DEFINE_AUTO(struct fgt_perfmap *, fgt_perfmap_free);

/* The name that covers a PC, NULL if none does. */
const char *fgt_perfmap_find(const struct fgt_perfmap *map, uint64_t pc);

/* The memory that the map takes. */
size_t fgt_perfmap_count_bytes(const struct fgt_perfmap *map);

#endif
