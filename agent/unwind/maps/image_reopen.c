/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file of an image among those that the cache has open. Runs in any
 * thread; must not ask a file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "agent/files/open_file.h"
#include "agent/unwind/maps/image_cache.h"
#include "agent/unwind/maps/maps_open.h"
#include "ringbuf/base/owner.h"

static bool is_same_place(const struct fgt_image_key *a,
			  const struct fgt_image_key *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

/* 3: all agree, 2: build id, 1: (dev, ino), 0: another file. */
static int match_rank(const struct fgt_image_file *file,
		      const uint8_t *build_id, size_t build_id_len,
		      const struct fgt_image_key *key)
{
	bool is_user = !file->cache->server ||
		       fgt_maps_is_user(file->served.user, key->user);
	bool has_key = (key->dev || key->ino) &&
		       (is_same_place(&file->real, key) ||
			is_same_place(&file->mapped, key));
	bool has_build_id = build_id_len &&
			    file->elf.build_id_len == build_id_len &&
			    !memcmp(file->elf.build_id, build_id, build_id_len);

	if (file->source.fd < 0 || !is_user || (build_id_len && !has_build_id))
		return 0;
	return (has_build_id ? 2 : 0) + (has_key ? 1 : 0);
}

/*
 * A new file offset: duplicates share one. The file system is asked to open it:
 * not by this thread, and not with the lock, which the sampler takes.
 */
static int reopen(int fd, uint32_t user, int *ret_fd)
{
	FGT_AUTO(fgt_fd_close)
	int self_fd =
		open("/proc/thread-self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[sizeof("fd/") + 3 * sizeof(int)];
	const struct fgt_open_request request = {
		.place = FGT_OPEN_LINK,
		.dir_fd = self_fd,
		.path = path,
		.uid = user,
	};
	struct fgt_opened_file file;
	int r;

	snprintf(path, sizeof(path), "fd/%d", fd);
	r = self_fd < 0 ? -errno : fgt_file_open(&request, &file);
	if (r == 0) {
		*ret_fd = file.fd;
		return 0;
	}
	if (!fgt_file_may_come(r))
		return r;
	/* Of users whose files are refused at present, the duplicate must do:
	 * the helper, which reads it, has a bound. */
	r = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (r < 0)
		return -errno;
	*ret_fd = r;
	return 0;
}

/* A duplicate of the file that matches best. */
static int copy_best(struct fgt_image_cache *cache, const uint8_t *build_id,
		     size_t build_id_len, const struct fgt_image_key *key,
		     uint32_t *ret_user)
{
	int best = 0, rank, copy = -ENOENT;
	size_t found = 0;

	pthread_mutex_lock(&cache->lock);
	for (size_t i = 0; i < cache->count; i++) {
		rank = match_rank(cache->files[i], build_id, build_id_len, key);
		if (rank > best && fgt_image_is_unchanged(cache->files[i])) {
			best = rank;
			found = i;
		}
	}
	if (best) {
		*ret_user = (uint32_t)cache->files[found]->served.user;
		copy = fcntl(cache->files[found]->source.fd, F_DUPFD_CLOEXEC,
			     0);
		copy = copy < 0 ? -errno : copy;
	}
	pthread_mutex_unlock(&cache->lock);
	return copy;
}

int fgt_image_cache_open_fd(struct fgt_image_cache *cache,
			    const uint8_t *build_id, size_t build_id_len,
			    const struct fgt_image_key *key, int *ret_fd)
{
	uint32_t user;
	int copy = copy_best(cache, build_id, build_id_len, key, &user), r;

	if (copy < 0)
		return copy;
	r = reopen(copy, user, ret_fd);
	if (r < 0 && r != -ETIMEDOUT && r != -EBUSY) {
		*ret_fd = copy;
		return 0;
	}
	fgt_file_close_of(copy, user);
	return r;
}
