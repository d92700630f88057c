/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides who is sampled. Runs in the daemon's loop; looks through the process
 * table only if a rule or a child may be found there; must not confuse two
 * processes with the same pid.
 */
#include "agent/daemon/targets.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/log.h"
#include "agent/daemon/rule.h"
#include "agent/daemon/target_table.h"

#define RETRY_NS  UINT64_C(60000000000) /* those that cannot be sampled */
#define NEVER_NS  UINT64_MAX
#define ROWS_MAX  65536
#define DEPTH_MAX 64 /* generations of children found in one scan */

struct fgt_targets {
	struct fgt_sampler *sampler;
	const struct fgt_config *config; /* NULL until the first rules */
	uint64_t kept_ns;
	struct fgt_target_table table;
};

/* What a scan keeps of a process. */
struct row {
	int32_t pid, parent_pid;
	uint64_t start_time;
};

struct scan {
	struct fgt_targets *targets;
	struct row *rows;
	size_t count, capacity;
	uint64_t now_ns;
};

static const char *const origin_names[] = { "attached", "configured", "child" };

const char *fgt_origin_name(enum fgt_origin origin)
{
	return origin_names[origin];
}

int fgt_targets_new(struct fgt_sampler *sampler, uint64_t kept_ns,
		    struct fgt_targets **ret_targets)
{
	struct fgt_targets *targets = calloc(1, sizeof(*targets));

	if (!targets)
		return -ENOMEM;
	targets->sampler = sampler;
	targets->kept_ns = kept_ns;
	*ret_targets = targets;
	return 0;
}

/* ---- Attaching --------------------------------------------------------- */

/* Why an entry is made. */
struct cause {
	enum fgt_origin origin;
	int32_t parent_pid;
	bool is_with_children;
};

static void log_attached(const struct fgt_target_entry *entry)
{
	struct fgt_target_status status;

	fgt_target_get_status(entry->target, &status);
	fgt_log(FGT_LOG_INFO, "target_attached",
		"pid %d (%s), %s, stacks by %s%s%s", entry->pid, status.name,
		origin_names[entry->origin], status.running,
		status.limitation[0] ? ": " : "", status.limitation);
}

/* Takes the reference; the sampler has been told. */
static int keep_target(struct fgt_targets *targets, struct fgt_target *target,
		       const struct cause *cause, struct fgt_why *why)
{
	int32_t pid = fgt_target_pid(target);
	uint64_t start_time = fgt_target_start_time(target);
	struct fgt_target_entry *entry =
		fgt_target_table_find(&targets->table, pid, start_time);

	if (!entry)
		entry = fgt_target_table_add(&targets->table, pid, start_time);
	if (!entry) {
		(void)fgt_sampler_detach(targets->sampler, target);
		fgt_target_put(target);
		return fgt_why_set(why, -ENOSPC,
				   "too many targets: detach some");
	}
	fgt_target_put(entry->target);
	entry->target = target;
	entry->origin = cause->origin;
	entry->parent_pid = cause->parent_pid;
	entry->is_with_children = cause->is_with_children;
	entry->ended_ns = 0;
	if (fgt_owner_read(pid, start_time, &entry->owner) < 0)
		entry->owner.is_plain = false;
	log_attached(entry);
	return 0;
}

/* start_time: the process that is meant. */
static int attach_process(struct fgt_targets *targets, int32_t pid,
			  uint64_t start_time, const struct cause *cause,
			  struct fgt_why *why)
{
	struct fgt_target_entry *entry =
		fgt_target_table_find(&targets->table, pid, start_time);
	struct fgt_target *target = NULL;
	int r;

	if (entry && fgt_target_entry_is_live(entry)) {
		entry->is_with_children |= cause->is_with_children;
		if (cause->origin == FGT_ORIGIN_ATTACHED)
			entry->origin = cause->origin;
		return 0;
	}
	r = fgt_sampler_attach(targets->sampler, pid, &target, why);
	if (r < 0 && r != -EEXIST)
		return r;
	if (fgt_target_start_time(target) != start_time) {
		(void)fgt_sampler_detach(targets->sampler, target);
		fgt_target_put(target);
		return fgt_why_set(why, -ESRCH, "process %d has ended", pid);
	}
	return keep_target(targets, target, cause, why);
}

/* For rules and children: a failure is explained once, then kept in mind. */
static void attach_found(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time, const struct cause *cause,
			 uint64_t now_ns)
{
	struct fgt_why why = { "" };
	struct fgt_target_entry *entry;
	int r = attach_process(targets, pid, start_time, cause, &why);

	if (r == 0 || r == -ESRCH)
		return;
	entry = fgt_target_table_find(&targets->table, pid, start_time);
	if (!entry) {
		fgt_log(FGT_LOG_WARNING, "target_not_attached", "pid %d: %s",
			pid, why.text);
		entry = fgt_target_table_add(&targets->table, pid, start_time);
	}
	if (entry)
		entry->retry_ns = now_ns + RETRY_NS;
}

static void stop_sampling(struct fgt_targets *targets,
			  const struct fgt_target_entry *entry,
			  const char *reason)
{
	if (!fgt_target_entry_is_live(entry))
		return;
	fgt_log(FGT_LOG_INFO, "target_detached", "pid %d, %s", entry->pid,
		reason);
	(void)fgt_sampler_detach(targets->sampler, entry->target);
}

void fgt_targets_free(struct fgt_targets *targets)
{
	if (!targets)
		return;
	for (size_t i = 0; i < targets->table.count; i++)
		stop_sampling(targets, &targets->table.entries[i],
			      "the agent leaves");
	fgt_target_table_done(&targets->table);
	free(targets);
}

/* ---- The process table ------------------------------------------------- */

static const struct fgt_config_target *
matching_rule(const struct fgt_targets *targets,
	      const struct fgt_process_info *info)
{
	const struct fgt_config *config = targets->config;

	if (info->pid == getpid() && !config->sampling.is_self_included)
		return NULL;
	for (size_t i = 0; i < config->target_count; i++)
		if (fgt_rule_is_match(&config->targets[i], info))
			return &config->targets[i];
	return NULL;
}

static int keep_row(struct scan *scan, const struct fgt_process_info *info,
		    int32_t parent_pid)
{
	size_t capacity = scan->capacity ? scan->capacity * 2 : 512;
	struct row *rows;

	if (scan->count == ROWS_MAX)
		return -E2BIG;
	if (scan->count == scan->capacity) {
		rows = reallocarray(scan->rows, capacity, sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		scan->rows = rows;
		scan->capacity = capacity;
	}
	scan->rows[scan->count++] = (struct row){
		.pid = info->pid,
		.parent_pid = parent_pid,
		.start_time = info->start_time,
	};
	return 0;
}

static int visit_process(void *context, const struct fgt_process_info *info,
			 int32_t parent_pid)
{
	struct scan *scan = context;
	struct fgt_targets *targets = scan->targets;
	struct fgt_target_entry *entry = fgt_target_table_find(
		&targets->table, info->pid, info->start_time);
	const struct fgt_config_target *rule;
	int r = keep_row(scan, info, parent_pid);

	if (r < 0)
		return r;
	if (entry)
		entry->is_seen = true;
	if (entry && entry->is_wanted &&
	    (entry->target || scan->now_ns < entry->retry_ns))
		return 0;
	rule = matching_rule(targets, info);
	if (!rule)
		return 0;
	if (entry && entry->target) {
		entry->is_wanted = true; /* by the new rules, too */
		entry->is_with_children = rule->is_with_children;
		return 0;
	}
	attach_found(
		targets, info->pid, info->start_time,
		&(struct cause){ .origin = FGT_ORIGIN_CONFIGURED,
				 .is_with_children = rule->is_with_children },
		scan->now_ns);
	return 0;
}

/* One generation; true if a child was found. */
static bool attach_children(struct scan *scan)
{
	struct fgt_targets *targets = scan->targets;
	bool has_found = false;

	for (size_t i = 0; i < scan->count; i++) {
		const struct row *row = &scan->rows[i];
		const struct fgt_target_entry *parent =
			fgt_target_table_find_live(&targets->table,
						   row->parent_pid);
		const struct fgt_target_entry *entry;

		if (!parent || !parent->is_with_children)
			continue;
		entry = fgt_target_table_find(&targets->table, row->pid,
					      row->start_time);
		if (entry && (entry->target || scan->now_ns < entry->retry_ns))
			continue;
		attach_found(targets, row->pid, row->start_time,
			     &(struct cause){ .origin = FGT_ORIGIN_CHILD,
					      .parent_pid = row->parent_pid,
					      .is_with_children = true },
			     scan->now_ns);
		has_found = true;
	}
	return has_found;
}

static bool is_scan_needed(const struct fgt_targets *targets)
{
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
	/* Entries without a ring only keep a process from being tried. */
	for (size_t i = table->count; i-- > 0;)
		if (!table->entries[i].target && !table->entries[i].is_seen)
			fgt_target_table_remove(table, i);
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
	attach_found(
		targets, rule->pid, process.start_time,
		&(struct cause){ .origin = FGT_ORIGIN_CONFIGURED,
				 .is_with_children = rule->is_with_children },
		now_ns);
	fgt_process_close(&process);
}

static void drop_unwanted(struct fgt_targets *targets, const char *reason)
{
	struct fgt_target_table *table = &targets->table;

	fgt_target_table_unwant_children(table);
	for (size_t i = table->count; i-- > 0;)
		if (!table->entries[i].is_wanted) {
			stop_sampling(targets, &table->entries[i], reason);
			fgt_target_table_remove(table, i);
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

		if (!entry->target) /* tried anew, explained anew */
			fgt_target_table_remove(table, i);
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
			entry->is_with_children |= rule->is_with_children;
		} else if (rule->pid) {
			attach_rule_pid(targets, rule, now_ns);
		}
	}
	look_for_processes(targets, now_ns);
	drop_unwanted(targets, "no longer configured");
}

/* ---- Once a second ----------------------------------------------------- */

static void note_ends(struct fgt_targets *targets, uint64_t now_ns)
{
	for (size_t i = 0; i < targets->table.count; i++) {
		struct fgt_target_entry *entry = &targets->table.entries[i];

		if (!fgt_target_entry_is_live(entry))
			continue;
		if (fgt_target_is_alive(entry->target)) {
			fgt_target_entry_update_owner(entry, now_ns,
						      targets->kept_ns);
			continue;
		}
		entry->ended_ns = now_ns;
		/* Makes room in the sampler; the ring stays. */
		(void)fgt_sampler_detach(targets->sampler, entry->target);
		fgt_log(FGT_LOG_INFO, "target_ended",
			"pid %d; its ring is kept for %llu s", entry->pid,
			(unsigned long long)(targets->kept_ns / 1000000000u));
	}
}

/* Drops what was kept long enough, and the oldest beyond the limit. */
static void drop_ended(struct fgt_targets *targets, uint64_t now_ns)
{
	struct fgt_target_table *table = &targets->table;
	size_t ended, oldest;

	do {
		ended = 0;
		oldest = 0;
		for (size_t i = 0; i < table->count; i++) {
			uint64_t ended_ns = table->entries[i].ended_ns;

			if (ended_ns == 0)
				continue;
			if (ended == 0 ||
			    ended_ns < table->entries[oldest].ended_ns)
				oldest = i;
			ended++;
		}
		if (ended == 0 || (ended <= FGT_TARGETS_ENDED_MAX &&
				   now_ns < table->entries[oldest].ended_ns +
						    targets->kept_ns))
			return;
		fgt_target_table_remove(table, oldest);
	} while (ended > 1);
}

void fgt_targets_refresh(struct fgt_targets *targets, uint64_t now_ns)
{
	note_ends(targets, now_ns);
	drop_ended(targets, now_ns);
	look_for_processes(targets, now_ns);
}

/* ---- For the verbs ----------------------------------------------------- */

int fgt_targets_attach_process(struct fgt_targets *targets, int32_t pid,
			       uint64_t start_time, bool is_with_children,
			       struct fgt_why *why)
{
	const struct cause cause = { .origin = FGT_ORIGIN_ATTACHED,
				     .is_with_children = is_with_children };

	return attach_process(targets, pid, start_time, &cause, why);
}

void fgt_targets_detach_index(struct fgt_targets *targets, size_t index)
{
	struct fgt_target_entry *entry = &targets->table.entries[index];

	stop_sampling(targets, entry, "by hand");
	if (entry->ended_ns != 0 || entry->origin == FGT_ORIGIN_ATTACHED) {
		fgt_target_table_remove(&targets->table, index);
		return;
	}
	fgt_target_put(FGT_TAKE(entry->target));
	entry->is_with_children = false;
	entry->retry_ns = NEVER_NS;
	entry->is_seen = true;
}

struct fgt_target_table *fgt_targets_table(struct fgt_targets *targets)
{
	return &targets->table;
}

uint64_t fgt_targets_kept_ns(const struct fgt_targets *targets)
{
	return targets->kept_ns;
}
