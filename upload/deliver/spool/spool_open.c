/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a spool, with what an earlier process left in it. The spool's thread;
 * must not believe what is in the files.
 */
#include "upload/deliver/spool/spool_room.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "ringbuf/base/clock.h"
#include "upload/deliver/spool/spool_directory.h"

#define SETTLED_NS UINT64_C(1000000000)

static int remove_temporary(const struct fgt_spool *spool)
{
	const struct fgt_spool_disk *disk = spool->options.disk;
	struct fgt_spool_names names = { 0 };
	char name[FGT_SPOOL_NAME_SIZE];
	int r = fgt_spool_scan(spool->directory_fd, FGT_SPOOL_SUFFIX_TEMP,
			       &names);

	for (size_t i = 0; r == 0 && i < names.count; i++) {
		fgt_spool_name_write(&names.ids[i], FGT_SPOOL_SUFFIX_TEMP,
				     name);
		(void)disk->remove(disk->context, spool->directory_fd, name);
	}
	fgt_spool_names_done(&names);
	return r;
}

/* A disk that cannot read it now may later. -EBADMSG: it is damaged. */
static int read_entry(const struct fgt_spool *spool,
		      struct fgt_spool_entry *entry,
		      uint8_t head[FGT_SPOOL_HEAD_MAX],
		      struct fgt_spool_parts *ret_parts)
{
	FGT_AUTO(fgt_fd_close) int fd = fgt_spool_open_entry(spool, &entry->id);
	struct stat status;

	if (fd == -ELOOP || fd == -ENXIO) /* a link, a socket */
		return -EBADMSG;
	if (fd < 0)
		return fd;
	if (fstat(fd, &status) == 0)
		entry->bytes = (uint64_t)status.st_size;
	return fgt_spool_file_read_head(fd, head, ret_parts);
}

static int find_entry(struct fgt_spool *spool, const struct fgt_spool_id *id,
		      uint64_t now_ns)
{
	FGT_AUTO(free) void *head = malloc(FGT_SPOOL_HEAD_MAX);
	struct fgt_spool_entry entry = { .id = *id, .created_ns = id->time };
	struct fgt_spool_parts parts = { .head_len = 0 };
	int r, added;

	if (!head)
		return -ENOMEM;
	r = read_entry(spool, &entry, head, &parts);
	if (r == -ENOENT)
		return 0;
	if (r == -EBADMSG) {
		if (!spool->is_guest)
			fgt_spool_drop(spool, &entry, FGT_SPOOL_DAMAGED);
		return 0;
	}
	if (r == 0)
		entry.created_ns = parts.created_ns;
	if (entry.created_ns > now_ns)
		entry.created_ns = now_ns;
	added = fgt_spool_index_add(&spool->index, &entry);
	if (added == 0 && spool->options.found)
		spool->options.found(spool->options.context, &entry,
				     r == 0 ? head : NULL, parts.head_len);
	return added;
}

static void forget_missing(struct fgt_spool *spool,
			   const struct fgt_spool_names *names)
{
	size_t i = 0;

	while (i < spool->index.count) {
		const struct fgt_spool_entry *entry = &spool->index.entries[i];

		if (fgt_spool_names_has(names, &entry->id))
			i++;
		else
			fgt_spool_drop(spool, entry, FGT_SPOOL_TAKEN);
	}
}

/* With more names than a look finds, those that it does not find stay. */
static int compare_names(struct fgt_spool *spool, uint64_t now_ns)
{
	struct fgt_spool_names names = { 0 };
	int r = fgt_spool_scan(spool->directory_fd, FGT_SPOOL_SUFFIX, &names);

	if (r == 0 && names.count < FGT_SPOOL_NAMES_MAX)
		forget_missing(spool, &names);
	for (size_t i = 0; r == 0 && i < names.count; i++)
		if (!fgt_spool_index_find(&spool->index, &names.ids[i]) &&
		    !fgt_spool_names_has(&spool->stuck, &names.ids[i]))
			r = find_entry(spool, &names.ids[i], now_ns);
	fgt_spool_names_done(&names);
	if (r < 0 || spool->is_guest)
		return r;
	fgt_spool_expire(spool, now_ns);
	(void)fgt_spool_make_room(spool, 0, 0);
	return 0;
}

/* Several changes within a tick of the kernel's clock have one time. */
static bool is_settled(const struct timespec *changed, uint64_t now_ns)
{
	return fgt_timespec_ns(changed) + SETTLED_NS < now_ns;
}

int fgt_spool_look(struct fgt_spool *spool, uint64_t now_ns)
{
	struct stat status;

	if (fstat(spool->directory_fd, &status) < 0)
		return -errno;
	if (status.st_mtim.tv_sec == spool->looked.tv_sec &&
	    status.st_mtim.tv_nsec == spool->looked.tv_nsec)
		return 0;
	/* The time first: what changes during the look is found by the next. */
	spool->looked = is_settled(&status.st_mtim, now_ns)
				? status.st_mtim
				: (struct timespec){ 0 };
	return compare_names(spool, now_ns);
}

static struct fgt_spool_options
complete_options(const struct fgt_spool_options *options)
{
	struct fgt_spool_options complete = *options;

	if (!complete.max_bytes)
		complete.max_bytes = FGT_SPOOL_BYTES;
	if (!complete.max_entries)
		complete.max_entries = FGT_SPOOL_ENTRIES;
	if (!complete.max_age_ns)
		complete.max_age_ns = FGT_SPOOL_AGE_NS;
	if (!complete.disk)
		complete.disk = &fgt_spool_disk;
	complete.path = NULL; /* borrowed only */
	return complete;
}

static int new_spool(const struct fgt_spool_options *options, bool is_guest,
		     struct fgt_spool **ret_spool, struct fgt_why *why)
{
	FGT_AUTO(fgt_spool_close) struct fgt_spool *spool = NULL;
	int r;

	spool = calloc(1, sizeof(*spool));
	if (!spool)
		return fgt_why_set(why, -ENOMEM, FGT_NO_MEMORY);
	spool->directory_fd = spool->lock_fd = -1;
	spool->options = complete_options(options);
	spool->is_guest = is_guest;
	r = fgt_spool_directory_open(options->path, &spool->directory_fd,
				     is_guest ? NULL : &spool->lock_fd, why);
	if (r < 0)
		return r;
	*ret_spool = FGT_TAKE(spool);
	return 0;
}

int fgt_spool_open_as_guest(const struct fgt_spool_options *options,
			    struct fgt_spool **ret_spool, struct fgt_why *why)
{
	return new_spool(options, true, ret_spool, why);
}

int fgt_spool_open(const struct fgt_spool_options *options, uint64_t now_ns,
		   struct fgt_spool **ret_spool, struct fgt_why *why)
{
	FGT_AUTO(fgt_spool_close) struct fgt_spool *spool = NULL;
	int r = new_spool(options, false, &spool, why);

	if (r < 0)
		return r;
	r = remove_temporary(spool);
	if (r == 0)
		r = compare_names(spool, now_ns);
	if (r < 0)
		return fgt_why_set(why, r,
				   "cannot read the spool %.200s: %s; check "
				   "its disk",
				   options->path, strerror(-r));
	/* Names that a process left which was killed before it synced them. */
	(void)spool->options.disk->sync(spool->options.disk->context,
					spool->directory_fd);
	*ret_spool = FGT_TAKE(spool);
	return 0;
}

int fgt_spool_ask_flush(struct fgt_spool *spool, struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;

	if (!fgt_spool_directory_is_locked(spool->directory_fd))
		return fgt_why_set(why, -ENOENT,
				   "no agent uses this spool: start it");
	fd = openat(spool->directory_fd, "flush",
		    O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		    0600);
	return fd < 0 ? fgt_why_set(why, -errno,
				    "cannot write into the spool: %s; check "
				    "its disk",
				    strerror(errno))
		      : 0;
}

bool fgt_spool_take_flush(struct fgt_spool *spool)
{
	return unlinkat(spool->directory_fd, "flush", 0) == 0;
}

void fgt_spool_close(struct fgt_spool *spool)
{
	if (!spool)
		return;
	fgt_fd_close(spool->lock_fd);
	fgt_fd_close(spool->directory_fd);
	fgt_spool_index_done(&spool->index);
	fgt_spool_names_done(&spool->stuck);
	free(spool);
}
