/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file for its checksum. Runs in the symbol helper; must not run past
 * its deadline.
 */
#include "agent/symbols/elf/checksum.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "ringbuf/base/clock.h"

int fgt_checksum_read(int fd, uint64_t deadline_ns, uint32_t *ret_crc)
{
	uint8_t chunk[8192]; /* stacks of threads may be small */
	struct stat status;
	uLong crc = 0;
	off_t at = 0;

	if (fstat(fd, &status) < 0)
		return -EIO;
	if (status.st_size > FGT_CHECKSUM_MAX_BYTES)
		return -EFBIG;
	while (at < status.st_size) {
		ssize_t got = pread(fd, chunk, sizeof(chunk), at);

		if (got <= 0)
			return -EIO;
		if (fgt_clock_ns(CLOCK_MONOTONIC) >= deadline_ns)
			return -ETIME;
		crc = crc32(crc, chunk, (uInt)got);
		at += got;
	}
	*ret_crc = (uint32_t)crc;
	return 0;
}
