/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists targets in replies and finds the one that a request means. Runs in the
 * daemon's loop, names of targets in jobs too. Must give a client the same
 * answer for a process that is not there and for one that it may not see.
 */
#include "agent/daemon/targets/targets.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/targets/target_table.h"

/* ---- Which target ------------------------------------------------------ */

int fgt_selector_take(const struct fgt_control_client *client,
		      const struct fgt_request_selector *asked,
		      struct fgt_selector *ret_selector, struct fgt_why *why)
{
	const struct fgt_peer *peer = fgt_control_peer(client);
	struct fgt_selector selector = {
		.pid = asked->pid,
		.name = asked->name[0] ? asked->name : NULL,
	};

	if (selector.pid != 0 && !fgt_pid_means_the_same_to(peer))
		return fgt_why_set(why, -EINVAL,
				   "pid %d may be another process to the agent "
				   "(pid namespaces differ or cannot be "
				   "read): use the name",
				   selector.pid);
	/* A process need not know its pid in the agent's namespace. */
	if (asked->is_self) {
		selector.pid = peer->pid;
		selector.is_own = peer->is_sender;
	}
	*ret_selector = selector;
	return 0;
}

/* A program that asks for itself may see its own past, whatever its rights.
 * Still that process: the pid is not another's by now. */
static struct fgt_gate gate_of(const struct fgt_target_entry *entry,
			       const struct fgt_peer *peer,
			       const struct fgt_selector *selector)
{
	struct fgt_gate gate = { .peer = *peer, .asked_ns = fgt_loop_now() };

	if (selector->is_own && entry->pid == selector->pid &&
	    fgt_target_entry_is_running(entry))
		gate.program = fgt_gate_program_of(peer, entry->target);
	return gate;
}

int fgt_target_list_none_found(const struct fgt_selector *selector,
			       struct fgt_why *why)
{
	static const char remedy[] = "'fgtrace-agent targets' lists yours, "
				     "'attach' adds one";

	if (selector->pid != 0)
		return fgt_why_set(why, -ESRCH,
				   "no target with pid %d that you may see: %s",
				   selector->pid, remedy);
	if (selector->name)
		return fgt_why_set(why, -ESRCH,
				   "no target named %s that you may see: %s",
				   selector->name, remedy);
	return fgt_why_set(why, -ESRCH,
			   "no target that you may see: add one with "
			   "'fgtrace-agent attach PID'");
}

/* Under the lock. */
static int choose(struct fgt_targets *targets, const struct fgt_peer *peer,
		  const struct fgt_selector *selector,
		  struct fgt_target **ret_target, struct fgt_gate *ret_gate,
		  struct fgt_why *why)
{
	struct fgt_target_table *table = &targets->table;
	const struct fgt_target_entry *chosen = NULL;
	size_t live = 0, ended = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct fgt_target_entry *entry = &table->entries[i];
		struct fgt_gate_range range;
		struct fgt_gate gate;

		if (!fgt_target_entry_is_match(entry, selector))
			continue;
		gate = gate_of(entry, peer, selector);
		if (fgt_gate_ask(&gate, entry->target, &range) < 0)
			continue;
		if (fgt_target_entry_is_live(entry))
			live++;
		else
			ended++;
		if (!chosen || fgt_target_entry_is_live(entry)) {
			chosen = entry;
			*ret_gate = gate;
		}
	}
	if (!chosen)
		return fgt_target_list_none_found(selector, why);
	if (live > 1 || (live == 0 && ended > 1))
		return fgt_why_set(why, -ENOTUNIQ,
				   "%zu targets match: name one with -p PID",
				   live ? live : ended);
	*ret_target = fgt_target_get(chosen->target);
	return 0;
}

int fgt_target_list_find(struct fgt_targets *targets,
			 const struct fgt_peer *peer,
			 const struct fgt_selector *selector,
			 struct fgt_target **ret_target,
			 struct fgt_gate *ret_gate, struct fgt_why *why)
{
	int r;

	pthread_mutex_lock(&targets->lock);
	r = choose(targets, peer, selector, ret_target, ret_gate, why);
	pthread_mutex_unlock(&targets->lock);
	return r;
}

/* ---- In replies -------------------------------------------------------- */

static void add_identity(struct fgt_builder *builder,
			 const struct fgt_target_entry *entry,
			 const struct fgt_target_status *status)
{
	fgt_builder_int(builder, "pid", status->pid);
	fgt_builder_int(builder, "parent_pid", entry->parent_pid);
	fgt_builder_uint(builder, "uid", status->uid);
	fgt_builder_uint(builder, "start_time", status->start_time);
	fgt_builder_string(builder, "name", status->name);
	fgt_builder_string(builder, "exe", status->exe);
	fgt_builder_string(builder, "title", status->title);
	fgt_builder_string(builder, "origin", fgt_origin_name(entry->origin));
	fgt_builder_bool(builder, "with_children", entry->is_with_children);
	fgt_builder_bool(builder, "alive", status->is_alive);
	fgt_builder_uint(builder, "attached_ns", status->attached_ns);
	fgt_builder_uint(builder, "ended_ns", status->ended_ns);
	if (status->ended_by[0])
		fgt_builder_string(builder, "ended_by", status->ended_by);
}

/* A map of what is known of its service; "name" is always there. */
static void add_service(struct fgt_builder *builder,
			const struct fgt_target_status *status)
{
	const struct fgt_service *service = &status->service;
	char name[FGT_SERVICE_TEXT_MAX];

	fgt_service_name(service, status->name, name);
	fgt_builder_map_begin(builder, "service");
	fgt_builder_string(builder, fgt_service_texts[0].key, name);
	for (size_t i = 1; i < FGT_SERVICE_TEXTS; i++)
		if (*fgt_service_text_of(service, i))
			fgt_builder_string(builder, fgt_service_texts[i].key,
					   fgt_service_text_of(service, i));
	fgt_builder_map_end(builder);
}

static void add_sampling(struct fgt_builder *builder,
			 const struct fgt_target_status *status)
{
	fgt_builder_uint(builder, "threads", status->threads);
	fgt_builder_uint(builder, "ticks", status->ticks);
	fgt_builder_uint(builder, "missed_ticks", status->missed_ticks);
	fgt_builder_uint(builder, "samples_running", status->samples_running);
	fgt_builder_uint(builder, "samples_blocked", status->samples_blocked);
	fgt_builder_uint(builder, "torn", status->torn);
	fgt_builder_uint(builder, "lost_waker_stacks",
			 status->lost_waker_stacks);
	fgt_builder_uint(builder, "credited_ticks", status->credited_ticks);
	fgt_builder_uint(builder, "brief_threads", status->brief_threads);
	fgt_builder_uint(builder, "brief_cpu_ns", status->brief_cpu_ns);
	fgt_builder_uint(builder, "unsampled_children",
			 status->unsampled_children);
	fgt_builder_uint(builder, "rate_periods", status->rate_periods);
	fgt_builder_double(builder, "effective_hz", status->effective_hz);
	fgt_builder_double(builder, "rate_hz", status->rate_hz);
	fgt_builder_string(builder, "rate_note", status->rate_note);
	fgt_builder_double(builder, "cpu_percent", status->cpu_percent);
	fgt_builder_string(builder, "who_ran",
			   status->who_ran ? status->who_ran : "");
	fgt_builder_string(builder, "running",
			   status->running ? status->running : "");
	fgt_builder_string(builder, "limitation", status->limitation);
}

static void add_unwinding(struct fgt_builder *builder,
			  const struct fgt_unwind_stats *unwind)
{
	uint64_t truncated = 0;

	for (int i = 0; i < FGT_MARKER_COUNT; i++)
		truncated += unwind->truncated[i];
	fgt_builder_uint(builder, "stacks", unwind->stacks);
	fgt_builder_uint(builder, "stacks_complete", unwind->complete);
	fgt_builder_uint(builder, "stacks_truncated", truncated);
	fgt_builder_uint(builder, "fp_needed", unwind->fp_needed);
	fgt_builder_uint(builder, "fp_recovered", unwind->fp_recovered);
}

static void add_ring(struct fgt_builder *builder,
		     const struct fgt_ring_stats *ring)
{
	fgt_builder_uint(builder, "oldest_ns", ring->oldest_ns);
	fgt_builder_uint(builder, "newest_ns", ring->newest_ns);
	fgt_builder_uint(builder, "ring_ticks", ring->ticks);
	fgt_builder_uint(builder, "ring_changes", ring->changes);
	fgt_builder_uint(builder, "ring_overflows", ring->overflows);
	fgt_builder_uint(builder, "ring_lost_waits", ring->lost_waits);
	fgt_builder_uint(builder, "ring_lost_wakes", ring->lost_wakes);
	fgt_builder_uint(builder, "ring_evicted_ticks", ring->evicted_ticks);
	fgt_builder_uint(builder, "ring_log_used_bytes", ring->log_used_bytes);
	fgt_builder_uint(builder, "ring_log_size_bytes", ring->log_size_bytes);
	fgt_builder_uint(builder, "ring_nodes", ring->nodes);
	fgt_builder_uint(builder, "ring_frames", ring->frames);
	fgt_builder_uint(builder, "ring_images", ring->images);
	fgt_builder_uint(builder, "ring_threads", ring->threads);
	fgt_builder_uint(builder, "ring_size_bytes", ring->size_bytes);
}

void fgt_target_list_put_name(struct fgt_builder *builder,
			      const struct fgt_target *target)
{
	struct fgt_target_status status;

	fgt_target_get_status(target, &status);
	fgt_builder_map_begin(builder, NULL);
	fgt_builder_int(builder, "pid", status.pid);
	fgt_builder_string(builder, "name", status.name);
	fgt_builder_bool(builder, "ended", !status.is_alive);
	fgt_builder_map_end(builder);
}

static void put_target(struct fgt_builder *builder,
		       const struct fgt_target_entry *entry)
{
	struct fgt_target_status status;

	fgt_target_get_status(entry->target, &status);
	fgt_builder_map_begin(builder, NULL);
	add_identity(builder, entry, &status);
	add_service(builder, &status);
	add_sampling(builder, &status);
	add_unwinding(builder, &status.unwind);
	add_ring(builder, &status.ring);
	fgt_builder_map_end(builder);
}

static void put_names(const struct fgt_targets *targets,
		      const struct fgt_peer *peer,
		      const struct fgt_selector *selector, bool running_only,
		      struct fgt_builder *builder)
{
	const struct fgt_target_entry *entry = targets->table.entries;

	fgt_builder_array_begin(builder, "targets");
	for (size_t i = 0; i < targets->table.count; i++, entry++)
		if (fgt_target_entry_is_match(entry, selector) &&
		    fgt_target_entry_is_visible(entry, peer) &&
		    (!running_only || fgt_target_entry_is_running(entry)))
			fgt_target_list_put_name(builder, entry->target);
	fgt_builder_array_end(builder);
}

void fgt_target_list_put_names(struct fgt_targets *targets,
			       const struct fgt_peer *peer,
			       const struct fgt_selector *selector,
			       struct fgt_builder *builder)
{
	pthread_mutex_lock(&targets->lock);
	put_names(targets, peer, selector, false, builder);
	pthread_mutex_unlock(&targets->lock);
}

void fgt_target_list_put_running(const struct fgt_targets *targets,
				 const struct fgt_peer *peer,
				 const struct fgt_selector *selector,
				 struct fgt_builder *builder)
{
	put_names(targets, peer, selector, true, builder);
}

static void put_rules(const struct fgt_targets *targets,
		      const struct fgt_peer *peer, struct fgt_builder *builder)
{
	fgt_builder_array_begin(builder, "rules");
	for (size_t i = 0; i < targets->name_count; i++) {
		const struct fgt_name_rule *rule = &targets->names[i];

		if (!peer->is_root &&
		    (peer->is_stranger || peer->uid != rule->peer.uid))
			continue;
		fgt_builder_map_begin(builder, NULL);
		fgt_builder_string(builder, "name", rule->name);
		fgt_builder_uint(builder, "uid", rule->peer.uid);
		fgt_builder_bool(builder, "with_children",
				 rule->is_with_children);
		fgt_builder_map_end(builder);
	}
	fgt_builder_array_end(builder);
}

size_t fgt_target_list_put(struct fgt_targets *targets,
			   const struct fgt_peer *peer,
			   struct fgt_builder *builder)
{
	const struct fgt_target_entry *entry;
	size_t count = 0;

	pthread_mutex_lock(&targets->lock);
	entry = targets->table.entries;
	fgt_builder_array_begin(builder, "targets");
	for (size_t i = 0; i < targets->table.count; i++, entry++)
		if (entry->target && fgt_target_entry_is_visible(entry, peer)) {
			put_target(builder, entry);
			count++;
		}
	fgt_builder_array_end(builder);
	put_rules(targets, peer, builder);
	pthread_mutex_unlock(&targets->lock);
	return count;
}

void fgt_target_list_handle(void *context, struct fgt_control_client *client,
			    const struct fgt_request *request)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;

	(void)request;
	if (fgt_builder_new_reply(&builder) == 0)
		(void)fgt_target_list_put(context, fgt_control_peer(client),
					  builder);
	fgt_control_reply(client, builder);
}
