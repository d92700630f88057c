/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers the names of addresses by image, and which images are bad.
 * Bounded in images and bytes, least recently used first. Runs in the daemon.
 */
#ifndef FGT_AGENT_SYMBOLS_NAMES_NAME_CACHE_H
#define FGT_AGENT_SYMBOLS_NAMES_NAME_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "agent/symbols/names/names.h"
#include "ringbuf/base/id_map.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/slice/frame.h"

#define FGT_NAME_CACHE_IMAGES_MAX 512
#define FGT_NAME_CACHE_BYTES_MAX  (24u << 20)

/*
 * The key of an image: its build id, else the file while one process runs (a
 * file that is overwritten keeps its numbers, but not under a process that runs
 * it). A build id can be forged, so the key has the user: no user chooses the
 * names in slices of another. Zero what is not used.
 */
struct fgt_name_key {
	uint8_t build_id[FGT_BUILD_ID_MAX];
	uint64_t build_id_len;
	uint64_t dev, ino;
	uint64_t pid, start_time;
	uint64_t uid;
};

struct fgt_name_pack {
	uint32_t offset, len; /* in bytes */
};

struct fgt_name_image {
	struct fgt_name_key key;
	uint64_t number; /* what the helper calls it; never used twice */
	unsigned int failures; /* how often a helper died of it */
	unsigned int pauses; /* how often it has been left alone since */
	uint64_t retry_ns; /* when that ends */
	uint64_t used;
	struct fgt_id_map addresses; /* address → index of its pack */
	struct fgt_name_pack *packs;
	uint32_t capacity; /* of packs */
	struct fgt_memory_sink bytes; /* of all packs */
};

struct fgt_name_cache;

/* NULL without memory. shares: how many caches there are, which share
 * FGT_NAME_CACHE_BYTES_MAX; outlives the cache. */
struct fgt_name_cache *fgt_name_cache_new(const atomic_uint *shares);
void fgt_name_cache_free(struct fgt_name_cache *cache);
FGT_DEFINE_AUTO(struct fgt_name_cache *, fgt_name_cache_free);

/*
 * The image of a key, made if it is new; valid until the next call. Also
 * makes room: forgets other images' names, or this one's, past the bounds.
 * -ENOMEM.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_name_cache_get(struct fgt_name_cache *cache,
		       const struct fgt_name_key *key,
		       struct fgt_name_image **ret_image);

/* Forgets names past the bounds, which more caches may share by now. */
void fgt_name_cache_trim(struct fgt_name_cache *cache);

/* The pack of an address; valid until the next change. False if unknown. */
bool fgt_name_image_find(const struct fgt_name_image *image, uint64_t address,
			 const uint8_t **ret_pack, size_t *ret_len);

/* From so many on: asked about without its DWARF; left alone. */
#define FGT_NAME_FAILURES_DWARF 2
#define FGT_NAME_FAILURES_BAD	4

/*
 * A helper died of the image, which counts as so many failures. After
 * FGT_NAME_FAILURES_BAD it is left alone for a minute, and twice as long each
 * further time, up to 64 minutes: something else may have killed the helpers.
 * now_ns: CLOCK_MONOTONIC.
 */
void fgt_name_image_fail(struct fgt_name_image *image, unsigned int failures,
			 uint64_t now_ns);

/* It is no file that the helper understands: it is never asked about again. */
void fgt_name_image_give_up(struct fgt_name_image *image);

/* May a helper be asked about the image? At the end of a pause: again, once
 * with its DWARF. */
bool fgt_name_image_may_ask(struct fgt_name_image *image, uint64_t now_ns);

/* Remembers a pack (copied); once per address. -ENOMEM, -EMSGSIZE. */
int fgt_name_image_add(struct fgt_name_image *image, uint64_t address,
		       const uint8_t *pack, size_t len);

#endif
