/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides by figures alone. Runs in the daemon's loop.
 */
#include "agent/daemon/delivery/delivery_limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ringbuf/base/hash.h"

/* ---- Shares ------------------------------------------------------------ */

bool fgt_delivery_tally_fits(const struct fgt_delivery_tally *tally)
{
	return tally->bytes <= FGT_DELIVERIES_BYTES_MAX &&
	       tally->bytes_of_user <= FGT_DELIVERIES_BYTES_PER_USER;
}

int fgt_delivery_tally_check(const struct fgt_delivery_tally *tally,
			     uint64_t bytes, bool is_last_word,
			     struct fgt_why *why)
{
	struct fgt_delivery_tally more = *tally;
	size_t last = is_last_word ? FGT_DELIVERIES_LAST : 0;

	more.bytes += bytes;
	more.bytes_of_user += bytes;
	if (tally->to_destination >= FGT_DELIVERIES_PER_DESTINATION + last ||
	    tally->to_shared >= FGT_DELIVERIES_PER_SHARED + last)
		return fgt_why_set(why, -EBUSY,
				   "busy: %zu deliveries to this destination "
				   "wait already: check that it is reachable",
				   tally->to_shared > tally->to_destination
					   ? tally->to_shared
					   : tally->to_destination);
	if (tally->of_user >= FGT_DELIVERIES_PER_USER + last)
		return fgt_why_set(why, -EBUSY,
				   "busy: %d deliveries of this user wait "
				   "already: check that their destinations "
				   "are reachable",
				   FGT_DELIVERIES_PER_USER);
	if (tally->all >= FGT_DELIVERIES_MAX + last ||
	    !fgt_delivery_tally_fits(&more))
		return fgt_why_set(why, -EBUSY,
				   "busy: too much waits to be delivered "
				   "already: check that the destinations are "
				   "reachable");
	return 0;
}

bool fgt_delivery_tally_may_send(const struct fgt_delivery_tally *tally)
{
	bool is_first = tally->is_shared && !tally->sent_to_destination;
	size_t at_work = FGT_DELIVERIES_AT_WORK +
			 (is_first ? FGT_DELIVERIES_AT_WORK_FIRST : 0);

	return tally->sent < at_work &&
	       tally->sent_of_user < FGT_DELIVERIES_AT_WORK_PER_USER &&
	       tally->sent_to_destination <
		       FGT_DELIVERIES_AT_WORK_PER_DESTINATION;
}

/* ---- Pauses ------------------------------------------------------------ */

/* Two destinations with one hash share their limit. */
struct fgt_delivery_address fgt_delivery_address_of(uint32_t uid,
						    const char *destination)
{
	return (struct fgt_delivery_address){
		.hash = fgt_hash_bytes(destination, strlen(destination)),
		.uid = uid,
	};
}

struct fgt_delivery_address fgt_delivery_address_of_name(uint32_t uid,
							 const char *name)
{
	struct fgt_delivery_address address =
		fgt_delivery_address_of(uid, name);

	address.is_shared = true;
	return address;
}

bool fgt_delivery_address_is_same(const struct fgt_delivery_address *a,
				  const struct fgt_delivery_address *b)
{
	return a->hash == b->hash && a->is_shared == b->is_shared &&
	       (a->is_shared || a->uid == b->uid);
}

static uint64_t end_of(const struct fgt_pauses *pauses)
{
	uint64_t end_ns = 0;

	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		if (pauses->until_ns[i] > end_ns)
			end_ns = pauses->until_ns[i];
	return end_ns;
}

static size_t find_row(const struct fgt_delivery_limits *limits,
		       const struct fgt_delivery_address *address)
{
	size_t i = 0;

	while (i < FGT_DELIVERY_LIMITS_MAX &&
	       !(limits->rows[i].is_used &&
		 fgt_delivery_address_is_same(&limits->rows[i].address,
					      address)))
		i++;
	return i;
}

static size_t make_row(struct fgt_delivery_limits *limits,
		       const struct fgt_delivery_address *address)
{
	size_t row = find_row(limits, address), best = 0;

	if (row < FGT_DELIVERY_LIMITS_MAX)
		return row;
	for (size_t i = 1; i < FGT_DELIVERY_LIMITS_MAX; i++)
		if (end_of(&limits->rows[i].pauses) <
		    end_of(&limits->rows[best].pauses))
			best = i;
	memset(&limits->rows[best], 0, sizeof(limits->rows[best]));
	limits->rows[best].is_used = true;
	limits->rows[best].address = *address;
	return best;
}

static const struct fgt_pauses *
find_pauses(const struct fgt_delivery_limits *limits,
	    const struct fgt_delivery_address *address)
{
	size_t row = find_row(limits, address);

	return row < FGT_DELIVERY_LIMITS_MAX ? &limits->rows[row].pauses : NULL;
}

void fgt_delivery_limits_set(struct fgt_delivery_limits *limits,
			     const struct fgt_delivery_address *address,
			     uint64_t until_ns)
{
	struct fgt_pauses *pauses =
		&limits->rows[make_row(limits, address)].pauses;

	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		if (pauses->until_ns[i] < until_ns)
			pauses->until_ns[i] = until_ns;
}

void fgt_delivery_limits_extend(struct fgt_delivery_limits *limits,
				const struct fgt_delivery_address *address,
				const struct fgt_ratelimits *asked,
				uint64_t now_ns)
{
	if (fgt_ratelimits_mask(asked))
		fgt_pauses_extend(
			&limits->rows[make_row(limits, address)].pauses, asked,
			now_ns);
}

uint64_t fgt_delivery_limits_until(const struct fgt_delivery_limits *limits,
				   const struct fgt_delivery_address *address)
{
	const struct fgt_pauses *pauses = find_pauses(limits, address);

	return pauses ? pauses->until_ns[FGT_CATEGORY_TRANSACTION] : 0;
}

uint32_t fgt_delivery_limits_mask(const struct fgt_delivery_limits *limits,
				  const struct fgt_delivery_address *address,
				  uint64_t now_ns)
{
	const struct fgt_pauses *pauses = find_pauses(limits, address);

	return pauses ? fgt_pauses_mask(pauses, now_ns) : 0;
}

/* ---- Reports for Sentry -------------------------------------------------- */

void fgt_delivery_limits_discard(struct fgt_delivery_limits *limits,
				 const struct fgt_delivery_address *address,
				 enum fgt_discard_reason reason,
				 uint32_t category)
{
	size_t row = make_row(limits, address);

	if (category < FGT_CATEGORY_COUNT)
		limits->rows[row].discards.counts[reason][category]++;
}

struct fgt_sentry_discards
fgt_delivery_limits_take(struct fgt_delivery_limits *limits,
			 const struct fgt_delivery_address *address)
{
	struct fgt_sentry_discards discards = { { { 0 } } };
	size_t row = find_row(limits, address);

	if (row < FGT_DELIVERY_LIMITS_MAX) {
		discards = limits->rows[row].discards;
		memset(&limits->rows[row].discards, 0, sizeof(discards));
	}
	return discards;
}

void fgt_delivery_limits_restore(struct fgt_delivery_limits *limits,
				 const struct fgt_delivery_address *address,
				 const struct fgt_sentry_discards *discards)
{
	if (fgt_sentry_discards_are_any(discards))
		fgt_sentry_discards_add(
			&limits->rows[make_row(limits, address)].discards,
			discards);
}

/* ---- Accepted ids ------------------------------------------------------ */

static uint64_t hash_of(const struct fgt_delivery_mark *mark)
{
	return fgt_hash_bytes(mark->configured, strlen(mark->configured));
}

void fgt_delivery_recent_add(struct fgt_delivery_recent *recent,
			     const struct fgt_delivery_mark *mark)
{
	unsigned int row = recent->next++ % FGT_DELIVERY_RECENT_MAX;

	recent->rows[row].pid = mark->pid;
	recent->rows[row].configured = hash_of(mark);
	snprintf(recent->rows[row].event_id, sizeof(recent->rows[row].event_id),
		 "%s", mark->event_id);
}

bool fgt_delivery_recent_has(const struct fgt_delivery_recent *recent,
			     const struct fgt_delivery_mark *mark)
{
	uint64_t hash = hash_of(mark);

	if (!*mark->event_id)
		return false;
	for (unsigned int i = 0; i < FGT_DELIVERY_RECENT_MAX; i++)
		if (recent->rows[i].pid == mark->pid &&
		    recent->rows[i].configured == hash &&
		    strcmp(recent->rows[i].event_id, mark->event_id) == 0)
			return true;
	return false;
}
