/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token of the HTTP server: made at each start, and written to a file that
 * only the daemon's user can read, for scrapers.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_DAEMON_HTTP_TOKEN_FILE_H
#define FGT_AGENT_DAEMON_HTTP_TOKEN_FILE_H

#include "agent/http/guard.h"
#include "ringbuf/base/why.h"

/* 128 random bits as hex digits. errno of getrandom(2). */
int fgt_token_new(char ret_token[FGT_WEB_TOKEN_LEN + 1]);

/*
 * Replaces the file, in one step, by one of mode 0600 that has the token and a
 * line break. errno of open, write and rename, with why.
 */
int fgt_token_file_write(const char *path, const char *token,
			 struct fgt_why *why);

#endif
