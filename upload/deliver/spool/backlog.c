/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of entries for each destination. Pure.
 */
#include "upload/deliver/spool/backlog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/owner.h"

#define SECOND_NS     UINT64_C(1000000000)
#define DOUBLINGS_MAX 7 /* 5 s · 2⁷ is more than the longest pause */

void fgt_backlog_init(struct fgt_backlog *backlog)
{
	LIST_INIT(&backlog->places);
}

static void free_entry(struct fgt_backlog_entry *entry)
{
	struct fgt_backlog_place *place = entry->place;

	TAILQ_REMOVE(&place->entries, entry, link);
	place->count--;
	place->bytes -= entry->bytes;
	place->sent -= entry->is_sent;
	free(entry);
}

void fgt_backlog_done(struct fgt_backlog *backlog)
{
	while (!LIST_EMPTY(&backlog->places)) {
		struct fgt_backlog_place *place = LIST_FIRST(&backlog->places);

		while (!TAILQ_EMPTY(&place->entries))
			free_entry(TAILQ_FIRST(&place->entries));
		LIST_REMOVE(place, link);
		free(place);
	}
}

/* NULL without memory. */
static struct fgt_backlog_place *get_place(struct fgt_backlog *backlog,
					   const char *name)
{
	struct fgt_backlog_place *place;

	LIST_FOREACH(place, &backlog->places, link)
		if (strcmp(place->name, name) == 0)
			return place;
	place = calloc(1, sizeof(*place));
	if (!place)
		return NULL;
	snprintf(place->name, sizeof(place->name), "%s", name);
	TAILQ_INIT(&place->entries);
	LIST_INSERT_HEAD(&backlog->places, place, link);
	return place;
}

/* Newer ones come last, as a rule. */
static void insert(struct fgt_backlog_place *place,
		   struct fgt_backlog_entry *entry)
{
	struct fgt_backlog_entry *before =
		TAILQ_LAST(&place->entries, fgt_backlog_entries);

	while (before && fgt_spool_id_compare(&before->id, &entry->id) > 0)
		before = TAILQ_PREV(before, fgt_backlog_entries, link);
	if (before)
		TAILQ_INSERT_AFTER(&place->entries, before, entry, link);
	else
		TAILQ_INSERT_HEAD(&place->entries, entry, link);
}

int fgt_backlog_add(struct fgt_backlog *backlog, const char *name,
		    const struct fgt_backlog_entry *entry)
{
	struct fgt_backlog_place *place = get_place(backlog, name);
	struct fgt_backlog_entry *copy = place ? malloc(sizeof(*copy)) : NULL;

	if (!copy)
		return -ENOMEM;
	*copy = *entry;
	copy->is_sent = false;
	copy->place = place;
	insert(place, copy);
	place->count++;
	place->bytes += entry->bytes;
	return 0;
}

struct fgt_backlog_entry *fgt_backlog_find(struct fgt_backlog *backlog,
					   const struct fgt_spool_id *id)
{
	struct fgt_backlog_place *place;
	struct fgt_backlog_entry *entry;

	LIST_FOREACH(place, &backlog->places, link)
		TAILQ_FOREACH(entry, &place->entries, link)
			if (fgt_spool_id_compare(&entry->id, id) == 0)
				return entry;
	return NULL;
}

void fgt_backlog_remove(struct fgt_backlog *backlog,
			const struct fgt_spool_id *id)
{
	struct fgt_backlog_entry *entry = fgt_backlog_find(backlog, id);

	if (entry)
		free_entry(entry);
}

void fgt_backlog_flush(struct fgt_backlog *backlog)
{
	struct fgt_backlog_place *place;

	LIST_FOREACH(place, &backlog->places, link) {
		place->due_ns = 0;
		place->is_refused = false;
	}
}

void fgt_backlog_know_none(struct fgt_backlog *backlog)
{
	struct fgt_backlog_place *place;

	fgt_backlog_flush(backlog);
	LIST_FOREACH(place, &backlog->places, link)
		place->is_known = false;
}

int fgt_backlog_know(struct fgt_backlog *backlog, const char *name)
{
	struct fgt_backlog_place *place = get_place(backlog, name);

	if (!place)
		return -ENOMEM;
	place->is_known = true;
	return 0;
}

/* Destinations that do not answer leave room for the others: one that has not
 * failed, and to which nothing is sent now, does not wait for them. */
static bool has_room(const struct fgt_backlog *backlog,
		     const struct fgt_backlog_place *place)
{
	const bool is_first = !place->failures && !place->sent;
	const struct fgt_backlog_place *other;
	unsigned int all = 0, failing = 0;

	LIST_FOREACH(other, &backlog->places, link) {
		all += other->sent;
		failing += other->failures ? other->sent : 0;
	}
	if (place->failures && failing >= FGT_BACKLOG_ALL_MAX / 2)
		return false;
	return all < FGT_BACKLOG_ALL_MAX - 1 +
			     (is_first ? FGT_BACKLOG_FIRST_MAX + 1 : 0);
}

/* The first one that is not sent now. */
static struct fgt_backlog_entry *first_of(const struct fgt_backlog_place *place)
{
	struct fgt_backlog_entry *entry;

	if (!place->is_known || place->is_refused ||
	    place->sent >= (place->failures ? 1 : FGT_BACKLOG_SENT_MAX))
		return NULL;
	TAILQ_FOREACH(entry, &place->entries, link)
		if (!entry->is_sent)
			return entry;
	return NULL;
}

struct fgt_backlog_entry *fgt_backlog_next(struct fgt_backlog *backlog,
					   uint64_t now_ns,
					   uint64_t *ret_due_ns)
{
	struct fgt_backlog_entry *best = NULL;
	struct fgt_backlog_place *place;
	uint64_t due_ns = FGT_BACKLOG_NEVER;

	LIST_FOREACH(place, &backlog->places, link) {
		struct fgt_backlog_entry *entry = first_of(place);

		if (!entry)
			continue;
		if (place->due_ns > now_ns)
			due_ns = place->due_ns < due_ns ? place->due_ns
							: due_ns;
		else if (has_room(backlog, place) &&
			 (!best || place->sent < best->place->sent))
			best = entry;
	}
	*ret_due_ns = due_ns;
	return best;
}

void fgt_backlog_begin(struct fgt_backlog_entry *entry)
{
	entry->is_sent = true;
	entry->place->sent++;
}

/* Of any length up to the longest one, so that agents that lost one server at
 * one time do not come back at one time. */
static uint64_t choose_pause(unsigned int failures, uint64_t random)
{
	unsigned int doublings = failures < DOUBLINGS_MAX ? failures
							  : DOUBLINGS_MAX;
	uint64_t longest = FGT_BACKLOG_MIN_NS << doublings;

	if (longest > FGT_BACKLOG_MAX_NS)
		longest = FGT_BACKLOG_MAX_NS;
	return SECOND_NS + random % (longest - SECOND_NS);
}

void fgt_backlog_end(struct fgt_backlog_entry *entry, enum fgt_backlog_end end,
		     uint64_t now_ns, unsigned int retry_after_s,
		     uint64_t random, const char *why)
{
	struct fgt_backlog_place *place = entry->place;
	uint64_t pause_ns, asked_ns = retry_after_s * SECOND_NS;

	place->sent -= entry->is_sent;
	entry->is_sent = false;
	if (end == FGT_BACKLOG_ANSWERED)
		place->failures = 0;
	if (end == FGT_BACKLOG_ANSWERED || end == FGT_BACKLOG_BROKEN_OFF)
		return;
	/* To the end of the queue: it may be the only one that fails. */
	TAILQ_REMOVE(&place->entries, entry, link);
	TAILQ_INSERT_TAIL(&place->entries, entry, link);
	pause_ns = choose_pause(place->failures, random);
	(void)fgt_why_set(&place->why, 0, "%s", why);
	place->failures++;
	place->is_refused = end == FGT_BACKLOG_REFUSED;
	place->due_ns = now_ns + (asked_ns > pause_ns ? asked_ns : pause_ns);
}
