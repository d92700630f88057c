/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens. Runs in the daemon's main thread at its start; must not log one.
 */
#include "agent/daemon/http/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"

int fgt_token_new(char ret_token[FGT_WEB_TOKEN_LEN + 1])
{
	unsigned char bits[FGT_WEB_TOKEN_LEN / 2];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return -EIO;
	for (size_t i = 0; i < sizeof(bits); i++)
		snprintf(ret_token + 2 * i, 3, "%02x", bits[i]);
	return 0;
}

static int write_beside(const char *path, const char *token)
{
	char line[FGT_WEB_TOKEN_LEN + 2];
	FGT_AUTO(fgt_fd_close)
	int fd = open(path,
		      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		      0600);
	int len = snprintf(line, sizeof(line), "%s\n", token);
	int r = fd < 0 ? -errno : fgt_fd_write(fd, line, (size_t)len);

	explicit_bzero(line, sizeof(line));
	return r;
}

int fgt_token_file_write(const char *path, const char *token,
			 struct fgt_why *why)
{
	char beside[PATH_MAX];
	int r = -ENAMETOOLONG;

	if (snprintf(beside, sizeof(beside), "%s.new", path) <
	    (int)sizeof(beside)) {
		(void)unlink(beside); /* of a start that was interrupted */
		r = write_beside(beside, token);
		if (r == 0 && rename(beside, path) < 0)
			r = -errno;
		if (r < 0)
			(void)unlink(beside);
	}
	if (r == 0)
		return 0;
	return fgt_why_set(why, r,
			   "cannot write the token of the HTTP server to %s: "
			   "%s: choose another http.token_file",
			   path, strerror(-r));
}
