/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which processes are sampled. Runs on the thread of jobs, since
 * attaching waits for the sampler; looks through the process table only if a
 * rule or a child may be found there; must not confuse two processes with the
 * same pid.
 */
#include "agent/daemon/targets/targets.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/targets/death.h"
#include "agent/daemon/targets/target_table.h"
#include "ringbuf/base/array.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/memory_limit.h"

#define ROWS_MAX  65536
#define DEPTH_MAX 64 /* generations of children found in one scan */

/* What a scan keeps of a process. */
struct row {
	int32_t pid, parent_pid;
	uint64_t start_time;
	bool is_tried; /* as a child, in this scan */
};

struct scan {
	struct fgt_targets *targets;
	struct row *rows;
	size_t count, capacity;
	uint64_t now_ns;
};

int fgt_targets_new(struct fgt_sampler *sampler, struct fgt_jobs *jobs,
		    uint64_t kept_ns, struct fgt_targets **ret_targets)
{
	struct fgt_targets *targets = calloc(1, sizeof(*targets));

	if (!targets)
		return -ENOMEM;
	targets->sampler = sampler;
	targets->jobs = jobs;
	targets->kept_ns = kept_ns;
	targets->memory_limit = fgt_memory_limit();
	atomic_init(&targets->is_leaving, false);
	pthread_mutex_init(&targets->lock, NULL);
	*ret_targets = targets;
	return 0;
}

void fgt_targets_leave(struct fgt_targets *targets)
{
	atomic_store_explicit(&targets->is_leaving, true, memory_order_relaxed);
}

void fgt_targets_free(struct fgt_targets *targets)
{
	if (!targets)
		return;
	for (size_t i = 0; i < targets->table.count; i++)
		fgt_attaching_stop(targets, &targets->table.entries[i],
				   "the agent leaves");
	fgt_target_table_done(&targets->table);
	pthread_mutex_destroy(&targets->lock);
	free(targets);
}

/* ---- The process table ------------------------------------------------- */

/* Could the user who made the rule trace the process? */
static bool is_of_user(const struct fgt_name_rule *rule,
		       const struct fgt_process_info *info)
{
	const struct fgt_peer *peer = &rule->peer;
	struct fgt_owner owner;

	return peer->is_root ||
	       (fgt_owner_read(info->pid, info->start_time, &owner) == 0 &&
		fgt_owner_is_visible_to(&owner, peer));
}

static int keep_row(struct scan *scan, const struct fgt_process_info *info,
		    int32_t parent_pid)
{
	if (scan->count == ROWS_MAX)
		return -E2BIG;
	if (FGT_ARRAY_GROW(scan->rows, scan->count, scan->capacity) < 0)
		return -ENOMEM;
	scan->rows[scan->count++] = (struct row){
		.pid = info->pid,
		.parent_pid = parent_pid,
		.start_time = info->start_time,
	};
	return 0;
}

/* Rules of the configuration go first. False: no rule wants the process. */
static bool find_cause(const struct fgt_targets *targets,
		       const struct fgt_process_info *info,
		       struct fgt_attach_cause *ret_cause)
{
	const struct fgt_config *config = targets->config;
	bool is_self = info->pid == getpid();

	for (size_t i = 0; i < config->target_count; i++) {
		const struct fgt_config_target *rule = &config->targets[i];

		if ((is_self && !config->sampling.is_self_included) ||
		    !fgt_rule_is_match(rule, info))
			continue;
		*ret_cause = (struct fgt_attach_cause){
			.origin = FGT_ORIGIN_CONFIGURED,
			.is_with_children = rule->is_with_children,
		};
		return true;
	}
	for (size_t i = 0; i < targets->name_count; i++) {
		const struct fgt_name_rule *rule = &targets->names[i];

		if (is_self ||
		    !fgt_rule_is_name(rule->name, info->name, info->exe) ||
		    !is_of_user(rule, info))
			continue;
		*ret_cause = (struct fgt_attach_cause){
			.origin = FGT_ORIGIN_ATTACHED,
			.is_with_children = rule->is_with_children,
			.charged_uid = fgt_charged_uid(&rule->peer),
			.peer = rule->peer,
		};
		return true;
	}
	return false;
}

static int visit_process(void *context, const struct fgt_process_info *info,
			 int32_t parent_pid)
{
	struct scan *scan = context;
	struct fgt_targets *targets = scan->targets;
	struct fgt_target_entry *entry = fgt_target_table_find(
		&targets->table, info->pid, info->start_time);
	struct fgt_attach_cause cause;
	int r = atomic_load_explicit(&targets->is_leaving, memory_order_relaxed)
			? -ESHUTDOWN
			: keep_row(scan, info, parent_pid);

	if (r < 0)
		return r;
	if (entry)
		entry->is_seen = true;
	if (entry && entry->is_wanted &&
	    (entry->target || scan->now_ns < entry->retry_ns))
		return 0;
	if (!find_cause(targets, info, &cause))
		return 0;
	if (entry && entry->target) {
		entry->is_wanted = true; /* by the new rules, too */
		pthread_mutex_lock(&targets->lock);
		entry->is_with_children = cause.is_with_children;
		pthread_mutex_unlock(&targets->lock);
		return 0;
	}
	fgt_attaching_found(targets, info->pid, info->start_time, &cause,
			    scan->now_ns);
	return 0;
}

/* One generation; true if a child is sampled now. */
static bool attach_children(struct scan *scan)
{
	struct fgt_targets *targets = scan->targets;
	bool has_found = false;

	for (size_t i = 0; i < scan->count; i++) {
		struct row *row = &scan->rows[i];
		const struct fgt_target_entry *parent =
			fgt_target_table_find_live(&targets->table,
						   row->parent_pid);
		const struct fgt_target_entry *entry;

		if (row->is_tried || !parent || !parent->is_with_children)
			continue;
		entry = fgt_target_table_find(&targets->table, row->pid,
					      row->start_time);
		if (entry && (entry->target || scan->now_ns < entry->retry_ns))
			continue;
		row->is_tried = true;
		has_found |= fgt_attaching_found(
			targets, row->pid, row->start_time,
			&(struct fgt_attach_cause){
				.origin = FGT_ORIGIN_CHILD,
				.parent_pid = row->parent_pid,
				.is_with_children = true,
				.charged_uid = parent->charged_uid },
			scan->now_ns);
	}
	return has_found;
}

static bool is_scan_needed(const struct fgt_targets *targets)
{
	if (targets->name_count > 0)
		return true;
	for (size_t i = 0; i < targets->config->target_count; i++)
		if (targets->config->targets[i].pid == 0)
			return true;
	for (size_t i = 0; i < targets->table.count; i++)
		if (targets->table.entries[i].is_with_children &&
		    fgt_target_entry_is_live(&targets->table.entries[i]))
			return true;
	return false;
}

static void look_for_processes(struct fgt_targets *targets, uint64_t now_ns)
{
	struct scan scan = { .targets = targets, .now_ns = now_ns };
	struct fgt_target_table *table = &targets->table;
	bool is_needed = is_scan_needed(targets);

	for (size_t i = 0; i < table->count; i++)
		table->entries[i].is_seen = false;
	if (is_needed) {
		(void)fgt_process_for_each(visit_process, &scan);
		for (int i = 0; i < DEPTH_MAX && attach_children(&scan); i++)
			;
		free(scan.rows);
	}
	/* The sampler has logged it, and refuses them from now on. */
	(void)fgt_attaching_settle(targets, NULL);
	fgt_attaching_log_others(targets, now_ns);
	/* Entries without a ring only keep a process from being tried. */
	for (size_t i = table->count; i-- > 0;)
		if (!table->entries[i].target && !table->entries[i].is_seen)
			fgt_attaching_remove(targets, i);
}

static void attach_rule_pid(struct fgt_targets *targets,
			    const struct fgt_config_target *rule,
			    uint64_t now_ns)
{
	struct fgt_process process;
	struct fgt_why why = { "" };
	int r = fgt_process_open(rule->pid, &process, &why);

	if (r < 0) {
		fgt_log(FGT_LOG_WARNING, "target_not_attached", "pid %d: %s",
			rule->pid, why.text);
		return;
	}
	fgt_attaching_found(
		targets, rule->pid, process.start_time,
		&(struct fgt_attach_cause){ .origin = FGT_ORIGIN_CONFIGURED,
					    .is_with_children =
						    rule->is_with_children },
		now_ns);
	fgt_process_close(&process);
}

static void drop_unwanted(struct fgt_targets *targets, const char *reason)
{
	struct fgt_target_table *table = &targets->table;

	fgt_target_table_unwant_children(table);
	for (size_t i = table->count; i-- > 0;)
		if (!table->entries[i].is_wanted) {
			fgt_attaching_stop(targets, &table->entries[i], reason);
			fgt_attaching_remove(targets, i);
		}
}

void fgt_targets_set_rules(struct fgt_targets *targets,
			   const struct fgt_config *config)
{
	struct fgt_target_table *table = &targets->table;
	uint64_t now_ns = fgt_loop_now();

	targets->config = config;
	for (size_t i = table->count; i-- > 0;) {
		struct fgt_target_entry *entry = &table->entries[i];

		if (!entry->target) /* tried and logged again */
			fgt_attaching_remove(targets, i);
		else
			entry->is_wanted = entry->origin !=
						   FGT_ORIGIN_CONFIGURED ||
					   entry->ended_ns != 0;
	}
	for (size_t i = 0; i < config->target_count; i++) {
		const struct fgt_config_target *rule = &config->targets[i];
		struct fgt_target_entry *entry =
			rule->pid ? fgt_target_table_find_live(table, rule->pid)
				  : NULL;

		if (entry) {
			entry->is_wanted = true;
			pthread_mutex_lock(&targets->lock);
			entry->is_with_children |= rule->is_with_children;
			pthread_mutex_unlock(&targets->lock);
		} else if (rule->pid) {
			attach_rule_pid(targets, rule, now_ns);
		}
	}
	look_for_processes(targets, now_ns);
	drop_unwanted(targets, "no longer configured");
}

/* ---- Once a second ----------------------------------------------------- */

/* "": by no signal, or by none that is known. */
static void note_signal(const struct fgt_target_entry *entry,
			char name[FGT_ENDED_BY_MAX])
{
	FGT_AUTO(fgt_fd_close)
	int pidfd = fgt_target_take_pidfd(entry->target);
	struct fgt_death death = { FGT_DEATH_UNKNOWN, 0 };

	name[0] = '\0';
	if (pidfd >= 0)
		fgt_death_look(pidfd, entry->pid, entry->start_time, &death);
	if (death.kind != FGT_DEATH_SIGNAL)
		return;
	fgt_death_name(&death, name, FGT_ENDED_BY_MAX);
	fgt_target_note_signal(entry->target, name);
}

static void note_end(struct fgt_targets *targets,
		     struct fgt_target_entry *entry, uint64_t now_ns)
{
	char signal[FGT_ENDED_BY_MAX];

	note_signal(entry, signal);
	pthread_mutex_lock(&targets->lock);
	entry->ended_ns = now_ns;
	pthread_mutex_unlock(&targets->lock);
	/* Makes room in the sampler; the ring stays. */
	(void)fgt_sampler_detach(targets->sampler, entry->target);
	fgt_log(FGT_LOG_INFO,
		fgt_target_is_given_up(entry->target) ? "target_given_up"
						      : "target_ended",
		"pid %d%s%s; its ring is kept for %llu s", entry->pid,
		*signal ? ", ended by " : "", signal,
		(unsigned long long)(targets->kept_ns / 1000000000u));
}

static void note_ends(struct fgt_targets *targets, uint64_t now_ns)
{
	for (size_t i = 0; i < targets->table.count; i++) {
		struct fgt_target_entry *entry = &targets->table.entries[i];

		if (!fgt_target_entry_is_live(entry))
			continue;
		if (!fgt_target_is_alive(entry->target)) {
			note_end(targets, entry, now_ns);
			continue;
		}
		fgt_gate_refresh(entry->target);
	}
}

void fgt_targets_refresh(struct fgt_targets *targets, uint64_t now_ns)
{
	note_ends(targets, now_ns);
	fgt_target_room_drop_ended(targets, now_ns);
	look_for_processes(targets, now_ns);
}

/* ---- For the verbs ----------------------------------------------------- */

uint32_t fgt_charged_uid(const struct fgt_peer *peer)
{
	return peer->uid == geteuid() ? 0 : peer->uid;
}

static struct fgt_name_rule *find_name(struct fgt_targets *targets,
				       const char *name, uint32_t uid,
				       size_t *ret_of_user)
{
	struct fgt_name_rule *found = NULL;

	*ret_of_user = 0;
	for (size_t i = 0; i < targets->name_count; i++) {
		struct fgt_name_rule *rule = &targets->names[i];

		*ret_of_user += rule->peer.uid == uid;
		if (rule->peer.uid == uid && strcmp(rule->name, name) == 0)
			found = rule;
	}
	return found;
}

int fgt_targets_check_name(struct fgt_targets *targets, const char *name,
			   uint32_t uid, struct fgt_why *why)
{
	size_t of_user;

	if (find_name(targets, name, uid, &of_user) ||
	    (targets->name_count < FGT_TARGETS_NAMES_MAX &&
	     (uid == 0 || of_user < FGT_TARGETS_NAMES_PER_USER)))
		return 0;
	return fgt_why_set(why, -ENOSPC,
			   "limit of attached names reached (%d per user, %d "
			   "in all): detach one, or attach the PID",
			   FGT_TARGETS_NAMES_PER_USER, FGT_TARGETS_NAMES_MAX);
}

void fgt_targets_add_name(struct fgt_targets *targets,
			  const struct fgt_name_rule *rule)
{
	size_t of_user;
	struct fgt_name_rule *place =
		find_name(targets, rule->name, rule->peer.uid, &of_user);

	pthread_mutex_lock(&targets->lock);
	if (!place)
		place = &targets->names[targets->name_count++];
	*place = *rule;
	pthread_mutex_unlock(&targets->lock);
}

size_t fgt_targets_drop_name(struct fgt_targets *targets, const char *name,
			     uint32_t uid)
{
	size_t dropped = 0;

	pthread_mutex_lock(&targets->lock);
	for (size_t i = targets->name_count; i-- > 0;) {
		struct fgt_name_rule *rule = &targets->names[i];

		if (strcmp(rule->name, name) != 0 ||
		    (uid != 0 && rule->peer.uid != uid))
			continue;
		*rule = targets->names[--targets->name_count];
		dropped++;
	}
	pthread_mutex_unlock(&targets->lock);
	return dropped;
}

bool fgt_targets_is_match(const struct fgt_config_target *rule,
			  const struct fgt_target *target)
{
	struct fgt_process_info info = { .pid = fgt_target_pid(target) };
	struct fgt_target_status status;

	if (rule->pid)
		return rule->pid == info.pid;
	fgt_target_get_status(target, &status);
	strcpy(info.name, status.name);
	strcpy(info.exe, status.exe);
	return fgt_rule_is_match(rule, &info);
}

void fgt_targets_for_each(struct fgt_targets *targets,
			  void (*visit)(void *context,
					struct fgt_target *target),
			  void *context)
{
	for (size_t i = 0; i < targets->table.count; i++)
		if (targets->table.entries[i].target)
			visit(context, targets->table.entries[i].target);
}

int fgt_targets_register(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time, uint32_t charged_uid,
			 struct fgt_target **ret_target, struct fgt_why *why)
{
	const struct fgt_attach_cause cause = { .origin = FGT_ORIGIN_REGISTERED,
						.charged_uid = charged_uid };
	int r = fgt_attaching_process(targets, pid, start_time, &cause, why);
	struct fgt_target_entry *entry;

	if (r == 0 && fgt_attaching_settle(targets, why) > 0)
		r = -EAGAIN;
	if (r < 0)
		return r;
	/* There: jobs are the table's one writer. */
	entry = fgt_target_table_find(&targets->table, pid, start_time);
	entry->registered++;
	*ret_target = fgt_target_get(entry->target);
	return 0;
}

void fgt_targets_unregister(struct fgt_targets *targets,
			    const struct fgt_target *target, const char *reason)
{
	for (size_t i = targets->table.count; i-- > 0;) {
		struct fgt_target_entry *entry = &targets->table.entries[i];

		if (entry->target != target || --entry->registered > 0)
			continue;
		if (entry->origin == FGT_ORIGIN_REGISTERED)
			fgt_attaching_detach(targets, i, reason);
		return;
	}
}
