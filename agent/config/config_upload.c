/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations of the configuration: checks, and which one a name means. Any
 * thread; reads no file of secrets.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/config_schema.h"
#include "ringbuf/base/nearest.h"
#include "upload/deliver/trusted_file.h"

struct fgt_destination_defaults
fgt_config_destination_defaults(const struct fgt_config *config)
{
	return (struct fgt_destination_defaults){
		.ca_file = config->upload.ca_file,
		.is_http_allowed = config->upload.is_http_allowed,
		.is_sentry_v1 = config->sentry.profile == FGT_SENTRY_V1,
	};
}

/* Its number, unless it has a name. */
static int choose_name(struct fgt_config *config, size_t index,
		       const char *where, struct fgt_why *why)
{
	struct fgt_destination_settings *all = config->upload.destinations;
	struct fgt_destination_settings *own = &all[index];
	char number[24];

	snprintf(number, sizeof(number), "%zu", index + 1);
	if (!own->name)
		own->name = strdup(number);
	if (!own->name)
		return -ENOMEM;
	/* A URL and a path are no names: programs give either. */
	if (strpbrk(own->name, "/:"))
		return fgt_why_set(why, -EINVAL,
				   "%s: a destination is named `%.64s`; use a "
				   "name without / and :",
				   where, own->name);
	for (size_t i = 0; i < index; i++)
		if (!strcmp(all[i].name, own->name))
			return fgt_why_set(why, -EINVAL,
					   "%s: two destinations are named "
					   "`%.64s`; rename one",
					   where, own->name);
	return 0;
}

/* For a process with another working directory. */
static int make_ca_file_absolute(struct fgt_destination_settings *settings,
				 struct fgt_why *why)
{
	char absolute[PATH_MAX];
	int r;

	if (!settings->ca_file)
		return 0;
	r = fgt_trusted_file_absolute("ca_file", settings->ca_file, absolute,
				      sizeof(absolute), why);
	if (r < 0)
		return r;
	free(settings->ca_file);
	settings->ca_file = strdup(absolute);
	return settings->ca_file ? 0 : -ENOMEM;
}

int fgt_config_check_destination(struct fgt_config *config, size_t index,
				 const char *where, struct fgt_why *why)
{
	struct fgt_destination_settings *own =
		&config->upload.destinations[index];
	/* upload.allow_http may come later in the file. */
	const struct fgt_destination_defaults defaults = { .is_http_allowed =
								   true };
	struct fgt_why part = { "" };
	int r = choose_name(config, index, where, why);

	if (r < 0)
		return r;
	r = make_ca_file_absolute(own, &part);
	if (r == 0)
		r = fgt_destination_settings_check(own, &defaults, &part);
	return r < 0 ? fgt_why_set(why, r, "%s: %s", where, part.text) : 0;
}

static int check_transactions(const struct fgt_config *config,
			      const char *file_name, struct fgt_why *why)
{
	const struct fgt_destination_settings *found;
	char where[FGT_CONFIG_WHERE_MAX];
	struct fgt_why part;

	fgt_config_where(config, "upload.transactions", file_name, where);
	for (size_t i = 0; i < config->upload.transaction_count; i++)
		if (fgt_config_find_destination(config,
						config->upload.transactions[i],
						&found, &part) < 0)
			return fgt_why_set(
				why, -EINVAL,
				"%s: element %zu of `upload.transactions`: %s",
				where, i + 1, part.text);
	return 0;
}

int fgt_config_check_upload(struct fgt_config *config, const char *file_name,
			    struct fgt_why *why)
{
	const struct fgt_destination_defaults defaults =
		fgt_config_destination_defaults(config);
	struct fgt_why part;

	for (size_t i = 0; i < config->upload.destination_count; i++) {
		const struct fgt_destination_settings *settings =
			&config->upload.destinations[i];
		int r = fgt_destination_settings_check(settings, &defaults,
						       &part);

		if (r < 0)
			return fgt_why_set(
				why, r, "%s:%u: destination `%s`: %s",
				fgt_trusted_file_name(file_name),
				settings->line, settings->name, part.text);
	}
	return check_transactions(config, file_name, why);
}

int fgt_config_find_destination(
	const struct fgt_config *config, const char *name,
	const struct fgt_destination_settings **ret_settings,
	struct fgt_why *why)
{
	const struct fgt_destination_settings *all =
		config->upload.destinations;
	size_t count = config->upload.destination_count;
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, name ? name : "");
	for (size_t i = 0; i < count; i++) {
		if (!name || strcmp(all[i].name, name) == 0) {
			*ret_settings = &all[i];
			return 0;
		}
		fgt_nearest_offer(&nearest, all[i].name);
	}
	if (!name)
		return fgt_why_set(why, -ENOENT,
				   "no destination is configured; add one to "
				   "upload.destinations");
	if (nearest.best)
		return fgt_why_set(why, -ENOENT,
				   "no destination is called '%.64s'; did you "
				   "mean '%s'?",
				   name, nearest.best);
	return fgt_why_set(why, -ENOENT,
			   "no destination is called '%.64s'; add it to "
			   "upload.destinations",
			   name);
}
