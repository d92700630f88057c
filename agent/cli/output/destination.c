/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destination of --upload. Runs in the command line's main thread. The
 * DSN comes from a file, never from an argument or the environment, because
 * other users can read those.
 */
#include "agent/cli/output/destination.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/nearest.h"

static int no_such_destination(const struct fgt_config *config,
			       const char *name, struct fgt_why *why)
{
	const char *path = config->path ? config->path : "a file, with -c FILE";
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, name);
	for (size_t i = 0; i < config->upload.destination_count; i++)
		fgt_nearest_offer(&nearest,
				  config->upload.destinations[i].name);
	if (nearest.best)
		return fgt_why_set(why, -EINVAL,
				   "no destination is called '%s'; did you "
				   "mean '%s'?",
				   name, nearest.best);
	return fgt_why_set(why, -EINVAL,
			   "no destination is called '%s'; add it to "
			   "upload.destinations in %s, or use --dsn-file FILE",
			   name, path);
}

/* By name, else the first one. */
static int choose(const struct fgt_config *config, const char *name,
		  const char **ret_dsn_file, struct fgt_why *why)
{
	const struct fgt_config_destination *all = config->upload.destinations;
	bool is_named = name && *name;

	for (size_t i = 0; i < config->upload.destination_count; i++)
		if (!is_named || strcmp(all[i].name, name) == 0) {
			*ret_dsn_file = all[i].dsn_file;
			return 0;
		}
	if (is_named)
		return no_such_destination(config, name, why);
	return fgt_why_set(why, -EINVAL,
			   "no destination with a dsn_file is configured; use "
			   "--dsn-file FILE, or -c FILE with "
			   "upload.destinations");
}

int fgt_destination_find(const struct fgt_config *config, const char *name,
			 const char *dsn_file, struct fgt_dsn *ret_dsn,
			 struct fgt_why *why)
{
	if (!dsn_file) {
		int r = choose(config, name, &dsn_file, why);

		if (r < 0)
			return r;
	}
	return fgt_dsn_read_file(dsn_file, config->upload.is_http_allowed,
				 ret_dsn, why);
}
