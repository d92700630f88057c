/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names in a spool's directory that a spool gave.
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOL_SCAN_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOL_SCAN_H

#include <stdbool.h>

#include "upload/deliver/spool/spool_index.h"

/* More names than that are found when a spool is opened again. */
#define FGT_SPOOL_NAMES_MAX 131072

/* { 0 } has none. */
struct fgt_spool_names {
	struct fgt_spool_id *ids; /* oldest first */
	size_t count, capacity;
};

/*
 * Those with that suffix. errno of open and readdir, -ENOMEM; afterwards
 * _done() in any case.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_spool_scan(int directory_fd, const char *suffix,
		   struct fgt_spool_names *names);
/* After others were added: oldest first again. */
void fgt_spool_names_sort(struct fgt_spool_names *names);
bool fgt_spool_names_has(const struct fgt_spool_names *names,
			 const struct fgt_spool_id *id);
void fgt_spool_names_done(struct fgt_spool_names *names);

#endif
