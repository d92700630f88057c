/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes an http or https URL apart, strictly.
 */
#ifndef FGT_UPLOAD_DELIVER_URL_H
#define FGT_UPLOAD_DELIVER_URL_H

#include <stdbool.h>

#include "ringbuf/base/why.h"

#define FGT_URL_MAX 4096

struct fgt_url {
	bool is_https;
	bool is_loopback; /* 127.0.0.0/8, [::1], localhost */
	bool has_userinfo;
	char userinfo[256]; /* may be a secret: never print it */
	char host[256]; /* with its brackets if IPv6 */
	unsigned int port; /* 0: the scheme's own */
	const char *path; /* into the text parsed: from the / on, or "" */
};

/*
 * Only http:// and https://; host a name, an IPv4 or a bracketed IPv6
 * address; no blank, control or non-ASCII character, no backslash. -EINVAL; why
 * names the part that is wrong, never its content.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_url_parse(const char *text, struct fgt_url *ret_url,
		  struct fgt_why *why);

#endif
