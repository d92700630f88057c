/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a configuration that look at more than one key. Any thread; must
 * not put a value that can be a secret into a message.
 */
#include "agent/config/config_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fgt_config_check_target(const struct fgt_config_target *target,
			    const char *where, struct fgt_why *why)
{
	int given = (target->pid != 0) + (target->name != NULL) +
		    (target->exe != NULL) + (target->cgroup != NULL);

	if (given != 1)
		return fgt_why_set(why, -EINVAL,
				   "%s: a target needs exactly one of `pid`, "
				   "`name`, `exe`, `cgroup`; this one has %d",
				   where, given);
	if (target->exe && *target->exe != '/')
		return fgt_why_set(why, -EINVAL,
				   "%s: `exe` must be an absolute path", where);
	return 0;
}

static int name_destination(struct fgt_config_destination *own, size_t index)
{
	char number[24];

	snprintf(number, sizeof(number), "%zu", index + 1);
	own->name = strdup(number);
	return own->name ? 0 : -ENOMEM;
}

int fgt_config_check_destination(struct fgt_config *config, size_t index,
				 const char *where, struct fgt_why *why)
{
	const struct fgt_config_destination *all = config->upload.destinations;
	struct fgt_config_destination *own =
		&config->upload.destinations[index];
	int error = own->name ? 0 : name_destination(own, index);

	if (error)
		return error;
	if (!own->dsn_file)
		return fgt_why_set(why, -EINVAL,
				   "%s: a destination needs `dsn_file`", where);
	for (size_t i = 0; i < index; i++)
		if (!strcmp(all[i].name, own->name))
			return fgt_why_set(why, -EINVAL,
					   "%s: two destinations are named "
					   "`%.64s`; rename one",
					   where, own->name);
	return 0;
}
