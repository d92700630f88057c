/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what was lost on its way to a destination. Runs on the library's worker
 * and on its sender.
 */
#include "agent/embed/embed_lost.h"

#include <pthread.h>
#include <string.h>

#include "ringbuf/base/hash.h"

#define ROWS 8u

static struct {
	pthread_mutex_t lock; /* of all; innermost */
	unsigned int next; /* is replaced if all are used */
	struct {
		uint64_t destination; /* 0: free */
		struct fgt_sentry_discards discards;
	} rows[ROWS];
} lost = { .lock = PTHREAD_MUTEX_INITIALIZER };

uint64_t fgt_embed_hash_destination(const char *destination)
{
	return fgt_hash_bytes(destination, strlen(destination));
}

/* Under the lock. */
static struct fgt_sentry_discards *find(uint64_t destination)
{
	for (unsigned int i = 0; i < ROWS; i++)
		if (lost.rows[i].destination == destination)
			return &lost.rows[i].discards;
	return NULL;
}

void fgt_embed_lost_add(uint64_t destination, enum fgt_discard_reason reason,
			enum fgt_sentry_category category, uint32_t count)
{
	struct fgt_sentry_discards *discards;

	pthread_mutex_lock(&lost.lock);
	discards = find(destination);
	if (!discards) {
		unsigned int row = lost.next++ % ROWS;

		lost.rows[row].destination = destination;
		discards = &lost.rows[row].discards;
		memset(discards, 0, sizeof(*discards));
	}
	discards->counts[reason][category] += count;
	pthread_mutex_unlock(&lost.lock);
}

void fgt_embed_lost_take(uint64_t destination,
			 struct fgt_sentry_discards *discards)
{
	struct fgt_sentry_discards *more;

	pthread_mutex_lock(&lost.lock);
	more = find(destination);
	if (more) {
		fgt_sentry_discards_add(discards, more);
		memset(more, 0, sizeof(*more));
	}
	pthread_mutex_unlock(&lost.lock);
}

void fgt_embed_lost_forked(void)
{
	pthread_mutex_init(&lost.lock, NULL);
	memset(lost.rows, 0, sizeof(lost.rows));
}
