/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the list of targets. Runs on the thread of jobs, or under the lock;
 * targets.c decides what is sampled.
 */
#include "agent/daemon/targets/target_table.h"

#include <errno.h>

#include "ringbuf/base/array.h"

const char *fgt_origin_name(enum fgt_origin origin)
{
	static const char *const names[] = { "attached", "configured", "child",
					     "registered" };

	return names[origin];
}

bool fgt_target_entry_is_live(const struct fgt_target_entry *entry)
{
	return entry->target && entry->ended_ns == 0;
}

bool fgt_target_entry_is_running(const struct fgt_target_entry *entry)
{
	struct fgt_program program;
	struct fgt_owner owner;

	if (!fgt_target_entry_is_live(entry) ||
	    !fgt_target_is_alive(entry->target))
		return false;
	fgt_target_get_program(entry->target, &program);
	return fgt_gate_read_owner(entry->pid, entry->start_time,
				   program.owner.uid, &owner) != -ESRCH;
}

struct fgt_target_entry *
fgt_target_table_find(const struct fgt_target_table *table, int32_t pid,
		      uint64_t start_time)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->entries[i].pid == pid &&
		    table->entries[i].start_time == start_time)
			return &table->entries[i];
	return NULL;
}

struct fgt_target_entry *
fgt_target_table_find_live(const struct fgt_target_table *table, int32_t pid)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->entries[i].pid == pid &&
		    fgt_target_entry_is_live(&table->entries[i]))
			return &table->entries[i];
	return NULL;
}

struct fgt_target_entry *fgt_target_table_add(struct fgt_target_table *table,
					      int32_t pid, uint64_t start_time)
{
	struct fgt_target_entry *entry;

	if (table->count >= FGT_TARGET_TABLE_MAX ||
	    FGT_ARRAY_GROW(table->entries, table->count, table->capacity) < 0)
		return NULL;
	entry = &table->entries[table->count++];
	*entry = (struct fgt_target_entry){
		.pid = pid,
		.start_time = start_time,
		.is_seen = true,
		.is_wanted = true,
	};
	return entry;
}

bool fgt_target_table_has_place(const struct fgt_target_table *table)
{
	size_t notes = 0;

	for (size_t i = 0; i < table->count; i++)
		notes += !table->entries[i].target;
	return notes < FGT_TARGET_NOTES_MAX;
}

void fgt_target_table_remove(struct fgt_target_table *table, size_t index)
{
	fgt_target_put(table->entries[index].target);
	table->entries[index] = table->entries[--table->count];
}

void fgt_target_table_done(struct fgt_target_table *table)
{
	while (table->count > 0)
		fgt_target_table_remove(table, table->count - 1);
	free(table->entries);
	*table = (struct fgt_target_table){ 0 };
}

void fgt_target_table_unwant_children(struct fgt_target_table *table)
{
	bool has_changed;

	do {
		has_changed = false;
		for (size_t i = 0; i < table->count; i++) {
			struct fgt_target_entry *entry = &table->entries[i];
			const struct fgt_target_entry *parent;

			if (entry->origin != FGT_ORIGIN_CHILD ||
			    !entry->is_wanted)
				continue;
			parent = fgt_target_table_find_live(table,
							    entry->parent_pid);
			if (parent && !parent->is_wanted) {
				entry->is_wanted = false;
				has_changed = true;
			}
		}
	} while (has_changed);
}

bool fgt_target_entry_is_visible(const struct fgt_target_entry *entry,
				 const struct fgt_peer *peer)
{
	const struct fgt_gate gate = { .peer = *peer };
	struct fgt_gate_range range;

	return fgt_gate_ask(&gate, entry->target, &range) == 0;
}

bool fgt_target_entry_is_match(const struct fgt_target_entry *entry,
			       const struct fgt_selector *selector)
{
	struct fgt_target_status status;

	if (!entry->target)
		return false;
	if (selector->pid != 0)
		return entry->pid == selector->pid;
	if (!selector->name)
		return true;
	fgt_target_get_status(entry->target, &status);
	return fgt_rule_is_name(selector->name, status.name, status.exe);
}
