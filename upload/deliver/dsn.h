/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentry DSNs: parsed, checked, and never printed whole.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_UPLOAD_DELIVER_DSN_H
#define FGT_UPLOAD_DELIVER_DSN_H

#include <stdbool.h>

#include "ringbuf/base/why.h"

struct fgt_dsn {
	char public_key[33];
	char secret_key[129]; /* legacy; "" as a rule */
	char url[1024]; /* …/api/<project>/envelope/ */
	char redacted[1024]; /* key replaced by stars, for messages */
	char clean[1024]; /* the DSN without secret, for the header */
	bool is_loopback; /* host is 127.0.0.0/8, ::1 or localhost */
};

/*
 * Grammar: scheme http or https, 32 hex digits as key, digits as project. White
 * space around it is ignored.
 * Plain http is refused unless the host is loopback or is_http_allowed.
 * -EINVAL, -ENOMEM; why names the part that is wrong, never the key. Needs
 * little stack.
 */
int fgt_dsn_parse(const char *text, bool is_http_allowed,
		  struct fgt_dsn *ret_dsn, struct fgt_why *why);

/*
 * Reads the first line of a file: regular, ≤ 4 KiB, mode & 007 is 0 (the key is
 * a secret), owned by root or by the effective user. -EACCES, -EINVAL, errno of
 * open.
 */
int fgt_dsn_read_file(const char *path, bool is_http_allowed,
		      struct fgt_dsn *ret_dsn, struct fgt_why *why);

#endif
