/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs with variables: {host} {pid} {name} {time} {format} {seq}, in the
 * path and the query.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_URL_TEMPLATE_H
#define FGT_UPLOAD_DELIVER_URL_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "ringbuf/base/why.h"
#include "upload/deliver/payload.h"

/*
 * A URL that fgt_url_parse() accepts, without user and password; https, http to
 * this machine, or to another one where is_http_allowed. Each brace belongs to
 * a variable that is known, none stands in the host. -EINVAL; why has the
 * cause, and the nearest variable of one that is unknown.
 */
int fgt_url_template_check(const char *text, bool is_http_allowed,
			   struct fgt_why *why);

/*
 * Fills in the values of a head, percent-encoded: of a value only
 * A-Z a-z 0-9 - . _ ~ stay as they are. {time} is UTC, 20261121T143007.512Z.
 * -EINVAL for a variable that is unknown, -ENAMETOOLONG; why is set.
 */
int fgt_url_template_expand(const char *text,
			    const struct fgt_payload_head *head, char *ret_url,
			    size_t size, struct fgt_why *why);

/* Appends text to a URL, percent-encoded as above. -ENAMETOOLONG. */
int fgt_url_append(char *url, size_t size, const char *text);

#endif
