/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of open ELF files: descriptors, headers, unwind sections, some
 * code. Any thread; must never map a file, nor keep more than its bounds.
 */
#include "agent/unwind/maps/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "agent/files/open_file.h"
#include "agent/unwind/arch/arch.h"
#include "agent/unwind/cfi/cfi_rows.h"
#include "agent/unwind/maps/image_cache.h"
#include "ringbuf/base/clock.h"
#include "ringbuf/base/fd.h"

#define CFI_BYTES_MAX ((size_t)256 << 20)
#define IDLE_NS	      UINT64_C(60000000000) /* then a file is closed */

int fgt_image_cache_new(struct fgt_image_cache **ret_cache)
{
	struct fgt_image_cache *cache = calloc(1, sizeof(*cache));
	struct rlimit limit;

	if (!cache)
		return -ENOMEM;
	if (fgt_cfi_rows_new(&cache->rows) < 0) {
		free(cache);
		return -ENOMEM;
	}
	pthread_mutex_init(&cache->lock, NULL);
	cache->references = 1;
	cache->now_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	cache->cfi_max = CFI_BYTES_MAX;
	fgt_image_cfi_refill(cache, UINT64_MAX);
	cache->limit = FGT_IMAGE_FILES_MAX;
	/* Half of the descriptors is for the rest of the process. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    limit.rlim_cur / 2 < cache->limit)
		cache->limit = limit.rlim_cur / 2;
	*ret_cache = cache;
	return 0;
}

void fgt_image_cache_limit_rules(struct fgt_image_cache *cache, uint64_t bytes)
{
	pthread_mutex_lock(&cache->lock);
	cache->cfi_max = bytes < CFI_BYTES_MAX ? bytes : CFI_BYTES_MAX;
	if (cache->cfi_max < cache->whole_bytes)
		cache->whole_bytes = cache->cfi_max;
	fgt_image_cfi_trim(cache);
	pthread_mutex_unlock(&cache->lock);
	if (cache->server)
		cache->server->limit_rules(cache->server_context, bytes);
}

static void file_free(struct fgt_image_file *file)
{
	if (!file)
		return;
	if (file->cache->server)
		file->cache->server->forget(file->cache->server_context,
					    &file->served);
	/* Closing may wait for its file system for ever. */
	fgt_file_close_of(file->source.fd, (uint32_t)file->served.user);
	free((void *)file->source.bytes);
	fgt_image_cfi_drop(file);
	free(file);
}
FGT_DEFINE_AUTO(struct fgt_image_file *, file_free);

/* The last reference of owner or file ends the cache. Lock held, released. */
static void unlock_or_free(struct fgt_image_cache *cache)
{
	bool is_last = !cache->references;

	pthread_mutex_unlock(&cache->lock);
	if (!is_last)
		return;
	pthread_mutex_destroy(&cache->lock);
	fgt_cfi_rows_free(cache->rows);
	if (cache->server)
		cache->server->free(cache->server_context);
	free(cache->known);
	free(cache);
}

static void drop_at(struct fgt_image_cache *cache, size_t i)
{
	struct fgt_image_file *file = cache->files[i];

	cache->files[i] = cache->files[--cache->count];
	file->is_listed = false;
	if (!file->references)
		file_free(file);
}

void fgt_image_cache_free(struct fgt_image_cache *cache)
{
	if (!cache)
		return;
	pthread_mutex_lock(&cache->lock);
	while (cache->count)
		drop_at(cache, cache->count - 1);
	cache->references--;
	unlock_or_free(cache);
}

/* The thread that held the lock may not exist here: goes without it. */
void fgt_image_cache_forked(const struct fgt_image_cache *cache)
{
	for (size_t i = 0; i < cache->count; i++)
		fgt_fd_close(cache->files[i]->source.fd);
}

void fgt_image_file_put(struct fgt_image_file *file)
{
	struct fgt_image_cache *cache;

	if (!file)
		return;
	cache = file->cache;
	pthread_mutex_lock(&cache->lock);
	if (--file->references == 0) {
		cache->references--;
		file->unused_ns = cache->now_ns;
		if (!file->is_listed)
			file_free(file);
	}
	unlock_or_free(cache);
}

static void take_reference(struct fgt_image_file *file)
{
	if (file->references++ == 0)
		file->cache->references++;
	file->last_used = ++file->cache->clock;
}

static bool is_same_key(const struct fgt_image_key *a,
			const struct fgt_image_key *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->user == b->user;
}

/* The inode cannot be reused while it is open, but it can be written to. */
bool fgt_image_is_unchanged(const struct fgt_image_file *file)
{
	struct statx status;

	/* Of what the kernel knows: the file system is not waited for. */
	return file->source.fd < 0 ||
	       (statx(file->source.fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		      STATX_SIZE | STATX_MTIME, &status) == 0 &&
		status.stx_size == file->source.len &&
		status.stx_mtime.tv_sec == file->modified.tv_sec &&
		status.stx_mtime.tv_nsec == file->modified.tv_nsec);
}

/* The file by fstat's key only: layered file systems give maps ambiguous keys.
 */
static struct fgt_image_file *find_real(struct fgt_image_cache *cache,
					const struct fgt_image_key *key)
{
	for (size_t i = 0; i < cache->count; i++) {
		struct fgt_image_file *file = cache->files[i];

		if (file->source.bytes || !is_same_key(&file->real, key))
			continue;
		if (fgt_image_is_unchanged(file))
			return file;
		drop_at(cache, i);
		return NULL;
	}
	return NULL;
}

int fgt_image_cache_find(struct fgt_image_cache *cache,
			 const struct fgt_image_key *key,
			 struct fgt_image_file **ret_file)
{
	struct fgt_image_file *file;

	pthread_mutex_lock(&cache->lock);
	file = find_real(cache, key);
	if (file)
		take_reference(file);
	pthread_mutex_unlock(&cache->lock);
	if (!file)
		return -ENOENT;
	*ret_file = file;
	return 0;
}

/* Drops the file that was unused for longest. False: all are in use. */
static bool evict_one(struct fgt_image_cache *cache)
{
	size_t oldest = cache->count;

	for (size_t i = 0; i < cache->count; i++)
		if (!cache->files[i]->references &&
		    (oldest == cache->count ||
		     cache->files[i]->last_used <
			     cache->files[oldest]->last_used))
			oldest = i;
	if (oldest == cache->count)
		return false;
	drop_at(cache, oldest);
	return true;
}

/* Of what the kernel knows: a file system that does not answer is not asked. */
static bool is_deleted(const struct fgt_image_file *file)
{
	struct statx status;

	return statx(file->source.fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		     STATX_NLINK, &status) == 0 &&
	       status.stx_nlink == 0;
}

static bool is_idle(const struct fgt_image_file *file, uint64_t now_ns,
		    uint64_t kept_ns)
{
	uint64_t idle_ns = now_ns - file->unused_ns;

	if (file->references || file->source.fd < 0)
		return false;
	/* By its path nothing finds a deleted one for a kept ring. */
	return idle_ns >= kept_ns || (idle_ns >= IDLE_NS && !is_deleted(file));
}

void fgt_image_cache_tend(struct fgt_image_cache *cache, uint64_t now_ns,
			  uint64_t kept_ns)
{
	pthread_mutex_lock(&cache->lock);
	if (now_ns > cache->now_ns) {
		fgt_image_cfi_refill(cache, now_ns - cache->now_ns);
		cache->now_ns = now_ns;
	}
	for (size_t i = cache->count; i-- > 0;) {
		struct fgt_image_file *file = cache->files[i];

		if (!is_idle(file, now_ns, kept_ns))
			continue;
		cache->files[i] = cache->files[--cache->count];
		fgt_image_cfi_drop(file);
		/* Freeing a table takes long; the sampler must not wait. */
		pthread_mutex_unlock(&cache->lock);
		file_free(file);
		pthread_mutex_lock(&cache->lock);
		if (i > cache->count)
			i = cache->count;
	}
	pthread_mutex_unlock(&cache->lock);
	if (cache->server)
		cache->server->tend(cache->server_context, now_ns);
}

void fgt_image_cache_get_counters(struct fgt_image_cache *cache,
				  struct fgt_image_cache_counters *ret_counters)
{
	pthread_mutex_lock(&cache->lock);
	*ret_counters = cache->counters;
	ret_counters->files = cache->count;
	pthread_mutex_unlock(&cache->lock);
	if (cache->server)
		cache->server->count(cache->server_context, ret_counters);
}

/* Lists a new file and takes the caller's reference. Lock held. */
static int list_file(struct fgt_image_cache *cache,
		     struct fgt_image_file **file)
{
	if (cache->count >= cache->limit && !evict_one(cache)) {
		cache->counters.refused_files++;
		return -EMFILE;
	}
	(*file)->is_listed = true;
	cache->files[cache->count++] = *file;
	take_reference(*file);
	return 0;
}

static struct fgt_image_file *find_bytes(struct fgt_image_cache *cache,
					 uint64_t user,
					 const struct fgt_elf_source *like)
{
	for (size_t i = 0; i < cache->count; i++) {
		struct fgt_image_file *file = cache->files[i];

		if (file->source.bytes && file->served.user == user &&
		    file->source.len == like->len &&
		    !memcmp(file->source.bytes, like->bytes, like->len))
			return file;
	}
	return NULL;
}

static struct fgt_image_file *find_like(struct fgt_image_cache *cache,
					const struct fgt_image_file *file)
{
	return file->source.bytes
		       ? find_bytes(cache, file->served.user, &file->source)
		       : find_real(cache, &file->real);
}

/*
 * Hands out the listed file that is the same as this one, else lists this one
 * and takes it from the caller.
 */
static int share_file(struct fgt_image_cache *cache,
		      struct fgt_image_file **file,
		      struct fgt_image_file **ret_file)
{
	struct fgt_image_file *known;
	int r = 0;

	pthread_mutex_lock(&cache->lock);
	known = find_like(cache, *file);
	if (known)
		take_reference(known);
	else
		r = list_file(cache, file);
	pthread_mutex_unlock(&cache->lock);
	if (r < 0)
		return r;
	*ret_file = known ? known : FGT_TAKE(*file);
	return 0;
}

static struct fgt_image_file *new_file(struct fgt_image_cache *cache,
				       uint64_t user)
{
	struct fgt_image_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->cache = cache;
	file->source.fd = -1;
	file->served.user = user;
	file->served.source = &file->source;
	pthread_mutex_lock(&cache->lock);
	file->served.serial = ++cache->last_serial;
	pthread_mutex_unlock(&cache->lock);
	return file;
}

static int parse_for_host(struct fgt_image_file *file, unsigned int wait_ms)
{
	const struct fgt_image_cache *cache = file->cache;
	int r = cache->server ? cache->server->get_elf(cache->server_context,
						       &file->served, wait_ms,
						       &file->elf)
			      : fgt_elf_parse(&file->source, &file->elf);

	if (r < 0 || !file->elf.load_count)
		return r < 0 ? r : -EBADMSG;
	return file->elf.machine == fgt_arch_host.elf_machine ? 0 : -ENOEXEC;
}

/* Is it listed already? Else its facts are asked for, and it is listed. */
static int share_new(struct fgt_image_cache *cache,
		     struct fgt_image_file **file, unsigned int wait_ms,
		     struct fgt_image_file **ret_file)
{
	struct fgt_image_file *known;
	int r;

	pthread_mutex_lock(&cache->lock);
	known = find_like(cache, *file);
	if (known)
		take_reference(known);
	pthread_mutex_unlock(&cache->lock);
	if (known) {
		*ret_file = known;
		return 0;
	}
	r = parse_for_host(*file, wait_ms);
	if (r == -EAGAIN) /* which other calls have for other reasons */
		return -EINPROGRESS;
	return r < 0 ? r : share_file(cache, file, ret_file);
}

/* Of what the kernel knows; a process whose filter lacks statx may wait. */
static int get_status(int fd, struct stat *ret_status)
{
	return fgt_file_status(fd, ret_status) < 0 && fstat(fd, ret_status) < 0
		       ? -errno
		       : 0;
}

int fgt_image_cache_add(struct fgt_image_cache *cache, int fd,
			const struct fgt_image_key *mapped,
			unsigned int wait_ms, struct fgt_image_file **ret_file)
{
	FGT_AUTO(file_free)
	struct fgt_image_file *file = new_file(cache, mapped->user);
	struct stat status;
	int r;

	if (!file) {
		fgt_file_close_of(fd, (uint32_t)mapped->user);
		return -ENOMEM;
	}
	file->source.fd = fgt_fd_apart(fd);
	r = get_status(file->source.fd, &status);
	if (r < 0)
		return r;
	file->real.dev = status.st_dev;
	file->real.ino = status.st_ino;
	file->real.user = mapped->user;
	file->mapped = *mapped;
	file->modified = status.st_mtim;
	file->source.len = (uint64_t)status.st_size;
	return share_new(cache, &file, wait_ms, ret_file);
}

int fgt_image_cache_add_bytes(struct fgt_image_cache *cache,
			      const uint8_t *bytes, size_t len, uint64_t user,
			      unsigned int wait_ms,
			      struct fgt_image_file **ret_file)
{
	FGT_AUTO(file_free) struct fgt_image_file *file = NULL;
	uint8_t *copy;

	file = new_file(cache, user);
	if (!file)
		return -ENOMEM;
	copy = malloc(len + 1);
	if (!copy)
		return -ENOMEM;
	file->source.bytes = memcpy(copy, bytes, len);
	file->source.len = len;
	return share_new(cache, &file, wait_ms, ret_file);
}

const struct fgt_elf *fgt_image_file_elf(const struct fgt_image_file *file)
{
	return &file->elf;
}

uint64_t fgt_image_file_serial(const struct fgt_image_file *file)
{
	return file->served.serial;
}

struct fgt_cfi_rows *fgt_image_cache_rows(struct fgt_image_cache *cache)
{
	return cache->rows;
}
