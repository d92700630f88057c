/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum by which .gnu_debuglink knows a debug file. Runs in the symbol
 * helper, or in a program that names its own frames.
 */
#ifndef FGT_AGENT_SYMBOLS_ELF_CHECKSUM_H
#define FGT_AGENT_SYMBOLS_ELF_CHECKSUM_H

#include <stdint.h>

/* A checksum reads the whole file, which may be sparse and cost its user
 * nothing: not for more than this. */
#define FGT_CHECKSUM_MAX_BYTES (256ll << 20)

/*
 * The CRC that zlib computes. -EFBIG; -ETIME after deadline_ns
 * (CLOCK_MONOTONIC); -EIO, also for a file that became shorter.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_checksum_read(int fd, uint64_t deadline_ns, uint32_t *ret_crc);

#endif
