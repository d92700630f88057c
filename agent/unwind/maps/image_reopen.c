/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file of an image among those that the cache has open. Runs in any
 * thread; must not ask a file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "agent/unwind/maps/image_cache.h"
#include "agent/unwind/maps/maps_open.h"

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

/* A new file offset: fcntl's duplicates share one. */
static int reopen(int fd, int *ret_fd)
{
	char path[sizeof("/proc/thread-self/fd/") + 3 * sizeof(int)];
	int copy;

	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	copy = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (copy < 0)
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	*ret_fd = copy;
	return 0;
}

int fgt_image_cache_open_fd(struct fgt_image_cache *cache,
			    const uint8_t *build_id, size_t build_id_len,
			    const struct fgt_image_key *key, int *ret_fd)
{
	int best = 0, rank, r = -ENOENT;
	size_t found = 0;

	pthread_mutex_lock(&cache->lock);
	for (size_t i = 0; i < cache->count; i++) {
		rank = match_rank(cache->files[i], build_id, build_id_len, key);
		if (rank > best && fgt_image_is_unchanged(cache->files[i])) {
			best = rank;
			found = i;
		}
	}
	if (best)
		r = reopen(cache->files[found]->source.fd, ret_fd);
	pthread_mutex_unlock(&cache->lock);
	return r;
}
