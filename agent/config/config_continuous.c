/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks continuous targets, and where rules deliver, once the whole file is
 * loaded. Any thread; must not use libconfig.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/config_schema.h"
#include "ringbuf/base/nearest.h"
#include "upload/deliver/trusted_file.h"

/* A chunk is cut after its end: the ring must still hold its beginning. */
#define LATE_S 5

static int check_place(const struct fgt_config *config,
		       const struct fgt_config_places *places,
		       const char *place, struct fgt_why *why)
{
	struct fgt_nearest nearest;

	if (*place == '/')
		return 0;
	fgt_nearest_init(&nearest, place);
	for (size_t i = 0; i < config->upload.destination_count; i++) {
		const char *name = config->upload.destinations[i].name;

		if (!strcmp(name, place))
			return 0;
		fgt_nearest_offer(&nearest, name);
	}
	return fgt_why_set(why, -EINVAL,
			   "%s: %s: no destination is called `%.64s`%s%.64s%s; "
			   "name one of `upload.destinations`, or a directory "
			   "by its absolute path",
			   places->where, places->subject, place,
			   nearest.best ? "; did you mean `" : "",
			   nearest.best ? nearest.best : "",
			   nearest.best ? "`?" : "");
}

int fgt_config_check_places(const struct fgt_config *config,
			    const struct fgt_config_places *places,
			    struct fgt_why *why)
{
	int error = 0;

	if (places->count == 0 && config->upload.destination_count == 0)
		return fgt_why_set(
			why, -EINVAL,
			"%s: %s: it needs `deliver`: a directory, or "
			"the name of one of `upload.destinations`",
			places->where, places->subject);
	for (size_t i = 0; i < places->count && !error; i++)
		error = check_place(config, places, places->places[i], why);
	return error;
}

static int check_target(const struct fgt_config *config,
			const struct fgt_config_target *target,
			const char *where, struct fgt_why *why)
{
	const struct fgt_config_places places = {
		.where = where,
		.subject = "continuous target",
		.places = target->deliver,
		.count = target->deliver_count,
	};

	if (!target->is_continuous)
		return target->deliver_count == 0
			       ? 0
			       : fgt_why_set(why, -EINVAL,
					     "%s: `deliver` of a target needs "
					     "`continuous = true`",
					     where);
	if (target->continuous_s + LATE_S > config->ring.seconds)
		return fgt_why_set(
			why, -EINVAL,
			"%s: `continuous_s` must be %d s less than "
			"`ring.seconds` (%d) at most; raise that, or "
			"lower it",
			where, LATE_S, config->ring.seconds);
	return fgt_config_check_places(config, &places, why);
}

int fgt_config_check_continuous(const struct fgt_config *config,
				const char *file_name, struct fgt_why *why)
{
	int error = 0;

	for (size_t i = 0; i < config->target_count && !error; i++) {
		char where[FGT_CONFIG_WHERE_MAX];

		snprintf(where, sizeof(where), "%s:%u",
			 fgt_trusted_file_name(file_name),
			 config->targets[i].line);
		error = check_target(config, &config->targets[i], where, why);
	}
	return error;
}
