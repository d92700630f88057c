/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls by which a spool changes its directory, as a table: tests
 * pass another one, which fails, or which ends at any call.
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOL_DISK_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOL_DISK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Each returns the negative errno of its system call. */
struct fgt_spool_disk {
	/* A new file, for writing. Returns the descriptor. */
	int (*create)(void *context, int directory_fd, const char *name);
	/* Returns how many bytes were written. */
	ssize_t (*write)(void *context, int fd, const void *bytes, size_t len,
			 uint64_t at);
	int (*sync)(void *context, int fd);
	int (*rename)(void *context, int from_fd, const char *from, int to_fd,
		      const char *to);
	int (*remove)(void *context, int directory_fd, const char *name);
	void *context;
};

/* The kernel's. Signals do not interrupt its calls. */
extern const struct fgt_spool_disk fgt_spool_disk;

/* All bytes, through partial writes. -EIO if nothing was written. */
int fgt_spool_disk_write(const struct fgt_spool_disk *disk, int fd,
			 const void *bytes, size_t len, uint64_t at);

#endif
