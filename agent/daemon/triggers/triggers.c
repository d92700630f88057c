/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The triggers' life: rules, looks, their ends. Runs in the daemon's loop; must
 * not touch what a job has while it looks.
 */
#include "agent/daemon/triggers/triggers.h"

#include <errno.h>
#include <string.h>

#include "agent/capture/look/state_name.h"
#include "agent/daemon/loop/log.h"
#include "agent/daemon/triggers/trigger.h"

struct fgt_trigger_pace
fgt_trigger_pace_of(const struct fgt_config_trigger *rule)
{
	return (struct fgt_trigger_pace){
		.min_gap_ns = (uint64_t)rule->min_gap_s * 1000000000,
		.max_per_hour = (uint32_t)rule->max_per_hour,
	};
}

/* ---- Looks ---------------------------------------------------------------- */

static void look(struct fgt_triggers *triggers)
{
	triggers->is_looking = true;
	triggers->is_look_due = false;
	STAILQ_CONCAT(&triggers->events, &triggers->waiting);
	triggers->waiting_count = 0;
	fgt_jobs_submit(triggers->jobs, &triggers->job);
}

static void end_events(struct fgt_triggers *triggers,
		       struct fgt_trigger_events *events)
{
	while (!STAILQ_EMPTY(events)) {
		struct fgt_trigger_event *event = STAILQ_FIRST(events);

		STAILQ_REMOVE_HEAD(events, link);
		fgt_trigger_event_end(triggers, event);
	}
}

/* Also where it has not run, as the agent leaves. */
static void looked(void *context)
{
	struct fgt_triggers *triggers = context;

	triggers->is_looking = false;
	triggers->looks++;
	while (!STAILQ_EMPTY(&triggers->firings)) {
		struct fgt_trigger_firing *firing =
			STAILQ_FIRST(&triggers->firings);

		STAILQ_REMOVE_HEAD(&triggers->firings, link);
		if (!triggers->is_leaving)
			fgt_trigger_fire(triggers, firing);
		fgt_trigger_firing_free(firing);
	}
	triggers->firing_count = 0;
	end_events(triggers, &triggers->events);
	if (triggers->is_look_due)
		fgt_triggers_look(triggers);
}

void fgt_triggers_look(struct fgt_triggers *triggers)
{
	if (triggers->count == 0 || triggers->is_leaving)
		return;
	if (triggers->is_looking || triggers->is_held)
		triggers->is_look_due = true;
	else
		look(triggers);
}

void fgt_triggers_hold(struct fgt_triggers *triggers)
{
	triggers->is_held = true;
}

void fgt_triggers_leave(struct fgt_triggers *triggers)
{
	triggers->is_leaving = true;
}

/* ---- Rules ---------------------------------------------------------------- */

static void take_over(struct fgt_trigger *trigger, struct fgt_trigger *former)
{
	trigger->limit = former->limit;
	trigger->fired = former->fired;
	trigger->suppressed = former->suppressed;
	trigger->failed = former->failed;
	trigger->last_ns = former->last_ns;
	trigger->last_wall_ns = former->last_wall_ns;
	trigger->last_pid = former->last_pid;
	memcpy(trigger->last_cause, former->last_cause,
	       sizeof(trigger->last_cause));
}

/* A pattern of another kernel's call is no error, a misspelt one is likely. */
static void warn_of_state(const struct fgt_config_trigger *rule)
{
	const char *nearest;

	if (!rule->when.state ||
	    !fgt_state_is_misspelt(rule->when.state, &nearest))
		return;
	fgt_log(FGT_LOG_WARNING, "trigger_state",
		"trigger %s never fires: no state is called %.64s%s%s: states "
		"are running, runnable, stopped, and names of system calls",
		rule->name, rule->when.state, nearest ? "; did you mean " : "",
		nearest ? nearest : "");
}

static void fill(struct fgt_triggers *triggers, struct fgt_trigger *trigger,
		 const struct fgt_config_trigger *rule)
{
	warn_of_state(rule);
	trigger->rule = rule;
	atomic_init(&trigger->directory, -1);
	snprintf(trigger->name, sizeof(trigger->name), "%s", rule->name);
	for (size_t i = 0; i < triggers->count; i++)
		if (strcmp(triggers->all[i].name, trigger->name) == 0)
			take_over(trigger, &triggers->all[i]);
}

static void drop_all(struct fgt_triggers *triggers)
{
	for (size_t i = 0; i < triggers->count; i++)
		fgt_trigger_drop_watches(&triggers->all[i], false);
	free(triggers->all);
	triggers->all = NULL;
	triggers->count = 0;
}

static bool find_name(const struct fgt_config *config, const char *name,
		      size_t *ret_index)
{
	for (size_t i = 0; i < config->trigger_count; i++)
		if (strcmp(config->triggers[i].name, name) == 0) {
			*ret_index = i;
			return true;
		}
	return false;
}

/* Events that wait are of the triggers with the same names. */
static void move_events(struct fgt_triggers *triggers,
			const struct fgt_config *config)
{
	struct fgt_trigger_events former = STAILQ_HEAD_INITIALIZER(former);

	STAILQ_CONCAT(&former, &triggers->waiting);
	triggers->waiting_count = 0;
	while (!STAILQ_EMPTY(&former)) {
		struct fgt_trigger_event *event = STAILQ_FIRST(&former);
		const char *name = triggers->all[event->trigger].name;

		STAILQ_REMOVE_HEAD(&former, link);
		if (find_name(config, name, &event->trigger)) {
			STAILQ_INSERT_TAIL(&triggers->waiting, event, link);
			triggers->waiting_count++;
		} else {
			fgt_trigger_event_end(triggers, event);
		}
	}
}

int fgt_triggers_set_rules(struct fgt_triggers *triggers,
			   const struct fgt_config *config)
{
	size_t count = config->trigger_count;
	struct fgt_trigger *all = calloc(count + 1, sizeof(*all));
	int r = all ? 0 : -ENOMEM;

	for (size_t i = 0; all && i < count; i++)
		fill(triggers, &all[i], &config->triggers[i]);
	if (all)
		move_events(triggers, config);
	else
		end_events(triggers, &triggers->waiting);
	drop_all(triggers);
	triggers->config = config;
	triggers->all = all;
	triggers->count = all ? count : 0;
	triggers->is_held = false;
	/* Not even a descriptor without triggers. */
	if (triggers->count > 0)
		r = fgt_trigger_files_open(triggers);
	fgt_triggers_look(triggers);
	return r;
}

/* ---- All of them ------------------------------------------------------------ */

int fgt_triggers_new(struct fgt_loop *loop, struct fgt_jobs *jobs,
		     struct fgt_targets *targets,
		     struct fgt_deliveries *deliveries,
		     struct fgt_triggers **ret_triggers)
{
	struct fgt_triggers *triggers = calloc(1, sizeof(*triggers));

	if (!triggers)
		return -ENOMEM;
	triggers->loop = loop;
	triggers->jobs = jobs;
	triggers->targets = targets;
	triggers->deliveries = deliveries;
	triggers->files.fd = -1;
	triggers->job = (struct fgt_job){ .run = fgt_triggers_run_look,
					  .done = looked,
					  .context = triggers };
	STAILQ_INIT(&triggers->waiting);
	STAILQ_INIT(&triggers->events);
	STAILQ_INIT(&triggers->firings);
	*ret_triggers = triggers;
	return 0;
}

void fgt_triggers_free(struct fgt_triggers *triggers)
{
	if (!triggers)
		return;
	end_events(triggers, &triggers->waiting);
	drop_all(triggers);
	fgt_loop_unwatch(triggers->loop, &triggers->files);
	fgt_fd_close(triggers->files.fd);
	free(triggers);
}
