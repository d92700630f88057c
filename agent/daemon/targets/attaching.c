/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches and detaches single processes. Runs on the thread of jobs and
 * waits for the sampler; must not hold the table's lock meanwhile.
 */
#include "agent/daemon/targets/target_table.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/capture/threads/process.h"
#include "agent/daemon/loop/log.h"

#define RETRY_NS  UINT64_C(60000000000) /* those that cannot be sampled */
#define NEVER_NS  UINT64_MAX
#define LINES_MAX 8 /* of a scan: the log must have room for other events */

/* Of one that was not attached as a child: so that it is found as one, too. */
static int32_t read_parent(int32_t pid)
{
	struct fgt_stat stat;

	return fgt_stat_read(AT_FDCWD, "/proc/", pid, &stat) == 0
		       ? stat.parent_pid
		       : 0;
}

/* Under the lock; NULL: the table is full. */
static struct fgt_target_entry *
write_entry(struct fgt_targets *targets, struct fgt_target *target,
	    size_t ring_bytes, const struct fgt_attach_cause *cause)
{
	int32_t pid = fgt_target_pid(target);
	uint64_t start_time = fgt_target_start_time(target);
	struct fgt_target_entry *entry =
		fgt_target_table_find(&targets->table, pid, start_time);

	if (!entry)
		entry = fgt_target_table_add(&targets->table, pid, start_time);
	if (!entry)
		return NULL;
	fgt_target_put(entry->target);
	entry->target = target;
	entry->ring_bytes = ring_bytes;
	entry->origin = cause->origin;
	entry->parent_pid = cause->parent_pid;
	entry->is_with_children = cause->is_with_children;
	entry->charged_uid = cause->charged_uid;
	entry->ended_ns = 0;
	entry->is_new = true;
	return entry;
}

/* Takes the reference; it is under the sampler already. */
static int keep_target(struct fgt_targets *targets, struct fgt_target *target,
		       size_t ring_bytes, const struct fgt_attach_cause *cause,
		       struct fgt_why *why)
{
	struct fgt_attach_cause of = *cause;
	bool has_entry;

	if (!of.parent_pid)
		of.parent_pid = read_parent(fgt_target_pid(target));
	pthread_mutex_lock(&targets->lock);
	has_entry = write_entry(targets, target, ring_bytes, &of);
	pthread_mutex_unlock(&targets->lock);
	if (!has_entry) {
		(void)fgt_sampler_detach(targets->sampler, target);
		fgt_target_put(target);
		return fgt_why_set(why, -ENOSPC,
				   "too many targets: detach some");
	}
	return 0;
}

/* It is sampled already: brings its causes up to date. */
static void renew(struct fgt_targets *targets, struct fgt_target_entry *entry,
		  const struct fgt_attach_cause *cause)
{
	pthread_mutex_lock(&targets->lock);
	entry->is_with_children |= cause->is_with_children;
	if (cause->origin == FGT_ORIGIN_ATTACHED)
		entry->origin = cause->origin;
	if (cause->charged_uid == 0)
		entry->charged_uid = 0;
	pthread_mutex_unlock(&targets->lock);
}

static bool is_leaving(const struct fgt_targets *targets)
{
	return atomic_load_explicit(&targets->is_leaving, memory_order_relaxed);
}

/* Live targets that run as this user. */
static bool has_too_many(const struct fgt_targets *targets, uint32_t uid)
{
	const struct fgt_target_table *table = &targets->table;
	struct fgt_program program;
	size_t count = 0;

	for (size_t i = 0; i < table->count; i++) {
		if (!fgt_target_entry_is_live(&table->entries[i]))
			continue;
		fgt_target_get_program(table->entries[i].target, &program);
		count += program.owner.uid == uid;
	}
	return uid != 0 && count >= FGT_TARGETS_PER_USER;
}

static int check_user(struct fgt_targets *targets, int32_t pid,
		      uint64_t start_time, const struct fgt_attach_cause *cause,
		      struct fgt_why *why)
{
	struct fgt_owner owner;

	if (!cause->peer.is_root &&
	    (fgt_owner_read(pid, start_time, &owner) < 0 ||
	     !fgt_owner_is_visible_to(&owner, &cause->peer)))
		return -ENXIO;
	if (has_too_many(targets, cause->peer.uid))
		return fgt_why_set(why, -ENOSPC,
				   "limit of %d sampled processes per user "
				   "reached: detach some",
				   FGT_TARGETS_PER_USER);
	return 0;
}

int fgt_attaching_process(struct fgt_targets *targets, int32_t pid,
			  uint64_t start_time,
			  const struct fgt_attach_cause *cause,
			  struct fgt_why *why)
{
	struct fgt_target_entry *entry =
		fgt_target_table_find(&targets->table, pid, start_time);
	struct fgt_target *target = NULL;
	size_t ring_bytes = 0;
	int r = cause->origin == FGT_ORIGIN_ATTACHED
			? check_user(targets, pid, start_time, cause, why)
			: 0;

	if (r < 0)
		return r;
	if (entry && fgt_target_entry_is_live(entry)) {
		renew(targets, entry, cause);
		return 0;
	}
	if (is_leaving(targets))
		return fgt_why_set(why, -ESHUTDOWN, FGT_AGENT_IS_LEAVING);
	r = fgt_target_room_take(targets, pid, start_time, cause, &ring_bytes,
				 why);
	if (r < 0)
		return r;
	r = fgt_sampler_add(targets->sampler, pid, ring_bytes, &target, why);
	if (r < 0 && r != -EEXIST)
		return r;
	if (fgt_target_start_time(target) != start_time) {
		(void)fgt_sampler_detach(targets->sampler, target);
		fgt_target_put(target);
		return fgt_why_set(why, -ESRCH, FGT_PROCESS_HAS_ENDED, pid);
	}
	return keep_target(targets, target, ring_bytes, cause, why);
}

/* is_placeless: it will be tried, and comes here, in each scan. */
static void log_failure(struct fgt_targets *targets, int32_t pid,
			const struct fgt_why *why, bool is_placeless)
{
	struct fgt_targets_unlogged *others = &targets->unlogged;

	if (!is_placeless && others->lines++ < LINES_MAX) {
		fgt_log(FGT_LOG_WARNING, "target_not_attached", "pid %d: %s",
			pid, why->text);
		return;
	}
	others->noted += !is_placeless;
	others->placeless += is_placeless;
	others->pid = pid;
	others->why = *why;
}

bool fgt_attaching_found(struct fgt_targets *targets, int32_t pid,
			 uint64_t start_time,
			 const struct fgt_attach_cause *cause, uint64_t now_ns)
{
	struct fgt_why why = { "" };
	struct fgt_target_entry *entry;
	int r = fgt_attaching_process(targets, pid, start_time, cause, &why);
	bool is_known;

	if (r == 0 || r == -ESRCH || r == -ENXIO || r == -ESHUTDOWN)
		return r == 0;
	pthread_mutex_lock(&targets->lock);
	entry = fgt_target_table_find(&targets->table, pid, start_time);
	is_known = entry;
	if (!entry && fgt_target_table_has_place(&targets->table))
		entry = fgt_target_table_add(&targets->table, pid, start_time);
	if (entry)
		entry->retry_ns = now_ns + RETRY_NS;
	pthread_mutex_unlock(&targets->lock);
	if (!is_known)
		log_failure(targets, pid, &why, !entry);
	return false;
}

void fgt_attaching_log_others(struct fgt_targets *targets, uint64_t now_ns)
{
	struct fgt_targets_unlogged *others = &targets->unlogged;
	uint32_t count = others->noted + others->placeless;

	others->lines = others->placeless = 0;
	if (!count || now_ns < others->quiet_until_ns)
		return;
	fgt_log(FGT_LOG_WARNING, "target_not_attached",
		"%u more processes, pid %d among them: %s", count, others->pid,
		others->why.text);
	others->noted = 0;
	others->quiet_until_ns = now_ns + RETRY_NS;
}

void fgt_attaching_remove(struct fgt_targets *targets, size_t index)
{
	pthread_mutex_lock(&targets->lock);
	fgt_target_table_remove(&targets->table, index);
	pthread_mutex_unlock(&targets->lock);
}

void fgt_attaching_stop(struct fgt_targets *targets,
			const struct fgt_target_entry *entry,
			const char *reason)
{
	if (!fgt_target_entry_is_live(entry))
		return;
	fgt_log(FGT_LOG_INFO, "target_detached", "pid %d, %s", entry->pid,
		reason);
	(void)fgt_sampler_detach(targets->sampler, entry->target);
}

static void log_attached(const struct fgt_target_entry *entry)
{
	struct fgt_target_status status;

	fgt_target_get_status(entry->target, &status);
	fgt_log(FGT_LOG_INFO, "target_attached",
		"pid %d (%s), %s, stacks by %s%s%s", entry->pid, status.name,
		fgt_origin_name(entry->origin), status.running,
		status.limitation[0] ? ": " : "", status.limitation);
}

size_t fgt_attaching_settle(struct fgt_targets *targets, struct fgt_why *why)
{
	struct fgt_target_table *table = &targets->table;
	struct fgt_target_status status;
	size_t count = 0, given_up = 0;

	for (size_t i = 0; i < table->count; i++)
		count += table->entries[i].is_new;
	if (count == 0)
		return 0;
	fgt_sampler_await(targets->sampler);
	for (size_t i = table->count; i-- > 0;) {
		struct fgt_target_entry *entry = &table->entries[i];

		if (!entry->is_new)
			continue;
		entry->is_new = false;
		if (!entry->target) /* the job that added it was given up */
			continue;
		if (!fgt_target_is_given_up(entry->target)) {
			log_attached(entry);
			continue;
		}
		fgt_target_get_status(entry->target, &status);
		(void)fgt_why_set(why, -EAGAIN, "%s", status.limitation);
		fgt_attaching_remove(targets, i);
		given_up++;
	}
	return given_up;
}

/* Would a rule bring the process back? */
static bool is_by_rule(const struct fgt_targets *targets,
		       const struct fgt_target_entry *entry)
{
	if (entry->origin == FGT_ORIGIN_CONFIGURED ||
	    entry->origin == FGT_ORIGIN_CHILD)
		return true;
	for (size_t i = 0; i < targets->name_count; i++) {
		const struct fgt_selector selector = {
			.name = targets->names[i].name
		};

		if (fgt_target_entry_is_match(entry, &selector))
			return true;
	}
	return false;
}

void fgt_attaching_detach(struct fgt_targets *targets, size_t index,
			  const char *reason)
{
	struct fgt_target_entry *entry = &targets->table.entries[index];

	fgt_attaching_stop(targets, entry, reason);
	if (entry->ended_ns != 0 || !is_by_rule(targets, entry) ||
	    !fgt_target_table_has_place(&targets->table)) {
		fgt_attaching_remove(targets, index);
		return;
	}
	pthread_mutex_lock(&targets->lock);
	fgt_target_put(FGT_TAKE(entry->target));
	entry->is_with_children = false;
	entry->retry_ns = NEVER_NS;
	pthread_mutex_unlock(&targets->lock);
	entry->is_seen = true;
}
