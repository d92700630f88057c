/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk keeps, beside the real files, what of them would be there after a
 * loss of power: bytes at the last fsync of a file, names at the last fsync of
 * the directory.
 */
#include "spool_kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Calls -------------------------------------------------------------- */

/* 0: it happens. */
static int count_call(struct kit_disk *disk)
{
	disk->calls++;
	if (disk->dies_at && disk->calls >= disk->dies_at)
		return -EIO;
	if (disk->fails_at &&
	    (disk->calls == disk->fails_at ||
	     (disk->fails_always && disk->calls > disk->fails_at)))
		return disk->error;
	return 0;
}

static struct kit_file *find_free(struct kit_disk *disk)
{
	for (size_t i = 0; i < KIT_FILES; i++)
		if (!disk->files[i].is_used)
			return &disk->files[i];
	fail_msg("more than %d files", KIT_FILES);
	return NULL;
}

static struct kit_file *find_name(struct kit_disk *disk, const char *name)
{
	for (size_t i = 0; i < KIT_FILES; i++)
		if (disk->files[i].is_used &&
		    strcmp(disk->files[i].live, name) == 0)
			return &disk->files[i];
	return NULL;
}

static struct kit_file *find_fd(struct kit_disk *disk, int fd)
{
	for (size_t i = 0; i < KIT_FILES; i++)
		if (disk->files[i].is_used && disk->files[i].fd == fd)
			return &disk->files[i];
	return NULL;
}

static int create(void *context, int directory_fd, const char *name)
{
	struct kit_disk *disk = context;
	int r = count_call(disk);
	struct kit_file *file;

	if (r < 0)
		return r;
	r = fgt_spool_disk.create(NULL, directory_fd, name);
	if (r < 0)
		return r;
	/* The spool closes descriptors itself: the number is another's now. */
	file = find_fd(disk, r);
	if (file)
		file->fd = -1;
	file = find_free(disk);
	*file = (struct kit_file){ .is_used = true, .fd = r };
	strcpy(file->live, name);
	return r;
}

static ssize_t write_at(void *context, int fd, const void *bytes, size_t len,
			uint64_t at)
{
	struct kit_disk *disk = context;
	struct kit_file *file = find_fd(disk, fd);
	int r = count_call(disk);

	if (r < 0 && disk->dies_at == disk->calls)
		(void)fgt_spool_disk.write(NULL, fd, bytes, len / 2, at);
	if (r < 0)
		return r;
	if (disk->capacity) {
		uint64_t used = kit_count_bytes(disk);

		if (used >= disk->capacity)
			return -ENOSPC;
		if (len > disk->capacity - used)
			len = disk->capacity - used;
	}
	if (file)
		file->is_synced = false;
	return fgt_spool_disk.write(NULL, fd, bytes, len, at);
}

static void read_file(const struct kit_disk *disk, struct kit_file *file)
{
	char path[160];
	struct stat status;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", disk->path, file->live);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	free(file->bytes);
	file->len = (size_t)status.st_size;
	file->bytes = malloc(file->len + 1);
	assert_non_null(file->bytes);
	assert_int_equal(pread(fd, file->bytes, file->len, 0), file->len);
	close(fd);
}

static void sync_names(struct kit_disk *disk)
{
	for (size_t i = 0; i < KIT_FILES; i++) {
		struct kit_file *file = &disk->files[i];

		if (!file->is_used)
			continue;
		strcpy(file->durable, file->live);
		if (!*file->live) {
			free(file->bytes);
			*file = (struct kit_file){ .is_used = false };
		}
	}
}

static int sync_file(void *context, int fd)
{
	struct kit_disk *disk = context;
	struct stat status;
	int r = count_call(disk);
	struct kit_file *file;

	if (r < 0)
		return r;
	assert_int_equal(fstat(fd, &status), 0);
	file = find_fd(disk, fd);
	if (S_ISDIR(status.st_mode)) {
		sync_names(disk);
	} else {
		assert_non_null(file);
		read_file(disk, file);
		file->is_synced = true;
	}
	return 0;
}

static int rename_file(void *context, int from_fd, const char *from, int to_fd,
		       const char *to)
{
	struct kit_disk *disk = context;
	struct kit_file *file = find_name(disk, from);
	int r = count_call(disk);

	if (r == 0)
		r = fgt_spool_disk.rename(NULL, from_fd, from, to_fd, to);
	if (r == 0 && file)
		strcpy(file->live, from_fd == to_fd ? to : "");
	return r;
}

static int remove_file(void *context, int directory_fd, const char *name)
{
	struct kit_disk *disk = context;
	struct kit_file *file = find_name(disk, name);
	int r = count_call(disk);

	if (r == 0)
		r = fgt_spool_disk.remove(NULL, directory_fd, name);
	if (r == 0 && file)
		file->live[0] = '\0';
	return r;
}

/* ---- The directory ------------------------------------------------------ */

void kit_disk_init(struct kit_disk *disk)
{
	memset(disk, 0, sizeof(*disk));
	strcpy(disk->path, "/tmp/fgt-spool-XXXXXX");
	assert_non_null(mkdtemp(disk->path));
	disk->table = (struct fgt_spool_disk){ .create = create,
					       .write = write_at,
					       .sync = sync_file,
					       .rename = rename_file,
					       .remove = remove_file,
					       .context = disk };
}

static void empty(const char *path)
{
	DIR *stream = opendir(path);
	struct dirent *entry;
	char name[400];

	if (!stream)
		return;
	while ((entry = readdir(stream))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (unlink(name) < 0)
			(void)rmdir(name);
	}
	closedir(stream);
}

static void empty_both(const struct kit_disk *disk)
{
	char bad[80];

	snprintf(bad, sizeof(bad), "%s/bad", disk->path);
	empty(bad);
	empty(disk->path);
}

void kit_disk_done(struct kit_disk *disk)
{
	empty_both(disk);
	assert_int_equal(rmdir(disk->path), 0);
	for (size_t i = 0; i < KIT_FILES; i++)
		free(disk->files[i].bytes);
}

void kit_disk_restart(struct kit_disk *disk)
{
	disk->dies_at = disk->fails_at = 0;
	disk->fails_always = false;
	for (size_t i = 0; i < KIT_FILES; i++)
		disk->files[i].fd = -1;
}

uint64_t kit_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static void write_file(const struct kit_disk *disk, const char *name,
		       const struct kit_file *file, size_t len)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", disk->path, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, file->bytes, len), len);
	close(fd);
}

/* Any subset of names that were not synced; any beginning of such bytes. */
void kit_disk_lose_power(struct kit_disk *disk, uint64_t *random)
{
	kit_disk_restart(disk);
	for (size_t i = 0; i < KIT_FILES; i++) {
		struct kit_file *file = &disk->files[i];

		if (!file->is_used)
			continue;
		if (!file->is_synced && *file->live)
			read_file(disk, file);
		if (kit_random(random) & 1)
			strcpy(file->live, file->durable);
	}
	empty_both(disk);
	for (size_t i = 0; i < KIT_FILES; i++) {
		struct kit_file *file = &disk->files[i];

		if (file->is_used && *file->live) {
			if (!file->is_synced && file->len)
				file->len = kit_random(random) % file->len;
			write_file(disk, file->live, file, file->len);
			file->is_synced = true;
			strcpy(file->durable, file->live);
		} else if (file->is_used) {
			free(file->bytes);
			*file = (struct kit_file){ .is_used = false };
		}
	}
}

size_t kit_count_files(const struct kit_disk *disk, const char *suffix,
		       bool is_bad)
{
	char path[80];
	struct dirent *entry;
	size_t count = 0;
	DIR *stream;

	snprintf(path, sizeof(path), "%s%s", disk->path, is_bad ? "/bad" : "");
	stream = opendir(path);
	while (stream && (entry = readdir(stream))) {
		const char *dot = strrchr(entry->d_name, '.');

		count += dot && strcmp(dot, suffix) == 0;
	}
	if (stream)
		closedir(stream);
	return count;
}

uint64_t kit_count_bytes(const struct kit_disk *disk)
{
	DIR *stream = opendir(disk->path);
	struct dirent *entry;
	struct stat status;
	uint64_t bytes = 0;

	assert_non_null(stream);
	while ((entry = readdir(stream)))
		if (fstatat(dirfd(stream), entry->d_name, &status,
			    AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(status.st_mode) && strchr(entry->d_name, '.'))
			bytes += (uint64_t)status.st_size;
	closedir(stream);
	return bytes;
}

/* ---- Payloads ----------------------------------------------------------- */

static uint8_t byte_of(uint64_t number, size_t at)
{
	return (uint8_t)((number * 31 + at) * 167 >> 3);
}

static int write_body(void *context, const struct fgt_sink *sink)
{
	const struct kit_payload *payload = context;
	uint8_t bytes[700];
	size_t at = 0;
	int r = 0;

	while (r == 0 && at < payload->len) {
		size_t len = payload->len - at;

		if (len > sizeof(bytes))
			len = sizeof(bytes);
		for (size_t i = 0; i < len; i++)
			bytes[i] = byte_of(payload->number, at + i);
		r = fgt_sink_write(sink, bytes, len);
		at += len;
	}
	return r;
}

int kit_add(struct fgt_spool *spool, const struct kit_payload *payload,
	    uint64_t now_ns, struct fgt_spool_id *ret_id)
{
	const struct fgt_spool_payload given = {
		.head = payload,
		.head_len = sizeof(*payload),
		.write = write_body,
		.context = (void *)(uintptr_t)payload,
	};

	return fgt_spool_add(spool, &given, now_ns, ret_id);
}

uint64_t kit_read_number(struct fgt_spool *spool, const struct fgt_spool_id *id)
{
	static uint8_t head[FGT_SPOOL_HEAD_MAX];
	struct kit_payload payload;
	struct fgt_spool_parts parts;
	uint8_t *body;
	int fd;

	assert_int_equal(fgt_spool_hold(spool, id, &fd), 0);
	assert_int_equal(fgt_spool_file_read(fd, head, &parts, &body), 0);
	assert_int_equal(parts.head_len, sizeof(payload));
	memcpy(&payload, head, sizeof(payload));
	assert_int_equal(parts.body_len, payload.len);
	for (size_t i = 0; i < payload.len; i++)
		assert_int_equal(body[i], byte_of(payload.number, i));
	free(body);
	close(fd);
	fgt_spool_release(spool, id);
	return payload.number;
}

/* ---- One disk and one spool for a test ---------------------------------- */

struct kit_disk kit_disk;
unsigned int kit_dropped[FGT_SPOOL_DROPS];

static void note_drop(void *context, const struct fgt_spool_entry *entry,
		      enum fgt_spool_drop reason)
{
	(void)context;
	assert_true(entry->bytes > 0 || reason == FGT_SPOOL_DAMAGED);
	kit_dropped[reason]++;
}

struct fgt_spool_options kit_options(void)
{
	return (struct fgt_spool_options){ .path = kit_disk.path,
					   .disk = &kit_disk.table,
					   .dropped = note_drop };
}

struct fgt_spool *kit_open_with(const struct fgt_spool_options *options,
				uint64_t now_ns)
{
	struct fgt_spool *spool = NULL;
	struct fgt_why why = { "" };
	int r = fgt_spool_open(options, now_ns, &spool, &why);

	if (r < 0)
		fail_msg("%d: %s", r, why.text);
	return spool;
}

struct fgt_spool *kit_open(void)
{
	const struct fgt_spool_options options = kit_options();

	return kit_open_with(&options, KIT_NOW_NS);
}

struct fgt_spool_id kit_add_number(struct fgt_spool *spool, uint64_t number,
				   size_t len)
{
	const struct kit_payload payload = { number, len };
	struct fgt_spool_id id = { 0 };

	assert_int_equal(kit_add(spool, &payload, KIT_NOW_NS + number, &id), 0);
	return id;
}

size_t kit_count(struct fgt_spool *spool)
{
	return fgt_spool_index(spool)->count;
}

struct fgt_spool_id kit_id_at(struct fgt_spool *spool, size_t i)
{
	return fgt_spool_index(spool)->entries[i].id;
}

void kit_path_of(const struct fgt_spool_id *id, char path[160])
{
	char name[FGT_SPOOL_NAME_SIZE];

	fgt_spool_name_write(id, FGT_SPOOL_SUFFIX, name);
	snprintf(path, 160, "%s/%s", kit_disk.path, name);
}

int kit_set_up(void **state)
{
	(void)state;
	kit_disk_init(&kit_disk);
	memset(kit_dropped, 0, sizeof(kit_dropped));
	return 0;
}

int kit_tear_down(void **state)
{
	(void)state;
	kit_disk_done(&kit_disk);
	return 0;
}
