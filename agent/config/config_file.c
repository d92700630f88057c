/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and reads the configuration file. Runs at start and on reload; must
 * not block on what is not a file, nor believe a file that others can write.
 */
#include "agent/config/config_file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "agent/config/config_scan.h"
#include "ringbuf/base/owner.h"
#include "upload/deliver/trusted_file.h"

int fgt_config_file_read(const char *path, char **ret_bytes, size_t *ret_len,
			 struct fgt_why *why)
{
	static const struct fgt_trust trust = {
		.max_bytes = FGT_CONFIG_FILE_MAX,
		.max_text = "1 MiB",
		.refused_mode = S_IWOTH,
		.mode_text = "everybody may write to it; chmod o-w",
	};
	FGT_AUTO(free) void *bytes = malloc(trust.max_bytes + 1);
	int error;

	if (!bytes)
		return -ENOMEM;
	error = fgt_trusted_file_read(path, &trust, bytes, ret_len, why);
	if (error)
		return error;
	*ret_bytes = FGT_TAKE(bytes);
	return 0;
}
