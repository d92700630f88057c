/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verb triggers: lists them, and fires one on request. Runs in the daemon's
 * loop; only for the agent's user and root, whose slices they are.
 */
#include <errno.h>
#include <string.h>

#include "agent/daemon/triggers/trigger.h"
#include "ringbuf/base/nearest.h"

#define TEXT_MAX 600

/* ---- In words -------------------------------------------------------------- */

static void describe_target(const struct fgt_config_trigger *rule,
			    char *ret_text, size_t size)
{
	if (rule->target)
		snprintf(ret_text, size, "%s", rule->target);
	else if (rule->exe)
		snprintf(ret_text, size, "exe %s", rule->exe);
	else if (rule->cgroup)
		snprintf(ret_text, size, "cgroup %s", rule->cgroup);
	else if (rule->pid)
		snprintf(ret_text, size, "pid %d", rule->pid);
	else
		snprintf(ret_text, size, "all targets");
}

static void describe_when(const struct fgt_config_trigger *rule, char *ret_text,
			  size_t size)
{
	if (rule->when.cpu_percent > 0)
		snprintf(ret_text, size, "cpu_percent %g for %g s",
			 rule->when.cpu_percent, rule->when.for_s);
	else if (rule->when.asleep_s > 0)
		snprintf(ret_text, size, "asleep for %g s",
			 rule->when.asleep_s);
	else if (rule->when.state)
		snprintf(ret_text, size, "state %s for %g s, thread %s",
			 rule->when.state, rule->when.longer_s,
			 rule->when.thread ? rule->when.thread : "*");
	else if (rule->when.starved_s > 0)
		snprintf(ret_text, size, "starved for %g s",
			 rule->when.starved_s);
	else if (rule->when.signal)
		snprintf(ret_text, size, "signal %s", rule->when.signal);
	else if (rule->when.file)
		snprintf(ret_text, size, "file %s", rule->when.file);
	else if (rule->when.transaction_ms)
		snprintf(ret_text, size, "transaction %s over %d ms",
			 rule->when.transaction ? rule->when.transaction : "*",
			 rule->when.transaction_ms);
	else if (rule->when.is_deadlocked)
		snprintf(ret_text, size, "deadlock");
	else
		snprintf(ret_text, size, "killed by a signal");
}

static void put_places(struct fgt_builder *builder,
		       const struct fgt_config *config,
		       const struct fgt_config_trigger *rule)
{
	char text[TEXT_MAX] = "";
	size_t used = 0;
	size_t count = rule->deliver_count ? rule->deliver_count
					   : config->upload.destination_count;

	for (size_t i = 0; i < count && used < sizeof(text); i++)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used, "%s%s", i ? " " : "",
			rule->deliver_count
				? rule->deliver[i]
				: config->upload.destinations[i].name);
	fgt_builder_string(builder, "deliver", text);
}

/* ---- The list --------------------------------------------------------------- */

static void put_rule(struct fgt_builder *builder,
		     const struct fgt_config *config,
		     const struct fgt_config_trigger *rule)
{
	char text[TEXT_MAX];

	fgt_builder_string(builder, "name", rule->name);
	describe_target(rule, text, sizeof(text));
	fgt_builder_string(builder, "target", text);
	describe_when(rule, text, sizeof(text));
	fgt_builder_string(builder, "when", text);
	fgt_builder_double(builder, "window_s", rule->window_s);
	fgt_builder_double(builder, "after_s", rule->after_s);
	put_places(builder, config, rule);
	fgt_builder_int(builder, "min_gap_s", rule->min_gap_s);
	fgt_builder_int(builder, "max_per_hour", rule->max_per_hour);
}

static void put_trigger(struct fgt_builder *builder,
			const struct fgt_triggers *triggers,
			const struct fgt_trigger *trigger)
{
	const struct fgt_trigger_pace pace = fgt_trigger_pace_of(trigger->rule);
	uint64_t next_ns = fgt_trigger_limit_next(&trigger->limit, &pace);
	uint64_t now_ns = fgt_loop_now();

	fgt_builder_map_begin(builder, NULL);
	put_rule(builder, triggers->config, trigger->rule);
	/* A look that is under way counts them at this moment. */
	fgt_builder_uint(
		builder, "targets",
		atomic_load_explicit(&trigger->targets, memory_order_relaxed));
	fgt_builder_uint(builder, "fired", trigger->fired);
	fgt_builder_uint(builder, "suppressed", trigger->suppressed);
	fgt_builder_uint(builder, "failed", trigger->failed);
	fgt_builder_uint(builder, "last_ns", trigger->last_ns);
	fgt_builder_uint(builder, "last_wall_ns", trigger->last_wall_ns);
	fgt_builder_int(builder, "last_pid", trigger->last_pid);
	fgt_builder_string(builder, "last_cause", trigger->last_cause);
	fgt_builder_uint(builder, "next_in_ns",
			 next_ns > now_ns ? next_ns - now_ns : 0);
	fgt_builder_map_end(builder);
}

static void put_all(struct fgt_builder *builder,
		    const struct fgt_triggers *triggers)
{
	fgt_builder_array_begin(builder, "triggers");
	for (size_t i = 0; i < triggers->count; i++)
		put_trigger(builder, triggers, &triggers->all[i]);
	fgt_builder_array_end(builder);
	fgt_builder_uint(builder, "looks", triggers->looks);
	fgt_builder_uint(
		builder, "look_ns",
		atomic_load_explicit(&triggers->look_ns, memory_order_relaxed));
}

/* ---- One that is tried ------------------------------------------------------ */

static void client_gone(void *context)
{
	struct fgt_trigger_event *event = context;

	event->client = NULL;
}

static int find_trigger(const struct fgt_triggers *triggers, const char *name,
			size_t *ret_index, struct fgt_why *why)
{
	struct fgt_nearest nearest;

	fgt_nearest_init(&nearest, name);
	for (size_t i = 0; i < triggers->count; i++) {
		fgt_nearest_offer(&nearest, triggers->all[i].name);
		if (strcmp(triggers->all[i].name, name) != 0)
			continue;
		*ret_index = i;
		return 0;
	}
	return fgt_why_set(why, -ESRCH,
			   "no trigger is called %s%s%s: 'fgtrace-agent "
			   "triggers' lists them",
			   name, nearest.best ? "; did you mean " : "",
			   nearest.best ? nearest.best : "");
}

static void try(struct fgt_triggers *triggers,
		struct fgt_control_client *client, const char *name)
{
	struct fgt_trigger_event *event;
	struct fgt_why why;
	size_t index;
	int r = find_trigger(triggers, name, &index, &why);

	if (r < 0) {
		fgt_control_fail(client, r, why.text);
		return;
	}
	event = fgt_trigger_event_add(triggers, index, NULL,
				      "tried by 'fgtrace-agent triggers try'");
	if (!event) {
		fgt_control_fail(client, -EBUSY,
				 "too many events wait: try again");
		return;
	}
	event->kind = FGT_TRIGGER_TRIED;
	event->client = client;
	fgt_control_park(client, client_gone, event);
}

static void answer(const struct fgt_triggers *triggers,
		   const struct fgt_trigger_event *event)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	if (triggers->is_leaving) {
		fgt_control_fail(event->client, -ESHUTDOWN,
				 FGT_AGENT_IS_LEAVING);
	} else if (event->fired == 0 && event->why.text[0]) {
		fgt_control_fail(event->client, -EIO, event->why.text);
	} else if (event->fired == 0) {
		fgt_control_fail(event->client, -ESRCH,
				 "no target that it applies to runs: "
				 "'fgtrace-agent targets' lists them, 'attach' "
				 "adds one");
	} else {
		if (fgt_builder_new_reply(&builder) == 0) {
			fgt_builder_uint(builder, "fired", event->fired);
			put_all(builder, triggers);
		}
		fgt_control_reply(event->client, builder);
	}
}

void fgt_trigger_event_end(struct fgt_triggers *triggers,
			   struct fgt_trigger_event *event)
{
	if (event->client)
		answer(triggers, event);
	fgt_trigger_event_free(event);
}

/* ---- The verb --------------------------------------------------------------- */

void fgt_triggers_handle(void *context, struct fgt_control_client *client,
			 const struct fgt_request *request)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	struct fgt_triggers *triggers = context;
	const struct fgt_peer *peer = fgt_control_peer(client);

	if (!peer->is_root && (peer->is_stranger || peer->uid != geteuid())) {
		fgt_control_fail(client, -EPERM,
				 "triggers are for root and the user who runs "
				 "the agent only");
		return;
	}
	if (request->triggers.name[0]) {
		try(triggers, client, request->triggers.name);
		return;
	}
	if (fgt_builder_new_reply(&builder) == 0)
		put_all(builder, triggers);
	fgt_control_reply(client, builder);
}
