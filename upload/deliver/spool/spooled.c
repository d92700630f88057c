/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and reads payloads. Any thread or process; must not trust a byte of
 * what is stored.
 */
#include "upload/deliver/spool/spooled.h"

#include <errno.h>
#include <string.h>

_Static_assert(sizeof(struct fgt_spooled_head) <= FGT_SPOOL_HEAD_MAX,
	       "room for a head");

static int write_body(void *context, const struct fgt_sink *sink)
{
	const struct fgt_payload *payload = context;

	return payload->body.write(payload->body.context, sink);
}

static const char *remedy_of(int error)
{
	switch (error) {
	case -ENOSPC:
	case -EDQUOT:
		return "make room on its disk";
	case -EMSGSIZE:
		return "raise upload.spool_mb, or choose a shorter time";
	case -EROFS:
	case -EIO:
		return "check its disk";
	default:
		return "try again later";
	}
}

int fgt_spooled_add(struct fgt_spool *spool, const struct fgt_payload *payload,
		    uint32_t uid, uint32_t gid, uint64_t now_ns,
		    struct fgt_spool_id *ret_id, struct fgt_why *why)
{
	const struct fgt_spooled_head head = { .version = FGT_SPOOLED_VERSION,
					       .uid = uid,
					       .gid = gid,
					       .payload = payload->head };
	const struct fgt_spool_payload given = {
		.head = &head,
		.head_len = sizeof(head),
		.write = write_body,
		.context = (void *)(uintptr_t)payload,
	};
	int r = fgt_spool_add(spool, &given, now_ns, ret_id);

	return r < 0 ? fgt_why_set(why, r,
				   "cannot write into the spool: %s; %s",
				   strerror(-r), remedy_of(r))
		     : 0;
}

int fgt_spooled_read_head(const uint8_t *bytes, size_t len,
			  struct fgt_spooled_head *ret_head)
{
	struct fgt_spooled_head head;
	int r;

	if (len != sizeof(head))
		return -EBADMSG;
	memcpy(&head, bytes, sizeof(head));
	if (head.version != FGT_SPOOLED_VERSION)
		return -EBADMSG;
	r = fgt_payload_head_read(
		bytes + offsetof(struct fgt_spooled_head, payload),
		sizeof(head.payload), &head.payload);
	if (r == 0)
		*ret_head = head;
	return r;
}

int fgt_spooled_read(int fd, struct fgt_spooled *ret_spooled)
{
	FGT_AUTO(free) void *head = malloc(FGT_SPOOL_HEAD_MAX);
	struct fgt_spooled spooled = { .body = NULL };
	struct fgt_spool_parts parts;
	int r;

	if (!head)
		return -ENOMEM;
	r = fgt_spool_file_read(fd, head, &parts, &spooled.body);
	if (r < 0)
		return r;
	spooled.len = (size_t)parts.body_len;
	r = fgt_spooled_read_head(head, parts.head_len, &spooled.head);
	if (r < 0)
		fgt_spooled_done(&spooled);
	else
		*ret_spooled = spooled;
	return r;
}

void fgt_spooled_done(struct fgt_spooled *spooled)
{
	free(spooled->body);
	spooled->body = NULL;
}

static int write_memory(const void *context, const struct fgt_sink *sink)
{
	const struct fgt_spooled *spooled = context;

	return fgt_sink_write(sink, spooled->body, spooled->len);
}

struct fgt_payload fgt_spooled_payload(const struct fgt_spooled *spooled)
{
	return (struct fgt_payload){
		.head = spooled->head.payload,
		.body = { write_memory, spooled },
	};
}
