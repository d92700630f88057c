/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a target and what of its life has been delivered. A job looks once a
 * second which targets are continuous; orders are made in the daemon's loop.
 */
#include "agent/daemon/continuous/continuous.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/continuous/chunks.h"
#include "agent/daemon/loop/log.h"
#include "agent/daemon/slices/slices.h"
#include "agent/protocol/transaction_facts.h"
#include "ringbuf/base/clock.h"
#include "upload/format/sentry/sentry_envelope.h"

#define SECOND_NS UINT64_C(1000000000)
#define LEAST_NS  UINT64_C(30000000) /* three ticks at 101 a second */
#define FACTS_MAX 1024
/* Two ticks at the lowest rate, one in 8 s. */
#define NEXT_TICK_NS UINT64_C(17000000000)
#define NO_RULE	     SIZE_MAX

struct stream {
	struct stream *next;
	struct fgt_target *target; /* a reference */
	/* Index into the targets of the configuration; NO_RULE: it is another
	 * one since. */
	size_t rule;
	bool is_seen; /* mark of a look */
	bool has_begun; /* the loop has made its ids */
	struct fgt_chunks chunks;
	char profiler_id[33];
	struct fgt_anchor anchor;
};

/* The job has the streams while is_looking, else the loop. */
struct fgt_continuous {
	struct fgt_jobs *jobs;
	struct fgt_targets *targets;
	struct fgt_deliveries *deliveries;
	const struct fgt_config *config; /* NULL: none yet */
	bool has_rules; /* any target is continuous */
	struct stream *streams;
	struct fgt_job job;
	bool is_looking, is_leaving;
};

static const struct fgt_config_target *
rule_of(const struct fgt_continuous *continuous, const struct stream *stream)
{
	return &continuous->config->targets[stream->rule];
}

static void drop_streams(struct fgt_continuous *continuous, bool unseen_only)
{
	struct stream **place = &continuous->streams;

	while (*place) {
		struct stream *stream = *place;

		if (unseen_only && stream->is_seen) {
			place = &stream->next;
			continue;
		}
		*place = stream->next;
		fgt_target_put(stream->target);
		free(stream);
	}
}

/* ---- The job -------------------------------------------------------------- */

static struct stream *find_stream(const struct fgt_continuous *continuous,
				  const struct fgt_target *target)
{
	struct stream *stream = continuous->streams;

	while (stream && stream->target != target)
		stream = stream->next;
	return stream;
}

static bool find_rule(const struct fgt_config *config,
		      const struct fgt_target *target, size_t *ret_rule)
{
	for (size_t i = 0; i < config->target_count; i++) {
		if (!config->targets[i].is_continuous ||
		    !fgt_targets_is_match(&config->targets[i], target))
			continue;
		*ret_rule = i;
		return true;
	}
	return false;
}

/* One that has ended goes on to be the rule's: its cgroup may be gone. */
static void look_at_target(void *context, struct fgt_target *target)
{
	struct fgt_continuous *continuous = context;
	struct stream *stream = find_stream(continuous, target);
	bool is_alive = fgt_target_is_alive(target);
	size_t rule = NO_RULE;

	if (!find_rule(continuous->config, target, &rule) && stream &&
	    !is_alive)
		rule = stream->rule;
	if (rule == NO_RULE)
		return;
	if (!stream && is_alive) {
		stream = calloc(1, sizeof(*stream));
		if (!stream)
			return; /* the next look tries again */
		stream->target = fgt_target_get(target);
		stream->next = continuous->streams;
		continuous->streams = stream;
	}
	if (!stream)
		return;
	stream->rule = rule;
	stream->is_seen = true;
}

static void run_look(void *context)
{
	struct fgt_continuous *continuous = context;
	struct stream *stream = continuous->streams;

	for (; stream; stream = stream->next)
		stream->is_seen = false;
	fgt_targets_for_each(continuous->targets, look_at_target, continuous);
}

/* ---- Orders --------------------------------------------------------------- */

/* For the tick after a chunk: its own ones must stay in the ring meanwhile. */
static uint64_t patience_ns(const struct fgt_config *config,
			    const struct fgt_chunk *chunk)
{
	uint64_t ring_ns = (uint64_t)(config->ring.seconds - 1) * SECOND_NS;
	uint64_t taken_ns = chunk->to_ns - chunk->from_ns;
	uint64_t room_ns = ring_ns > taken_ns ? ring_ns - taken_ns : 0;

	if (chunk->is_last)
		return 0;
	return room_ns < NEXT_TICK_NS ? room_ns : NEXT_TICK_NS;
}

static int order_chunk(const struct fgt_continuous *continuous,
		       const struct stream *stream,
		       const struct fgt_chunk *chunk, const char *place,
		       struct fgt_why *why)
{
	const struct fgt_config *config = continuous->config;
	const struct fgt_transaction_facts facts = {
		.release = config->upload.release,
		.environment = config->upload.environment,
	};
	uint8_t packed[FACTS_MAX];
	struct fgt_delivery_order order = {
		.pid = fgt_target_pid(stream->target),
		.target = stream->target,
		.kind = FGT_DELIVERY_FILE,
		.fds = FGT_DELIVERY_FDS_NONE,
		.from_ns = chunk->from_ns,
		.to_ns = chunk->to_ns,
		.not_before_ns =
			chunk->to_ns + fgt_slices_grace_ns(stream->target),
		.name = "chunk",
		.is_last_word = chunk->is_last,
		.facts = packed,
		.chunk = { .anchor = stream->anchor,
			   .has_next_tick = *place == '/',
			   .wait_until_ns =
				   chunk->to_ns + patience_ns(config, chunk) },
	};
	int r = fgt_sentry_make_id(order.chunk.chunk_id, 16);

	memcpy(order.chunk.profiler_id, stream->profiler_id,
	       sizeof(order.chunk.profiler_id));
	if (r == 0)
		r = fgt_facts_pack(&facts, packed, sizeof(packed),
				   &order.facts_len);
	if (r < 0)
		return fgt_why_set(why, r, "cannot make its ids: %s",
				   strerror(-r));
	order.event_id = order.chunk.chunk_id;
	return fgt_deliveries_submit_owned(continuous->deliveries, config,
					   &order, place, why);
}

static size_t count_places(const struct fgt_config *config,
			   const struct fgt_config_target *rule)
{
	return rule->deliver_count ? rule->deliver_count
				   : config->upload.destination_count;
}

static const char *place_at(const struct fgt_config *config,
			    const struct fgt_config_target *rule, size_t index)
{
	return rule->deliver_count ? rule->deliver[index]
				   : config->upload.destinations[index].name;
}

static void deliver_chunk(const struct fgt_continuous *continuous,
			  const struct stream *stream,
			  const struct fgt_chunk *chunk)
{
	const struct fgt_config *config = continuous->config;
	const struct fgt_config_target *rule = rule_of(continuous, stream);
	size_t count = count_places(config, rule);

	for (size_t i = 0; i < count; i++) {
		const char *place = place_at(config, rule, i);
		struct fgt_why why;

		if (order_chunk(continuous, stream, chunk, place, &why) < 0)
			fgt_log(FGT_LOG_WARNING, "chunk_lost",
				"pid %d: %.3f s of its life are not delivered "
				"to %.200s: %s",
				fgt_target_pid(stream->target),
				(double)(chunk->to_ns - chunk->from_ns) / 1e9,
				place, why.text);
	}
}

/* Its life begins with its first tick. */
static bool begin(struct stream *stream)
{
	uint64_t now_ns = fgt_loop_now(), wall_ns, oldest_ns, newest_ns;

	if (fgt_ring_range(fgt_target_ring(stream->target), &oldest_ns,
			   &newest_ns) < 0 ||
	    fgt_sentry_make_id(stream->profiler_id, 16) < 0)
		return false;
	wall_ns = fgt_clock_ns(CLOCK_REALTIME);
	stream->anchor = (struct fgt_anchor){
		.mono_ns = oldest_ns,
		.wall_ns = wall_ns - (now_ns - oldest_ns),
	};
	stream->chunks.next_ns = oldest_ns;
	stream->has_begun = true;
	fgt_log(FGT_LOG_INFO, "continuous",
		"pid %d: its whole life is delivered, profiler id %s",
		fgt_target_pid(stream->target), stream->profiler_id);
	return true;
}

static void deliver_due(const struct fgt_continuous *continuous,
			struct stream *stream, uint64_t ended_ns)
{
	const struct fgt_config_target *rule = rule_of(continuous, stream);
	struct fgt_chunk chunk;

	if (!stream->has_begun && !begin(stream))
		return;
	stream->chunks.length_ns = (uint64_t)rule->continuous_s * SECOND_NS;
	while (fgt_chunks_take(&stream->chunks, fgt_loop_now(), ended_ns,
			       LEAST_NS, &chunk))
		deliver_chunk(continuous, stream, &chunk);
}

/* Up to now, or to its end: nothing comes behind it. */
static void deliver_rest(const struct fgt_continuous *continuous,
			 struct stream *stream)
{
	struct fgt_target_status status;

	if (!stream->has_begun || stream->rule == NO_RULE)
		return;
	fgt_target_get_status(stream->target, &status);
	deliver_due(continuous, stream, status.ring.newest_ns);
}

static void deliver_stream(const struct fgt_continuous *continuous,
			   struct stream *stream)
{
	struct fgt_target_status status;

	fgt_target_get_status(stream->target, &status);
	/* One that was not seen has been detached, or has other rules. */
	if (stream->is_seen && status.is_alive && !continuous->is_leaving)
		deliver_due(continuous, stream, 0);
	else
		deliver_rest(continuous, stream);
}

/* Also where it has not run, as the agent leaves. */
static void looked(void *context)
{
	struct fgt_continuous *continuous = context;
	struct stream *stream = continuous->streams;

	continuous->is_looking = false;
	/* It has not seen all of them: the next one will. */
	if (continuous->job.is_lost && !continuous->is_leaving)
		return;
	for (; stream; stream = stream->next)
		deliver_stream(continuous, stream);
	drop_streams(continuous, true);
}

/* ---- Its life ------------------------------------------------------------- */

void fgt_continuous_look(struct fgt_continuous *continuous)
{
	if (!continuous->has_rules || continuous->is_looking ||
	    continuous->is_leaving)
		return;
	continuous->is_looking = true;
	fgt_jobs_submit(continuous->jobs, &continuous->job);
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool has_same_places(const struct fgt_config *config,
			    const struct fgt_config_target *rule,
			    const struct fgt_config *other_config,
			    const struct fgt_config_target *other)
{
	size_t count = count_places(config, rule), i = 0;

	if (count != count_places(other_config, other))
		return false;
	while (i < count && !strcmp(place_at(config, rule, i),
				    place_at(other_config, other, i)))
		i++;
	return i == count;
}

/* The rule of another configuration that delivers the same processes to the
 * same places; NO_RULE: there is none. */
static size_t find_same(const struct fgt_continuous *continuous,
			const struct stream *stream,
			const struct fgt_config *config)
{
	const struct fgt_config_target *rule = rule_of(continuous, stream);

	for (size_t i = 0; i < config->target_count; i++) {
		const struct fgt_config_target *other = &config->targets[i];

		if (other->is_continuous && other->pid == rule->pid &&
		    is_same_text(other->name, rule->name) &&
		    is_same_text(other->exe, rule->exe) &&
		    is_same_text(other->cgroup, rule->cgroup) &&
		    has_same_places(continuous->config, rule, config, other))
			return i;
	}
	return NO_RULE;
}

/* Where a rule goes, its places get what there is up to now. The process may
 * have another rule, by which its life goes on. */
static void change_rule(const struct fgt_continuous *continuous,
			struct stream *stream, const struct fgt_config *config)
{
	size_t rule = stream->rule == NO_RULE
			      ? NO_RULE
			      : find_same(continuous, stream, config);

	if (rule == NO_RULE) {
		deliver_rest(continuous, stream);
		stream->chunks.has_ended = false;
	}
	stream->rule = rule;
}

void fgt_continuous_set_rules(struct fgt_continuous *continuous,
			      const struct fgt_config *config)
{
	for (struct stream *stream = continuous->streams; stream;
	     stream = stream->next)
		change_rule(continuous, stream, config);
	continuous->config = config;
	continuous->has_rules = false;
	for (size_t i = 0; i < config->target_count; i++)
		continuous->has_rules |= config->targets[i].is_continuous;
	if (!continuous->has_rules)
		drop_streams(continuous, false);
}

/* The rings are lost when the agent ends. */
void fgt_continuous_leave(struct fgt_continuous *continuous)
{
	struct stream *stream = continuous->streams;

	continuous->is_leaving = true;
	for (; stream && !continuous->is_looking; stream = stream->next)
		deliver_rest(continuous, stream);
}

bool fgt_continuous_is_idle(const struct fgt_continuous *continuous)
{
	return !continuous->is_looking;
}

int fgt_continuous_new(struct fgt_jobs *jobs, struct fgt_targets *targets,
		       struct fgt_deliveries *deliveries,
		       struct fgt_continuous **ret_continuous)
{
	struct fgt_continuous *continuous = calloc(1, sizeof(*continuous));

	if (!continuous)
		return -ENOMEM;
	continuous->jobs = jobs;
	continuous->targets = targets;
	continuous->deliveries = deliveries;
	continuous->job = (struct fgt_job){ .run = run_look,
					    .done = looked,
					    .context = continuous };
	*ret_continuous = continuous;
	return 0;
}

void fgt_continuous_free(struct fgt_continuous *continuous)
{
	if (!continuous)
		return;
	drop_streams(continuous, false);
	free(continuous);
}
