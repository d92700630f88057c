/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers the checksums of files. Runs in the daemon under a user's
 * lock.
 *
 * MT-Unsafe | AS-Unsafe
 */
#ifndef FGT_AGENT_SYMBOLS_CHECKSUMS_H
#define FGT_AGENT_SYMBOLS_CHECKSUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGT_CHECKSUMS_MAX 128 /* the oldest is forgotten */

struct fgt_checksum {
	uint32_t crc;
	int error; /* why there is none, or 0 */
	/* Of the file: one that was written to is another one. */
	uint64_t dev, ino, size;
	int64_t changed_ns;
};

/* Zero-initialise. */
struct fgt_checksums {
	struct fgt_checksum items[FGT_CHECKSUMS_MAX];
	size_t added;
};

/* Sets crc and error for a file. False if they are not known. */
bool fgt_checksums_find(const struct fgt_checksums *checksums, int fd,
			struct fgt_checksum *checksum);

/* Remembers crc and error of a checksum, and fills in the rest. */
void fgt_checksums_add(struct fgt_checksums *checksums, int fd,
		       struct fgt_checksum *checksum);

#endif
