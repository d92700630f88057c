/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A short list of checksums, searched from end to end. Runs in the daemon; must
 * not keep files open.
 */
#include "agent/symbols/checksums.h"

#include "agent/files/open_file.h"

static bool identify(int fd, struct fgt_checksum *checksum)
{
	struct stat status;

	if (fgt_file_status(fd, &status) < 0)
		return false;
	checksum->dev = status.st_dev;
	checksum->ino = status.st_ino;
	checksum->size = (uint64_t)status.st_size;
	/* Unlike the time of the last write, no user can set this one. */
	checksum->changed_ns = (int64_t)status.st_ctim.tv_sec * 1000000000 +
			       status.st_ctim.tv_nsec;
	return true;
}

static bool is_same(const struct fgt_checksum *left,
		    const struct fgt_checksum *right)
{
	return left->dev == right->dev && left->ino == right->ino &&
	       left->size == right->size &&
	       left->changed_ns == right->changed_ns;
}

bool fgt_checksums_find(const struct fgt_checksums *checksums, int fd,
			struct fgt_checksum *checksum)
{
	size_t count = checksums->added < FGT_CHECKSUMS_MAX ? checksums->added
							    : FGT_CHECKSUMS_MAX;

	if (!identify(fd, checksum))
		return false;
	for (size_t i = 0; i < count; i++)
		if (is_same(&checksums->items[i], checksum)) {
			*checksum = checksums->items[i];
			return true;
		}
	return false;
}

void fgt_checksums_add(struct fgt_checksums *checksums, int fd,
		       struct fgt_checksum *checksum)
{
	if (identify(fd, checksum))
		checksums->items[checksums->added++ % FGT_CHECKSUMS_MAX] =
			*checksum;
}
