/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the file of --json-to. Runs in the main thread.
 */
#include "agent/cli/output/json_to.h"

#include <errno.h>
#include <fcntl.h>

int fgt_json_to_open(const struct fgt_arguments *arguments, FILE **ret_file,
		     struct fgt_why *why)
{
	const char *path = fgt_options_get(arguments, "json-to");
	FGT_AUTO(fgt_fd_close) int fd = -1;
	FILE *file;

	*ret_file = NULL;
	if (!path)
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY,
		  0600);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file)
		return fgt_why_set(why, -errno,
				   "cannot write %s: %m; choose another file "
				   "with --json-to",
				   path);
	(void)FGT_TAKE_FD(fd);
	setvbuf(file, NULL, _IONBF, 0);
	*ret_file = file;
	return 0;
}
