/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds entries to a spool and removes them, within its bounds. The spool's
 * thread; an entry is written to a temporary name, synced, renamed, and the
 * directory synced, before it counts as accepted.
 */
#include "upload/deliver/spool/spool_room.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "ringbuf/base/hash.h"

#define GUEST_TRIES    8
#define COPY_BYTES     65536
#define FREED_AT_LEAST UINT64_C(65536) /* where the disk is full */

struct fgt_spool_index *fgt_spool_index(struct fgt_spool *spool)
{
	return &spool->index;
}

/* ---- Entries that are read ---------------------------------------------- */

int fgt_spool_hold(struct fgt_spool *spool, const struct fgt_spool_id *id,
		   int *ret_fd)
{
	struct fgt_spool_entry *entry = fgt_spool_index_find(&spool->index, id);
	int fd;

	if (!entry)
		return -ENOENT;
	fd = fgt_spool_open_entry(spool, id);
	if (fd < 0)
		return fd;
	entry->is_held = true;
	*ret_fd = fd;
	return 0;
}

void fgt_spool_release(struct fgt_spool *spool, const struct fgt_spool_id *id)
{
	struct fgt_spool_entry *entry = fgt_spool_index_find(&spool->index, id);

	if (entry)
		entry->is_held = false;
}

/* ---- One entry is added ------------------------------------------------- */

struct writer {
	struct fgt_spool *spool;
	int fd;
	char name[FGT_SPOOL_NAME_SIZE];
	struct fgt_spool_parts parts;
	uint64_t bytes; /* so far */
};

int fgt_spool_write_file(void *context, const struct fgt_sink *sink)
{
	FGT_AUTO(free) void *bytes = malloc(COPY_BYTES);
	int fd = *(int *)context, r = bytes ? 0 : -ENOMEM;
	off_t at = 0;

	while (r == 0) {
		ssize_t n = pread(fd, bytes, COPY_BYTES, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = fgt_sink_write(sink, bytes, (size_t)n);
		at += n;
	}
	return r;
}

static int write_part(struct writer *writer, const void *bytes, size_t len)
{
	const struct fgt_spool_options *options = &writer->spool->options;
	int r;

	if (len > options->max_bytes - writer->bytes)
		return -EMSGSIZE;
	r = fgt_spool_disk_write(options->disk, writer->fd, bytes, len,
				 writer->bytes);
	if (r == 0)
		writer->bytes += len;
	return r;
}

static int write_body(void *context, const void *bytes, size_t len)
{
	struct writer *writer = context;
	int r;

	if (len > FGT_SPOOL_BODY_MAX - writer->parts.body_len)
		return -EMSGSIZE;
	r = write_part(writer, bytes, len);
	if (r < 0)
		return r;
	writer->parts.body_sum = fgt_crc32c(writer->parts.body_sum, bytes, len);
	writer->parts.body_len += len;
	return 0;
}

/* The fixed part is written last, when the sums are known. */
static int write_all(struct writer *writer,
		     const struct fgt_spool_payload *payload)
{
	const struct fgt_spool_disk *disk = writer->spool->options.disk;
	const struct fgt_sink sink = { write_body, writer };
	uint8_t fixed[FGT_SPOOL_FIXED] = { 0 };
	int r = write_part(writer, fixed, sizeof(fixed));

	if (r == 0)
		r = write_part(writer, payload->head, payload->head_len);
	if (r == 0)
		r = payload->write(payload->context, &sink);
	if (r < 0)
		return r;
	fgt_spool_file_fix(&writer->parts, fixed);
	r = fgt_spool_disk_write(disk, writer->fd, fixed, sizeof(fixed), 0);
	return r < 0 ? r : disk->sync(disk->context, writer->fd);
}

static int choose_id(const struct fgt_spool *spool, uint64_t now_ns,
		     struct fgt_spool_id *ret_id)
{
	const struct fgt_spool_index *index = &spool->index;
	struct fgt_spool_id id = { .time = now_ns };

	if (getrandom(&id.random, sizeof(id.random), 0) != sizeof(id.random))
		return -EIO;
	if (id.time > FGT_SPOOL_TIME_MAX)
		id.time = FGT_SPOOL_TIME_MAX;
	if (index->count > 0) {
		uint64_t newest = index->entries[index->count - 1].id.time;

		if (id.time <= newest && newest < FGT_SPOOL_TIME_MAX)
			id.time = newest + 1;
	}
	*ret_id = id;
	return 0;
}

/* From its temporary name to its own; durable afterwards. */
static int publish(struct writer *writer, const struct fgt_spool_id *id)
{
	const struct fgt_spool_disk *disk = writer->spool->options.disk;
	int fd = writer->spool->directory_fd, r;
	char name[FGT_SPOOL_NAME_SIZE];

	fgt_spool_name_write(id, FGT_SPOOL_SUFFIX, name);
	r = disk->rename(disk->context, fd, writer->name, fd, name);
	if (r < 0)
		return r;
	r = disk->sync(disk->context, fd);
	if (r < 0)
		(void)disk->remove(disk->context, fd, name);
	return r;
}

static int write_entry(struct fgt_spool *spool,
		       const struct fgt_spool_payload *payload,
		       const struct fgt_spool_id *id, uint64_t now_ns,
		       uint64_t *ret_bytes)
{
	const struct fgt_spool_disk *disk = spool->options.disk;
	struct writer writer = {
		.spool = spool,
		.parts = { .created_ns = now_ns,
			   .head_len = (uint32_t)payload->head_len,
			   .head_sum = fgt_crc32c(0, payload->head,
						  payload->head_len) },
	};
	int r;

	fgt_spool_name_write(id, FGT_SPOOL_SUFFIX_TEMP, writer.name);
	writer.fd =
		disk->create(disk->context, spool->directory_fd, writer.name);
	if (writer.fd < 0)
		return writer.fd;
	r = write_all(&writer, payload);
	fgt_fd_close(writer.fd);
	/* Not before: no entry goes for one that cannot be written. */
	if (r == 0)
		r = fgt_spool_make_room(spool, writer.bytes, 1);
	if (r == 0)
		r = publish(&writer, id);
	if (r < 0)
		(void)disk->remove(disk->context, spool->directory_fd,
				   writer.name);
	*ret_bytes = writer.bytes;
	return r;
}

/* The disk is full: as many bytes go as were written, so that the next attempt
 * gets at least twice as far. */
static bool free_disk(struct fgt_spool *spool, uint64_t written)
{
	uint64_t wanted = written > FREED_AT_LEAST ? written : FREED_AT_LEAST;
	uint64_t before = spool->index.bytes;
	bool has_dropped = false;

	while (before - spool->index.bytes < wanted &&
	       fgt_spool_drop_oldest(spool, FGT_SPOOL_DISK_FULL))
		has_dropped = true;
	return has_dropped;
}

static bool is_disk_full(int error)
{
	return error == -ENOSPC || error == -EDQUOT;
}

int fgt_spool_add(struct fgt_spool *spool,
		  const struct fgt_spool_payload *payload, uint64_t now_ns,
		  struct fgt_spool_id *ret_id)
{
	struct fgt_spool_entry entry = { .created_ns = now_ns };
	/* A process that opens the spool removes temporary files. */
	int tries = spool->is_guest ? GUEST_TRIES : 1;
	int r;

	if (payload->head_len > FGT_SPOOL_HEAD_MAX)
		return -EMSGSIZE;
	fgt_spool_expire(spool, now_ns);
	r = choose_id(spool, now_ns, &entry.id);
	/* Before it is on the disk: then it must not fail any more. */
	if (r == 0)
		r = fgt_spool_index_reserve(&spool->index);
	if (r < 0)
		return r;
	do {
		entry.bytes = 0;
		r = write_entry(spool, payload, &entry.id, now_ns,
				&entry.bytes);
	} while ((is_disk_full(r) && free_disk(spool, entry.bytes)) ||
		 (r == -ENOENT && --tries > 0));
	if (r == 0)
		r = fgt_spool_index_add(&spool->index, &entry);
	if (r < 0)
		return r;
	*ret_id = entry.id;
	return 0;
}
