/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the names in a directory. The spool's thread.
 */
#include "upload/deliver/spool/spool_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "ringbuf/base/array.h"
#include "ringbuf/base/owner.h"

static int compare(const void *a, const void *b)
{
	return fgt_spool_id_compare(a, b);
}

static int read_names(DIR *stream, const char *suffix,
		      struct fgt_spool_names *names)
{
	const struct dirent *entry;
	struct fgt_spool_id id;

	errno = 0;
	while (names->count < FGT_SPOOL_NAMES_MAX &&
	       (entry = readdir(stream))) {
		if (!fgt_spool_name_read(entry->d_name, suffix, &id))
			continue;
		if (FGT_ARRAY_GROW(names->ids, names->count, names->capacity) <
		    0)
			return -ENOMEM;
		names->ids[names->count++] = id;
		errno = 0;
	}
	return -errno;
}

int fgt_spool_scan(int directory_fd, const char *suffix,
		   struct fgt_spool_names *names)
{
	/* Opened again: the place in a directory belongs to the open file. */
	int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream;
	int r;

	if (fd < 0)
		return -errno;
	stream = fdopendir(fd);
	if (!stream) {
		r = -errno;
		fgt_fd_close(fd);
		return r;
	}
	r = read_names(stream, suffix, names);
	closedir(stream);
	fgt_spool_names_sort(names);
	return r;
}

void fgt_spool_names_sort(struct fgt_spool_names *names)
{
	FGT_ARRAY_SORT(names->ids, names->count, compare);
}

bool fgt_spool_names_has(const struct fgt_spool_names *names,
			 const struct fgt_spool_id *id)
{
	size_t at = FGT_ARRAY_BISECT(
		i, names->count, fgt_spool_id_compare(&names->ids[i], id) < 0);

	return at < names->count &&
	       fgt_spool_id_compare(&names->ids[at], id) == 0;
}

void fgt_spool_names_done(struct fgt_spool_names *names)
{
	free(names->ids);
	*names = (struct fgt_spool_names){ 0 };
}
