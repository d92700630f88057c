/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trigger fires: its limits, then a delivery for each of its places. Runs in
 * the daemon's loop; must not log a destination that may hold a secret.
 */
#include <errno.h>
#include <string.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/slices/slices.h"
#include "agent/daemon/triggers/trigger.h"
#include "agent/protocol/transaction_facts.h"
#include "ringbuf/base/clock.h"
#include "upload/format/sentry/sentry_envelope.h"

#define FACTS_MAX  4096
#define NS(second) ((uint64_t)((second)*1e9))

static int make_ids(struct fgt_transaction_facts *facts)
{
	int r = fgt_sentry_make_id(facts->event_id, 16);

	if (r == 0)
		r = fgt_sentry_make_id(facts->trace_id, 16);
	return r == 0 ? fgt_sentry_make_id(facts->span_id, 8) : r;
}

static struct fgt_delivery_order
make_order(const struct fgt_trigger *trigger,
	   const struct fgt_trigger_firing *firing)
{
	const struct fgt_config_trigger *rule = trigger->rule;
	uint64_t window_ns = NS(rule->window_s);
	struct fgt_delivery_order order = {
		.pid = fgt_target_pid(firing->target),
		.target = firing->target,
		.kind = FGT_DELIVERY_FILE,
		.fds = FGT_DELIVERY_FDS_NONE,
		.from_ns = firing->at_ns > window_ns ? firing->at_ns - window_ns
						     : 0,
		.to_ns = firing->at_ns + NS(rule->after_s),
		.name = trigger->name,
		.trigger = { .at_ns = firing->at_ns, .tid = firing->tid },
	};

	order.not_before_ns = order.to_ns + fgt_slices_grace_ns(firing->target);
	snprintf(order.trigger.name, sizeof(order.trigger.name), "%s",
		 trigger->name);
	memcpy(order.trigger.cause, firing->cause, sizeof(order.trigger.cause));
	return order;
}

/* How often it is delivered: for each of the trigger's places, or for each
 * destination. */
static size_t count_places(const struct fgt_triggers *triggers,
			   const struct fgt_config_trigger *rule)
{
	return rule->deliver_count ? rule->deliver_count
				   : triggers->config->upload.destination_count;
}

static const char *place_at(const struct fgt_triggers *triggers,
			    const struct fgt_config_trigger *rule, size_t index)
{
	return rule->deliver_count
		       ? rule->deliver[index]
		       : triggers->config->upload.destinations[index].name;
}

/* A firing on its way to one place. */
struct shot {
	struct fgt_triggers *triggers;
	const struct fgt_trigger *trigger;
	const struct fgt_trigger_firing *firing;
	struct fgt_target_status status;
	bool is_repeated; /* its failure has been logged and counted */
	struct fgt_why why;
};

static int pack_facts(const struct shot *shot, uint8_t *packed, size_t size,
		      struct fgt_delivery_order *order, char ret_id[33])
{
	const struct fgt_config *config = shot->triggers->config;
	char pid[16];
	const struct fgt_tag tags[] = { { "trigger", shot->trigger->name },
					{ "cause", shot->firing->cause },
					{ "process", shot->status.name },
					{ "pid", pid } };
	/* Without times: they are the slice's own. */
	struct fgt_transaction_facts facts = {
		.name = shot->trigger->name,
		.op = "trigger",
		.release = config->upload.release,
		.environment = config->upload.environment,
		.tags = tags,
		.tag_count = sizeof(tags) / sizeof(tags[0]),
	};
	int r = make_ids(&facts);

	snprintf(pid, sizeof(pid), "%d", order->pid);
	if (r < 0)
		return r;
	memcpy(ret_id, facts.event_id, sizeof(facts.event_id));
	return fgt_facts_pack(&facts, packed, size, &order->facts_len);
}

static int shoot(struct shot *shot, const char *place)
{
	struct fgt_delivery_order order =
		make_order(shot->trigger, shot->firing);
	uint8_t packed[FACTS_MAX];
	char id[33];
	int r = pack_facts(shot, packed, sizeof(packed), &order, id);

	if (r < 0)
		return fgt_why_set(&shot->why, r, "cannot pack its facts: %s",
				   strerror(-r));
	order.facts = packed;
	order.event_id = id;
	order.is_repeated = shot->is_repeated;
	return fgt_deliveries_submit_owned(shot->triggers->deliveries,
					   shot->triggers->config, &order,
					   place, &shot->why);
}

/* Returns how many slices were queued. */
static size_t shoot_at_all(struct shot *shot)
{
	const struct fgt_config_trigger *rule = shot->trigger->rule;
	size_t count = count_places(shot->triggers, rule), queued = 0;

	for (size_t i = 0; i < count; i++) {
		const char *place = place_at(shot->triggers, rule, i);

		if (shoot(shot, place) == 0)
			queued++;
		else if (!shot->is_repeated)
			fgt_log(FGT_LOG_WARNING, "trigger_failed",
				"%s: pid %d: no slice to %.200s: %s",
				shot->trigger->name, shot->status.pid, place,
				shot->why.text);
	}
	return queued;
}

static void note_fired(struct fgt_trigger *trigger,
		       const struct fgt_trigger_firing *firing,
		       const struct fgt_target_status *status)
{
	trigger->fired++;
	trigger->last_ns = firing->at_ns;
	trigger->last_wall_ns = fgt_clock_ns(CLOCK_REALTIME);
	trigger->last_pid = status->pid;
	memcpy(trigger->last_cause, firing->cause, sizeof(trigger->last_cause));
	fgt_log(FGT_LOG_INFO, "trigger_fired", "%s: pid %d (%s): %s",
		trigger->name, status->pid, status->name, firing->cause);
}

static void count_suppressed(struct fgt_trigger *trigger,
			     const struct fgt_trigger_firing *firing)
{
	trigger->suppressed++;
	fgt_log(FGT_LOG_INFO, "trigger_suppressed",
		"%s: pid %d: %s: min_gap_s or max_per_hour forbid another "
		"slice now",
		trigger->name, fgt_target_pid(firing->target), firing->cause);
}

/* False: the gap, or the cap of an hour; counted once for an episode, and once
 * for an event. */
static bool may_fire(struct fgt_trigger *trigger,
		     const struct fgt_trigger_firing *firing)
{
	const struct fgt_trigger_pace pace = fgt_trigger_pace_of(trigger->rule);
	struct fgt_trigger_event *event = firing->event;
	bool is_free = fgt_trigger_limit_next(&trigger->limit, &pace) <=
		       fgt_loop_now();

	/* The owner who tries a trigger is not limited. */
	if (event && event->kind == FGT_TRIGGER_TRIED)
		return true;
	if (event && event->verdict != FGT_TRIGGER_UNDECIDED)
		return event->verdict == FGT_TRIGGER_ADMITTED;
	if (event)
		event->verdict = is_free ? FGT_TRIGGER_ADMITTED
					 : FGT_TRIGGER_REFUSED;
	if (is_free)
		return true;
	if (event || !firing->watch->is_suppressed)
		count_suppressed(trigger, firing);
	if (!event)
		firing->watch->is_suppressed = true;
	return false;
}

/* An event is taken from the limits once, for all its targets. */
static void take_from_limits(struct fgt_trigger *trigger,
			     const struct fgt_trigger_firing *firing)
{
	const struct fgt_trigger_event *event = firing->event;

	if (!event || (event->kind != FGT_TRIGGER_TRIED && event->fired == 0))
		fgt_trigger_limit_note(&trigger->limit, fgt_loop_now());
}

void fgt_trigger_fire(struct fgt_triggers *triggers,
		      struct fgt_trigger_firing *firing)
{
	struct fgt_trigger *trigger = &triggers->all[firing->trigger];
	struct shot shot = { .triggers = triggers,
			     .trigger = trigger,
			     .firing = firing };
	struct fgt_trigger_watch *watch = firing->watch;
	size_t queued;

	if (!may_fire(trigger, firing))
		return;
	fgt_target_get_status(firing->target, &shot.status);
	shot.is_repeated = watch && watch->has_failed;
	queued = shoot_at_all(&shot);
	if (queued > 0)
		take_from_limits(trigger, firing);
	if (firing->event) {
		firing->event->fired += queued;
		firing->event->why = shot.why;
	}
	if (queued == 0) {
		/* An episode that goes on is tried again. */
		trigger->failed += !shot.is_repeated;
		if (watch)
			watch->has_failed = true;
		return;
	}
	if (watch)
		watch->is_served = true;
	note_fired(trigger, firing, &shot.status);
}
