/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How entries of a spool go: to make room, by age, answered or damaged. The
 * spool's thread.
 */
#include "upload/deliver/spool/spool_room.h"

#include <errno.h>
#include <fcntl.h>

#include "ringbuf/base/array.h"
#include "upload/deliver/spool/spool_bad.h"

const char *fgt_spool_drop_name(enum fgt_spool_drop reason)
{
	static const char *const names[FGT_SPOOL_DROPS] = {
		[FGT_SPOOL_FULL] = "full",
		[FGT_SPOOL_DISK_FULL] = "disk_full",
		[FGT_SPOOL_OLD] = "old",
		[FGT_SPOOL_DAMAGED] = "damaged",
		[FGT_SPOOL_TAKEN] = "removed",
	};

	return names[reason];
}

static void report(const struct fgt_spool *spool,
		   const struct fgt_spool_entry *entry,
		   enum fgt_spool_drop reason)
{
	if (spool->options.dropped)
		spool->options.dropped(spool->options.context, entry, reason);
}

static int remove_file(const struct fgt_spool *spool,
		       const struct fgt_spool_id *id)
{
	char name[FGT_SPOOL_NAME_SIZE];

	fgt_spool_name_write(id, FGT_SPOOL_SUFFIX, name);
	return spool->options.disk->remove(spool->options.disk->context,
					   spool->directory_fd, name);
}

/* Without memory the next look finds it. */
static void note_stuck(struct fgt_spool *spool, const struct fgt_spool_id *id)
{
	struct fgt_spool_names *stuck = &spool->stuck;

	if (FGT_ARRAY_GROW(stuck->ids, stuck->count, stuck->capacity) < 0)
		return;
	stuck->ids[stuck->count++] = *id;
	fgt_spool_names_sort(stuck);
}

/* The file of an entry that is none any more. */
static int take_away(struct fgt_spool *spool, const struct fgt_spool_id *id,
		     bool is_damaged)
{
	int r = is_damaged ? fgt_spool_bad_take(spool->options.disk,
						spool->directory_fd, id)
			   : remove_file(spool, id);

	if (r < 0 && r != -ENOENT)
		note_stuck(spool, id);
	return r;
}

/* An entry whose file cannot be removed is not sent again by this process. */
void fgt_spool_drop(struct fgt_spool *spool,
		    const struct fgt_spool_entry *entry,
		    enum fgt_spool_drop reason)
{
	const struct fgt_spool_id id = entry->id;

	report(spool, entry, reason);
	if (reason != FGT_SPOOL_TAKEN)
		(void)take_away(spool, &id, reason == FGT_SPOOL_DAMAGED);
	fgt_spool_index_remove(&spool->index, &id);
}

/* False: none is left that may go. */
bool fgt_spool_drop_oldest(struct fgt_spool *spool, enum fgt_spool_drop reason)
{
	const struct fgt_spool_entry *oldest =
		spool->is_guest && !spool->options.is_dropping_guest
			? NULL
			: fgt_spool_index_oldest(&spool->index);

	if (oldest)
		fgt_spool_drop(spool, oldest, reason);
	return oldest;
}

/* For so many bytes more, in so many entries. */
int fgt_spool_make_room(struct fgt_spool *spool, uint64_t bytes, size_t entries)
{
	const struct fgt_spool_options *options = &spool->options;

	if (bytes > options->max_bytes)
		return -EMSGSIZE;
	while (spool->index.bytes > options->max_bytes - bytes ||
	       spool->index.count > options->max_entries - entries)
		if (!fgt_spool_drop_oldest(spool, FGT_SPOOL_FULL))
			return -ENOSPC;
	return 0;
}

void fgt_spool_expire(struct fgt_spool *spool, uint64_t now_ns)
{
	size_t i = 0;

	while (!spool->is_guest && i < spool->index.count) {
		const struct fgt_spool_entry *entry = &spool->index.entries[i];

		if (!entry->is_held && entry->created_ns < now_ns &&
		    now_ns - entry->created_ns > spool->options.max_age_ns)
			fgt_spool_drop(spool, entry, FGT_SPOOL_OLD);
		else
			i++;
	}
}

int fgt_spool_remove(struct fgt_spool *spool, const struct fgt_spool_id *id)
{
	const struct fgt_spool_disk *disk = spool->options.disk;
	int r;

	if (!fgt_spool_index_find(&spool->index, id))
		return -ENOENT;
	fgt_spool_index_remove(&spool->index, id);
	r = take_away(spool, id, false);
	/* Else it would be sent again after a loss of power. */
	if (r == 0)
		r = disk->sync(disk->context, spool->directory_fd);
	return r == -ENOENT ? 0 : r;
}

void fgt_spool_condemn(struct fgt_spool *spool, const struct fgt_spool_id *id)
{
	const struct fgt_spool_entry *entry =
		fgt_spool_index_find(&spool->index, id);

	if (entry)
		fgt_spool_drop(spool, entry, FGT_SPOOL_DAMAGED);
}

int fgt_spool_open_entry(const struct fgt_spool *spool,
			 const struct fgt_spool_id *id)
{
	char name[FGT_SPOOL_NAME_SIZE];
	int fd;

	fgt_spool_name_write(id, FGT_SPOOL_SUFFIX, name);
	fd = openat(spool->directory_fd, name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
