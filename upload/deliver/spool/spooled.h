/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads of destinations as entries of a spool.
 *
 * MT-Unsafe for one spool | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_SPOOL_SPOOLED_H
#define FGT_UPLOAD_DELIVER_SPOOL_SPOOLED_H

#include "upload/deliver/payload.h"
#include "upload/deliver/spool/spool.h"

#define FGT_SPOOLED_VERSION 1

/* The head of an entry: plain data, unused bytes 0. */
struct fgt_spooled_head {
	uint32_t version;
	uint32_t uid, gid; /* sent as this user */
	uint32_t reserved;
	struct fgt_payload_head payload;
};

/* Adds one as fgt_spool_add() does, and with its errors; why is set. */
int fgt_spooled_add(struct fgt_spool *spool, const struct fgt_payload *payload,
		    uint32_t uid, uint32_t gid, uint64_t now_ns,
		    struct fgt_spool_id *ret_id, struct fgt_why *why);

/* Checks a head that was stored. -EBADMSG. */
int fgt_spooled_read_head(const uint8_t *bytes, size_t len,
			  struct fgt_spooled_head *ret_head);

/* An entry in memory: every byte has been checked. */
struct fgt_spooled {
	struct fgt_spooled_head head;
	uint8_t *body;
	size_t len;
};

/* Reads the file of an entry. -EBADMSG: it is damaged; -ENOMEM, errno of
 * read. Afterwards _done(). */
int fgt_spooled_read(int fd, struct fgt_spooled *ret_spooled);
void fgt_spooled_done(struct fgt_spooled *spooled);

/* What is sent: borrows the body. */
struct fgt_payload fgt_spooled_payload(const struct fgt_spooled *spooled);

#endif
