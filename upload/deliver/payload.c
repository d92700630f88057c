/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads heads that were stored. Any thread; must not trust a byte of them.
 */
#include "upload/deliver/payload.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool is_text(const char *text, size_t size)
{
	return memchr(text, 0, size);
}

#define IS_TEXT(array) is_text(array, sizeof(array))

int fgt_payload_head_read(const void *bytes, size_t len,
			  struct fgt_payload_head *ret_head)
{
	struct fgt_payload_head head;

	if (len != sizeof(head))
		return -EBADMSG;
	memcpy(&head, bytes, sizeof(head));
	if (head.version != FGT_PAYLOAD_VERSION || !IS_TEXT(head.destination) ||
	    !IS_TEXT(head.id) || !IS_TEXT(head.format) ||
	    !IS_TEXT(head.ending) || !IS_TEXT(head.category) ||
	    !IS_TEXT(head.content_type) || !IS_TEXT(head.content_encoding) ||
	    !IS_TEXT(head.name) || !IS_TEXT(head.service) ||
	    !IS_TEXT(head.host))
		return -EBADMSG;
	*ret_head = head;
	return 0;
}
