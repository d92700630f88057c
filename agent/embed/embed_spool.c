/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts deliveries into a directory, on the library's worker, and sends them from
 * there, on another thread. The first waits as long as the disk does, the second
 * as a destination.
 */
#include "agent/embed/embed_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/embed/embed_lost.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"
#include "upload/deliver/dispatch.h"
#include "upload/deliver/spool/spooled.h"

#define BYTES_MAX   ((uint64_t)64 << 20)
#define ENTRIES_MAX 1000
#define NAME_SIZE   64 /* of a payload's destination */

static uint64_t wall_now(void)
{
	return fgt_clock_ns(CLOCK_REALTIME);
}

/* No name of a configuration: those have no #. */
static void write_name(const char *destination, char *name, size_t size)
{
	snprintf(name, size, "#%016llx",
		 (unsigned long long)fgt_embed_hash_destination(destination));
}

static int parse(const struct fgt_embed_spool *spool,
		 struct fgt_destination **ret_destination, struct fgt_why *why)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	const struct fgt_upload_limits *limits = spool->limits;
	int r = fgt_destination_parse(
		spool->destination, limits->is_http_allowed, &destination, why);

	if (r < 0)
		return r;
	if (limits->ca_file) {
		destination->ca_file = strdup(limits->ca_file);
		if (!destination->ca_file)
			return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	}
	*ret_destination = FGT_TAKE(destination);
	return 0;
}

/*
 * What is done with the directory by the thread that puts and the one that
 * sends, except requests. The lock in it is the process's: who opens and closes
 * it while the other one sends would release it.
 */
static struct {
	pthread_mutex_t lock;
	bool is_sending; /* the directory's lock is held */
	/* Entries that went unsent, and those of them that were logged. */
	uint64_t dropped[FGT_SPOOL_DROPS], logged[FGT_SPOOL_DROPS];
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

void fgt_embed_spool_forked(void)
{
	pthread_mutex_init(&shared.lock, NULL);
	shared.is_sending = false;
	fgt_embed_lost_forked();
}

/* ---- Entries that go unsent ---------------------------------------------- */

static int read_head(const char *path, const struct fgt_spool_id *id,
		     struct fgt_spooled_head *ret_head)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	char name[FGT_SPOOL_NAME_SIZE], file[PATH_MAX];
	uint8_t bytes[FGT_SPOOL_HEAD_MAX];
	struct fgt_spool_parts parts;
	int r;

	fgt_spool_name_write(id, FGT_SPOOL_SUFFIX, name);
	if (snprintf(file, sizeof(file), "%s/%s", path, name) >=
	    (int)sizeof(file))
		return -ENAMETOOLONG;
	fd = open(file,
		  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fgt_spool_file_read_head(fd, bytes, &parts);
	return r < 0 ? r
		     : fgt_spooled_read_head(bytes, parts.head_len, ret_head);
}

/* As by an agent: what damage took away is logged, not reported. context: of
 * the struct fgt_spool_options. Under the lock. */
static void dropped(const char *path, const struct fgt_spool_entry *entry,
		    enum fgt_spool_drop reason)
{
	struct fgt_spooled_head head;

	shared.dropped[reason]++;
	if (reason == FGT_SPOOL_DAMAGED || reason == FGT_SPOOL_TAKEN ||
	    read_head(path, &entry->id, &head) < 0 ||
	    head.payload.destination[0] != '#')
		return;
	fgt_embed_lost_add(strtoull(head.payload.destination + 1, NULL, 16),
			   FGT_DISCARD_CACHE,
			   fgt_category_of(head.payload.category), 1);
}

static void dropped_to_put(void *context, const struct fgt_spool_entry *entry,
			   enum fgt_spool_drop reason)
{
	dropped(context, entry, reason);
}

/* The first of a reason, and each time that there are twice as many. Under the
 * lock. */
static void explain_drops(const char *path, struct fgt_why *why)
{
	static const char *const remedies[FGT_SPOOL_DROPS] = {
		[FGT_SPOOL_FULL] = "its destination has to answer",
		[FGT_SPOOL_DISK_FULL] = "make room on its disk",
		[FGT_SPOOL_OLD] = "its destination has to answer",
		[FGT_SPOOL_DAMAGED] = "check its disk; see bad/ in it",
	};

	for (int i = 0; i < FGT_SPOOL_DROPS && !why->text[0]; i++) {
		uint64_t count = shared.dropped[i];

		if (!remedies[i] || count == shared.logged[i] ||
		    count < 2 * shared.logged[i])
			continue;
		shared.logged[i] = count;
		(void)fgt_why_set(why, 0,
				  "spool %.120s: deliveries were dropped (%s, "
				  "%llu so far): %s",
				  path, fgt_spool_drop_name(i),
				  (unsigned long long)count, remedies[i]);
	}
}

/* ---- Into the directory -------------------------------------------------- */

struct putting {
	struct fgt_spool *spool;
	char name[NAME_SIZE];
};

static int take(void *context, const struct fgt_payload *payload,
		struct fgt_why *why)
{
	const struct putting *putting = context;
	struct fgt_payload own = *payload;
	struct fgt_spool_id id;

	memset(own.head.destination, 0, sizeof(own.head.destination));
	strcpy(own.head.destination, putting->name);
	return fgt_spooled_add(putting->spool, &own, geteuid(), getegid(),
			       wall_now(), &id, why);
}

/* If this process has the lock, the oldest go to make room; else none does. */
static int open_to_put(const char *path, struct fgt_spool **ret_spool,
		       struct fgt_why *why)
{
	const struct fgt_spool_options options = {
		.path = path,
		.max_bytes = BYTES_MAX,
		.max_entries = ENTRIES_MAX,
		.is_dropping_guest = shared.is_sending,
		.dropped = dropped_to_put,
		.context = (void *)(uintptr_t)path,
	};
	int r = shared.is_sending
			? -EBUSY
			: fgt_spool_open(&options, wall_now(), ret_spool, why);

	return r == -EBUSY ? fgt_spool_open_as_guest(&options, ret_spool, why)
			   : r;
}

int fgt_embed_spool_put(const struct fgt_embed_spool *spool,
			const struct fgt_ring_slice *slice,
			const struct fgt_transaction_facts *facts,
			struct fgt_why *why)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	const struct fgt_format_options options = fgt_dispatch_options(facts);
	struct putting putting = { .spool = NULL };
	const struct fgt_payload_taker taker = { .take = take,
						 .context = &putting,
						 .is_stored = true };
	int r = parse(spool, &destination, why);

	if (r < 0)
		return r;
	destination->sequence = facts ? facts->ordered_ns : 0;
	write_name(spool->destination, putting.name, sizeof(putting.name));
	pthread_mutex_lock(&shared.lock);
	r = open_to_put(spool->path, &putting.spool, why);
	if (r == 0)
		r = fgt_destination_encode(destination, slice, &options, &taker,
					   why);
	fgt_spool_close(putting.spool);
	if (r == 0) {
		why->text[0] = '\0';
		explain_drops(spool->path, why);
	}
	pthread_mutex_unlock(&shared.lock);
	return r;
}

/* ---- Out of it ----------------------------------------------------------- */

struct spool_search {
	const char *path;
	char name[NAME_SIZE];
	struct fgt_spool_id id;
	bool is_found;
};

/* Oldest first. */
static void found(void *context, const struct fgt_spool_entry *entry,
		  const uint8_t *bytes, size_t len)
{
	struct spool_search *search = context;
	struct fgt_spooled_head head;

	if (search->is_found || !bytes ||
	    fgt_spooled_read_head(bytes, len, &head) < 0 ||
	    strcmp(head.payload.destination, search->name) != 0)
		return;
	search->id = entry->id;
	search->is_found = true;
}

static void dropped_to_send(void *context, const struct fgt_spool_entry *entry,
			    enum fgt_spool_drop reason)
{
	const struct spool_search *search = context;

	dropped(search->path, entry, reason);
}

/* A server counts what it has answered with 429 itself. */
void fgt_embed_server_take(struct fgt_embed_server *server,
			   const struct fgt_dispatch_outcome *outcome,
			   int error)
{
	struct fgt_sentry_discards *discards = &server->discards;

	fgt_pauses_extend(&server->pauses, &outcome->limits,
			  fgt_clock_ns(CLOCK_MONOTONIC));
	if (outcome->is_reported)
		memset(discards, 0, sizeof(*discards));
	for (int i = 0; i < FGT_CATEGORY_COUNT; i++)
		discards->counts[FGT_DISCARD_LIMITED][i] += outcome->limited[i];
	if (error < 0 && error != -EAGAIN && !outcome->is_refused &&
	    outcome->status && outcome->status != 429)
		discards->counts[FGT_DISCARD_SEND][outcome->category]++;
}

/* -EBADMSG: the file is damaged. */
static int send_file(int fd, const struct fgt_embed_spool *spool,
		     const struct fgt_destination *destination,
		     struct fgt_why *why, unsigned int *ret_wait_s)
{
	struct fgt_upload_limits limits = *spool->limits;
	struct fgt_dispatch_outcome outcome;
	struct fgt_spooled spooled;
	struct fgt_payload payload;
	int r = fgt_spooled_read(fd, &spooled);

	if (r < 0)
		return fgt_why_set(why, r == -EBADMSG ? r : -EAGAIN,
				   "cannot read an entry of the spool: %s; "
				   "check its disk",
				   strerror(-r));
	payload = fgt_spooled_payload(&spooled);
	limits.limited = fgt_pauses_mask(&spool->server->pauses,
					 fgt_clock_ns(CLOCK_MONOTONIC));
	fgt_embed_lost_take(fgt_embed_hash_destination(spool->destination),
			    &spool->server->discards);
	limits.discards = &spool->server->discards;
	r = fgt_dispatch_payload(&payload, destination, &limits, &outcome, why);
	fgt_spooled_done(&spooled);
	fgt_embed_server_take(spool->server, &outcome, r);
	/* Sentry's limits are the server's pauses. */
	*ret_wait_s = r == -EBUSY ? 0 : outcome.retry_after_s;
	/* It lets the program not in now: not lost, it may later. */
	return outcome.is_refused ? -EAGAIN : r;
}

/* Under the lock, except the request. */
static int send_entry(struct fgt_spool *opened, const struct fgt_spool_id *id,
		      const struct fgt_embed_spool *spool, struct fgt_why *why,
		      unsigned int *ret_wait_s)
{
	FGT_AUTO(fgt_destination_free)
	struct fgt_destination *destination = NULL;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	int r = parse(spool, &destination, why);

	if (r < 0)
		return r;
	r = fgt_spool_hold(opened, id, &fd);
	if (r < 0)
		return fgt_why_set(why, -EAGAIN,
				   "cannot open an entry of the spool: %s; "
				   "check its disk",
				   strerror(-r));
	shared.is_sending = true;
	pthread_mutex_unlock(&shared.lock);
	r = send_file(fd, spool, destination, why, ret_wait_s);
	pthread_mutex_lock(&shared.lock);
	shared.is_sending = false;
	if (r == -EBADMSG)
		fgt_spool_condemn(opened, id);
	else if (r != -EAGAIN)
		(void)fgt_spool_remove(opened, id);
	return r;
}

/* Under the lock. */
static int send_oldest(const struct fgt_embed_spool *spool, struct fgt_why *why,
		       unsigned int *ret_wait_s)
{
	FGT_AUTO(fgt_spool_close) struct fgt_spool *opened = NULL;
	struct spool_search search = { .path = spool->path };
	const struct fgt_spool_options options = { .path = spool->path,
						   .max_bytes = BYTES_MAX,
						   .max_entries = ENTRIES_MAX,
						   .found = found,
						   .dropped = dropped_to_send,
						   .context = &search };
	int r;

	*ret_wait_s = 0;
	write_name(spool->destination, search.name, sizeof(search.name));
	r = fgt_spool_open(&options, wall_now(), &opened, why);
	if (r < 0)
		return r == -EBUSY ? -EALREADY : -EAGAIN;
	if (!search.is_found)
		return -ENOENT;
	return send_entry(opened, &search.id, spool, why, ret_wait_s);
}

int fgt_embed_spool_send(const struct fgt_embed_spool *spool,
			 struct fgt_why *why, unsigned int *ret_wait_s)
{
	int r;

	pthread_mutex_lock(&shared.lock);
	r = send_oldest(spool, why, ret_wait_s);
	if (r == 0 || r == -ENOENT || r == -EALREADY) {
		why->text[0] = '\0';
		explain_drops(spool->path, why);
	}
	pthread_mutex_unlock(&shared.lock);
	return r;
}
