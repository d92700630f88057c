/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a program for a test.
 */
#include "tests/unit/unwind/copy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy_bytes(int in, int out)
{
	ssize_t len;

	do
		len = sendfile(out, in, NULL, 1u << 20);
	while (len > 0);
	return len < 0 || fchmod(out, 0755) < 0 ? -errno : 0;
}

int copy_file(const char *from, const char *to)
{
	int in, out, r;

	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return -errno;
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	r = out < 0 ? -errno : copy_bytes(in, out);
	if (out >= 0)
		close(out);
	close(in);
	return r;
}
