/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the caps of a directory: the oldest files go. Any thread, with the
 * rights of the directory's user; must not remove a file that has another
 * pattern of name, and holds at most FILES_MAX names.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "ringbuf/base/owner.h"
#include "upload/deliver/directory/envelope_file.h"

#define FILES_MAX 65536
/* Of digits only, D stands for one. */
#define STAMP "-DDDDDDDDTDDDDDD.DDDZ"

struct old_file {
	char *name;
	const char *stamp; /* in the name */
	uint64_t bytes;
};

struct listing {
	struct old_file *files;
	size_t count, capacity;
	uint64_t bytes;
};

static void listing_done(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->files[i].name);
	free(listing->files);
}

/* The stamp of NAME-STAMP[-N]ENDING, or NULL. */
static const char *find_stamp(const char *name, const char *ending)
{
	size_t len = strlen(name), ending_len = strlen(ending);
	size_t stamp_len = strlen(STAMP), at;

	if (len <= ending_len + stamp_len ||
	    strcmp(name + len - ending_len, ending) != 0)
		return NULL;
	at = len - ending_len;
	while (at && strchr("0123456789", name[at - 1]))
		at--;
	at = at && at < len - ending_len && name[at - 1] == '-'
		     ? at - 1
		     : len - ending_len;
	if (at < stamp_len)
		return NULL;
	name += at - stamp_len;
	for (size_t i = 0; i < stamp_len; i++)
		if (STAMP[i] == 'D' ? !strchr("0123456789", name[i])
				    : STAMP[i] != name[i])
			return NULL;
	return name;
}

static int add(struct listing *listing, const char *name, const char *ending,
	       uint64_t bytes)
{
	struct old_file *grown;
	char *copy;

	if (listing->count == FILES_MAX)
		return -EOVERFLOW;
	if (listing->count == listing->capacity) {
		size_t capacity = listing->capacity ? listing->capacity * 2
						    : 64;

		grown = reallocarray(listing->files, capacity, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		listing->files = grown;
		listing->capacity = capacity;
	}
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	listing->files[listing->count++] =
		(struct old_file){ copy, find_stamp(copy, ending), bytes };
	listing->bytes += bytes;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct old_file *one = a, *other = b;

	return strncmp(one->stamp, other->stamp, strlen(STAMP));
}

static void list_files(DIR *directory, const char *ending,
		       struct listing *listing)
{
	struct dirent *entry;
	struct stat status;

	while ((entry = readdir(directory))) {
		if (!find_stamp(entry->d_name, ending) ||
		    fstatat(dirfd(directory), entry->d_name, &status,
			    AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(status.st_mode))
			continue;
		if (add(listing, entry->d_name, ending,
			(uint64_t)status.st_size) < 0)
			break;
	}
}

static void remove_oldest(int directory_fd,
			  const struct fgt_envelope_place *place,
			  struct listing *listing)
{
	size_t left = listing->count;

	qsort(listing->files, listing->count, sizeof(*listing->files), compare);
	for (size_t i = 0; i + 1 < listing->count; i++) {
		bool is_full =
			(place->max_files && left > place->max_files) ||
			(place->max_bytes && listing->bytes > place->max_bytes);

		if (!is_full)
			return;
		if (unlinkat(directory_fd, listing->files[i].name, 0) < 0)
			continue;
		left--;
		listing->bytes -= listing->files[i].bytes;
	}
}

void fgt_envelope_file_prune(int directory_fd,
			     const struct fgt_envelope_place *place)
{
	struct listing listing = { .count = 0 };
	int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);

	if (!directory) {
		fgt_fd_close(fd);
		return;
	}
	list_files(directory, place->ending, &listing);
	if (listing.count)
		remove_oldest(fd, place, &listing);
	closedir(directory);
	listing_done(&listing);
}
