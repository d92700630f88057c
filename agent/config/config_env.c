/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads FGTRACE_* variables. Runs at start and on reload; must not read the
 * environment in a process with raised privileges (AT_SECURE, fault K6): its
 * user may not configure it.
 */
#include "agent/config/config_env.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/config/config_schema.h"

/* sampling.hz → FGTRACE_SAMPLING_HZ */
static void name_variable(const char *path, char *ret_name, size_t size)
{
	snprintf(ret_name, size, "FGTRACE_%s", path);
	for (char *c = ret_name; *c; c++)
		*c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
}

int fgt_config_load_environment(struct fgt_config *config, struct fgt_why *why)
{
	const struct fgt_config_key *key;

	for (key = fgt_config_keys; key->path; key++) {
		char name[FGT_CONFIG_WHERE_MAX];
		const char *text;
		int error;

		if (key->type == FGT_CONFIG_STRINGS ||
		    key->type == FGT_CONFIG_ENTRIES)
			continue;
		name_variable(key->path, name, sizeof(name));
		text = secure_getenv(name);
		if (!text || !*text)
			continue;
		error = fgt_config_set_text(key, config, text, name, why);
		if (error)
			return error;
	}
	return 0;
}
