/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a spool is, and how its entries go. For the files of this room.
 *
 * MT-Unsafe for one spool | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOL_ROOM_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOL_ROOM_H

#include <time.h>

#include "upload/deliver/spool/spool.h"
#include "upload/deliver/spool/spool_scan.h"

struct fgt_spool {
	struct fgt_spool_options options; /* complete; path: NULL */
	int directory_fd, lock_fd;
	bool is_guest; /* another process may have the lock */
	struct fgt_spool_index index;
	struct timespec looked; /* the directory's time at the last look */
	/* Gone, but the files could not be removed: no look finds them again. */
	struct fgt_spool_names stuck;
};

/* An entry whose file cannot be removed is not sent again by this process. */
void fgt_spool_drop(struct fgt_spool *spool,
		    const struct fgt_spool_entry *entry,
		    enum fgt_spool_drop reason);

/* False: none is left that may go. */
bool fgt_spool_drop_oldest(struct fgt_spool *spool, enum fgt_spool_drop reason);

/* For so many bytes more, in so many entries. -EMSGSIZE: never; -ENOSPC: not
 * while other entries are held. */
int fgt_spool_make_room(struct fgt_spool *spool, uint64_t bytes,
			size_t entries);

/* Returns a descriptor; errno of open. */
int fgt_spool_open_entry(const struct fgt_spool *spool,
			 const struct fgt_spool_id *id);

#endif
