/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks triggers once the whole file is loaded: their rules need several keys,
 * the ring's time and the names of destinations. Any thread; must not use
 * libconfig.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/config_schema.h"
#include "upload/deliver/trusted_file.h"

/* A stretch of time must lie in the ring as a whole, with the time that passes
 * between two looks at it. */
#define LOOK_S 2

static const char CONDITIONS[] = "`cpu_percent`, `asleep_s`, `state`, "
				 "`starved_s`, `signal`, `file`, "
				 "`transaction_ms`, `killed`, `deadlock`";

/* The one trigger that is checked. */
struct check {
	const struct fgt_config *config;
	const struct fgt_config_trigger *trigger;
	char where[FGT_CONFIG_WHERE_MAX];
	struct fgt_why *why;
};

static int refuse(const struct check *check, const char *text)
{
	return fgt_why_set(check->why, -EINVAL, "%s: trigger `%s`: %s",
			   check->where, check->trigger->name, text);
}

/* It becomes a part of file names, and a tag. */
static bool is_name_plain(const char *name)
{
	if (*name == '.')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	return true;
}

static int check_name(const struct check *check)
{
	const struct fgt_config_trigger *all = check->config->triggers;
	const char *name = check->trigger->name;

	if (!name)
		return fgt_why_set(check->why, -EINVAL,
				   "%s: a trigger needs `name`", check->where);
	if (!is_name_plain(name))
		return refuse(check,
			      "`name` may have letters, digits, '_', "
			      "'-' and '.', and does not begin with '.'");
	for (; all < check->trigger; all++)
		if (!strcmp(all->name, name))
			return refuse(check, "another trigger has this name; "
					     "rename one");
	return 0;
}

static int check_target(const struct check *check)
{
	const struct fgt_config_trigger *trigger = check->trigger;

	if ((trigger->pid != 0) + (trigger->target != NULL) +
		    (trigger->exe != NULL) + (trigger->cgroup != NULL) >
	    1)
		return refuse(check, "give one of `target`, `exe`, `cgroup`, "
				     "`pid`, or none for all targets");
	if (trigger->exe && *trigger->exe != '/')
		return refuse(check, "`exe` must be an absolute path; begin "
				     "it with /");
	return 0;
}

static int check_condition(const struct check *check)
{
	const struct fgt_config_trigger *trigger = check->trigger;
	int given =
		(trigger->when.cpu_percent != 0) +
		(trigger->when.asleep_s != 0) + (trigger->when.state != NULL) +
		(trigger->when.starved_s != 0) +
		(trigger->when.signal != NULL) + (trigger->when.file != NULL) +
		(trigger->when.transaction_ms != 0) + trigger->when.is_killed +
		trigger->when.is_deadlocked;

	if (given != 1)
		return fgt_why_set(check->why, -EINVAL,
				   "%s: trigger `%s`: `when` needs exactly one "
				   "of %s; this one has %d",
				   check->where, trigger->name, CONDITIONS,
				   given);
	if ((trigger->when.state != NULL) != (trigger->when.longer_s != 0))
		return refuse(check, "`when.state` and `when.longer_s` go "
				     "together; give both");
	if (trigger->when.thread && !trigger->when.state)
		return refuse(check, "`when.thread` needs `when.state`");
	if (trigger->when.transaction && !trigger->when.transaction_ms)
		return refuse(check, "`when.transaction` needs "
				     "`when.transaction_ms`");
	if (trigger->when.file &&
	    (*trigger->when.file != '/' ||
	     trigger->when.file[strlen(trigger->when.file) - 1] == '/'))
		return refuse(check, "`when.file` must be the absolute path of "
				     "a file");
	return 0;
}

static int check_times(const struct check *check)
{
	const struct fgt_config_trigger *trigger = check->trigger;
	int seconds = check->config->ring.seconds;

	if (trigger->window_s == 0)
		return refuse(check, "`window_s` must be at least 0.1");
	if (trigger->when.for_s == 0)
		return refuse(check, "`when.for_s` must be at least 1");
	if (trigger->window_s + trigger->after_s > seconds)
		return refuse(check, "`window_s` and `after_s` are together "
				     "longer than `ring.seconds`; raise that, "
				     "or lower them");
	if (trigger->when.longer_s + LOOK_S > seconds ||
	    trigger->when.starved_s + LOOK_S > seconds)
		return refuse(check,
			      "`when.longer_s` and `when.starved_s` must "
			      "be 2 s less than `ring.seconds` at most; "
			      "raise that, or lower them");
	return 0;
}

static int check_places(const struct check *check)
{
	const struct fgt_config_trigger *trigger = check->trigger;
	char subject[FGT_TRIGGER_NAME_MAX + 16];

	snprintf(subject, sizeof(subject), "trigger `%s`", trigger->name);
	return fgt_config_check_places(
		check->config,
		&(struct fgt_config_places){ .where = check->where,
					     .subject = subject,
					     .places = trigger->deliver,
					     .count = trigger->deliver_count },
		check->why);
}

int fgt_config_check_triggers(const struct fgt_config *config,
			      const char *file_name, struct fgt_why *why)
{
	int (*const rules[])(const struct check *) = {
		check_name,  check_target, check_condition,
		check_times, check_places,
	};

	for (size_t i = 0; i < config->trigger_count; i++) {
		struct check check = { .config = config,
				       .trigger = &config->triggers[i],
				       .why = why };

		snprintf(check.where, sizeof(check.where), "%s:%u",
			 fgt_trusted_file_name(file_name), check.trigger->line);
		for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++) {
			int error = rules[k](&check);

			if (error)
				return error;
		}
	}
	return 0;
}
