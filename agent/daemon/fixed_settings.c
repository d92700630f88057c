/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reload leaves as it is. Runs in the daemon's loop.
 */
#include "agent/daemon/fixed_settings.h"

#include <string.h>

#include "agent/daemon/loop/log.h"

static bool is_other(const char *old, const char *new)
{
	return strcmp(old ? old : "", new ? new : "") != 0;
}

void fgt_settings_keep_fixed(const struct fgt_config *old,
			     struct fgt_config *new)
{
	const struct {
		bool is_changed;
		const char *key;
	} fixed[] = {
		{ old->sampling.hz != new->sampling.hz, "sampling.hz" },
		{ old->sampling.max_depth != new->sampling.max_depth,
		  "sampling.max_depth" },
		{ old->sampling.provider != new->sampling.provider,
		  "sampling.who_ran" },
		{ old->sampling.is_self_included !=
			  new->sampling.is_self_included,
		  "sampling.include_self" },
		{ old->ring.seconds != new->ring.seconds, "ring.seconds" },
		{ old->ring.memory_mb != new->ring.memory_mb,
		  "ring.memory_mb" },
		{ strcmp(old->socket, new->socket) != 0, "socket" },
		{ is_other(old->upload.spool_dir, new->upload.spool_dir),
		  "upload.spool_dir" },
		{ old->upload.spool_mb != new->upload.spool_mb,
		  "upload.spool_mb" },
		{ old->upload.spool_files != new->upload.spool_files,
		  "upload.spool_files" },
		{ old->upload.spool_days != new->upload.spool_days,
		  "upload.spool_days" },
		{ old->symbols.demangle != new->symbols.demangle,
		  "symbols.demangle" },
		{ is_other(old->http.listen, new->http.listen) ||
			  is_other(old->http.token_file,
				   new->http.token_file) ||
			  old->http.token != new->http.token ||
			  old->http.is_remote_allowed !=
				  new->http.is_remote_allowed ||
			  old->http.name_count != new->http.name_count,
		  "http" },
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (fixed[i].is_changed)
			fgt_log(FGT_LOG_WARNING, "reload",
				"%s keeps its value until the agent is "
				"restarted",
				fixed[i].key);
	new->sampling.hz = old->sampling.hz; /* rings are laid out for it */
	new->ring.seconds = old->ring.seconds;
	new->ring.memory_mb = old->ring.memory_mb;
	new->sampling.max_depth = old->sampling.max_depth;
	new->sampling.provider = old->sampling.provider;
	new->sampling.is_self_included = old->sampling.is_self_included;
	new->symbols.demangle = old->symbols.demangle;
}
