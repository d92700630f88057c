/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destinations of the configuration. Runs in the daemon's loop; must not
 * log a secret.
 */
#include "agent/daemon/delivery/destinations.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/daemon/loop/log.h"
#include "agent/daemon/loop/loop.h"
#include "ringbuf/base/clock.h"

#define AGAIN_NS UINT64_C(10000000000) /* between two looks for a secret */

/* ---- Loading ------------------------------------------------------------- */

static bool is_of_transactions(const struct fgt_config *config,
			       const char *name)
{
	for (size_t i = 0; i < config->upload.transaction_count; i++)
		if (!strcmp(config->upload.transactions[i], name))
			return true;
	return false;
}

static void load_entry(struct fgt_destination_entry *entry,
		       const struct fgt_config *config,
		       const struct fgt_destination_settings *settings)
{
	const struct fgt_destination_defaults defaults =
		fgt_config_destination_defaults(config);

	struct fgt_why why = { "" };

	snprintf(entry->name, sizeof(entry->name), "%s", settings->name);
	entry->is_of_transactions = is_of_transactions(config, entry->name);
	entry->is_refused = false;
	entry->is_proven = false;
	entry->where[0] = '\0';
	entry->loaded_ns = fgt_loop_now();
	if (fgt_destination_load(settings, &defaults, &entry->destination,
				 &why) == 0)
		fgt_destination_where(entry->destination, entry->where);
	else if (strcmp(why.text, entry->why.text) != 0)
		fgt_log(FGT_LOG_WARNING, "destination_unusable", "'%s': %s",
			entry->name, why.text);
	entry->why = why;
}

void fgt_destinations_load(struct fgt_destinations *destinations,
			   const struct fgt_config *config)
{
	size_t count = config->upload.destination_count;
	struct fgt_destination_entry *entries =
		count ? calloc(count, sizeof(*entries)) : NULL;

	destinations->config = NULL;
	if (count && !entries) {
		fgt_log(FGT_LOG_ERROR, "destinations", "%s: the old ones stay",
			FGT_NO_MEMORY);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		const struct fgt_destination_settings *settings =
			&config->upload.destinations[i];
		const struct fgt_destination_entry *old =
			fgt_destinations_find(destinations, settings->name);

		if (old)
			entries[i] = *old;
		entries[i].destination = NULL;
		entries[i].why.text[0] = '\0';
		load_entry(&entries[i], config, settings);
	}
	fgt_destinations_done(destinations);
	destinations->entries = entries;
	destinations->count = count;
	destinations->config = config;
}

static void look_again(const struct fgt_destinations *destinations,
		       struct fgt_destination_entry *entry)
{
	const struct fgt_config *config = destinations->config;

	for (size_t i = 0; config && i < config->upload.destination_count; i++)
		if (!strcmp(config->upload.destinations[i].name, entry->name))
			load_entry(entry, config,
				   &config->upload.destinations[i]);
	if (entry->destination)
		fgt_log(FGT_LOG_INFO, "destination_usable", "'%s': %s",
			entry->name, entry->where);
}

void fgt_destinations_done(struct fgt_destinations *destinations)
{
	for (size_t i = 0; i < destinations->count; i++)
		fgt_destination_free(destinations->entries[i].destination);
	free(destinations->entries);
	destinations->entries = NULL;
	destinations->count = 0;
}

struct fgt_destination_entry *
fgt_destinations_find(struct fgt_destinations *destinations, const char *name)
{
	for (size_t i = 0; i < destinations->count; i++)
		if (!strcmp(destinations->entries[i].name, name))
			return &destinations->entries[i];
	return NULL;
}

uint64_t
fgt_destination_entry_next_sequence(struct fgt_destination_entry *entry)
{
	uint64_t now_ns = fgt_clock_ns(CLOCK_REALTIME);

	entry->sequence = now_ns > entry->sequence ? now_ns
						   : entry->sequence + 1;
	return entry->sequence;
}

int fgt_destination_entry_check(const struct fgt_destinations *destinations,
				struct fgt_destination_entry *entry,
				struct fgt_why *why)
{
	if (!entry->destination && fgt_loop_now() - entry->loaded_ns > AGAIN_NS)
		look_again(destinations, entry);
	if (!entry->destination)
		return fgt_why_set(why, -ENOENT,
				   "destination '%s' cannot be used: %s",
				   entry->name, entry->why.text);
	if (entry->is_refused)
		return fgt_why_set(why, -EACCES,
				   "destination '%s' refused the last upload: "
				   "mend its keys, and reload the "
				   "configuration",
				   entry->name);
	return 0;
}

/* ---- What became of deliveries ------------------------------------------- */

static void note_error(struct fgt_destination_entry *entry, const char *why)
{
	entry->error_wall_ns = fgt_clock_ns(CLOCK_REALTIME);
	(void)fgt_why_set(&entry->error, 0, "%s", why);
}

void fgt_destination_entry_delivered(struct fgt_destination_entry *entry,
				     uint64_t bytes)
{
	entry->delivered++;
	entry->is_proven = true;
	entry->bytes += bytes;
	entry->success_wall_ns = fgt_clock_ns(CLOCK_REALTIME);
	entry->next_try_ns = 0;
}

void fgt_destination_entry_retried(struct fgt_destination_entry *entry,
				   const char *why, uint64_t next_try_ns)
{
	entry->retried++;
	entry->is_proven = false;
	entry->next_try_ns = next_try_ns;
	note_error(entry, why);
}

/* One log line when a destination begins to refuse. */
void fgt_destination_entry_refuse(struct fgt_destination_entry *entry,
				  const char *why)
{
	if (entry->is_refused)
		return; /* the first answer stays to be seen */
	note_error(entry, why);
	entry->is_refused = true;
	fgt_log(FGT_LOG_ERROR, "destination_refused",
		"'%s' gets nothing more until the configuration is reloaded: "
		"%s",
		entry->name, why);
}

void fgt_destination_entry_dropped(struct fgt_destination_entry *entry,
				   enum fgt_drop_reason reason, const char *why)
{
	entry->dropped[reason]++;
	if (reason == FGT_DROP_REFUSED)
		fgt_destination_entry_refuse(entry, why);
	else
		note_error(entry, why);
}

/* ---- Status -------------------------------------------------------------- */

static void put_dropped(const struct fgt_destination_entry *entry,
			struct fgt_builder *builder)
{
#define DROP_NAME(id, name) name,
	static const char *const names[] = { FGT_DROP_REASONS(DROP_NAME) };
	char key[64];

	for (size_t i = 0; i < FGT_DROP_COUNT; i++) {
		snprintf(key, sizeof(key), "dropped_%s", names[i]);
		fgt_builder_uint(builder, key, entry->dropped[i]);
	}
}

void fgt_destination_entry_put(const struct fgt_destination_entry *entry,
			       const struct fgt_destination_waiting *waiting,
			       uint64_t now_ns, struct fgt_builder *builder)
{
	enum fgt_destination_kind kind =
		entry->destination
			? (enum fgt_destination_kind)entry->destination->kind
			: FGT_DESTINATION_COUNT;
	bool is_usable = entry->destination && !entry->is_refused;
	uint64_t next_ns = !is_usable	      ? 0
			   : waiting->spooled ? waiting->next_try_ns
			   : waiting->queued  ? entry->next_try_ns
					      : 0;

	fgt_builder_map_begin(builder, NULL);
	fgt_builder_string(builder, "name", entry->name);
	fgt_builder_string(builder, "kind", fgt_destination_kind_name(kind));
	fgt_builder_string(builder, "where", entry->where);
	fgt_builder_string(builder, "unusable",
			   entry->is_refused ? entry->error.text
					     : entry->why.text);
	fgt_builder_bool(builder, "of_transactions", entry->is_of_transactions);
	fgt_builder_uint(builder, "queued", waiting->queued);
	fgt_builder_uint(builder, "spooled", waiting->spooled);
	fgt_builder_uint(builder, "spooled_bytes", waiting->spooled_bytes);
	fgt_builder_uint(builder, "delivered", entry->delivered);
	fgt_builder_uint(builder, "bytes", entry->bytes);
	fgt_builder_uint(builder, "retried", entry->retried);
	put_dropped(entry, builder);
	fgt_builder_uint(builder, "last_success_ns", entry->success_wall_ns);
	fgt_builder_uint(builder, "last_error_ns", entry->error_wall_ns);
	fgt_builder_string(builder, "last_error", entry->error.text);
	fgt_builder_uint(builder, "next_try_in_ns",
			 next_ns > now_ns ? next_ns - now_ns : 0);
	fgt_builder_map_end(builder);
}
