/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call to resolve a slice, and the symbolizer that it uses. Private to the
 * symbolizer; runs in threads that make slices.
 */
#ifndef FGT_AGENT_SYMBOLS_RESOLVER_H
#define FGT_AGENT_SYMBOLS_RESOLVER_H

#include <pthread.h>

#include "agent/symbols/checksums.h"
#include "agent/symbols/elf/image_open.h"
#include "agent/symbols/helper/helper.h"
#include "agent/symbols/names/name_cache.h"
#include "agent/symbols/perfmap.h"
#include "agent/symbols/symbolizer.h"

/* For all checksums of one call. A file whose checksum takes longer is not
 * taken. */
#define FGT_RESOLVER_CHECKSUMS_MS 2000

/*
 * One helper for each user whose programs are named: a file that takes over its
 * helper sees no file of another user. Past this number the one that was used
 * least recently ends.
 */
#define FGT_USER_HELPERS_MAX 8

struct fgt_user_helper {
	struct fgt_helper helper;
	uint32_t uid;
	uint64_t used; /* when: larger is later; 0: never */
};

struct fgt_symbolizer {
	enum fgt_demangle demangle;
	unsigned int wait_max_ms;
	struct fgt_image_places places;
	char **debug_dirs; /* what places has, NULL at the end */
	/* Protects all below; held for one image at a time. The lock of the
	 * image cache nests inside. */
	pthread_mutex_t lock;
	struct fgt_name_cache *cache;
	struct fgt_user_helper helpers[FGT_USER_HELPERS_MAX];
	struct fgt_helper helper_start; /* what each of them is at first */
	uint64_t helper_uses;
	struct fgt_checksums checksums;
	struct fgt_memory_sink reply;
	struct fgt_perfmap *perfmap;
	int32_t perfmap_pid;
};

/* One call of fgt_symbolizer_resolve_until(). */
struct fgt_resolver {
	struct fgt_symbolizer *symbolizer;
	struct fgt_ring_slice *slice;
	const struct fgt_symbolizer_cancel *cancel;
	struct fgt_helper *helper; /* valid while the lock is held */
	struct fgt_target_root root;
	int64_t left_ms; /* to wait for helpers */
	int64_t checksums_left_ms; /* the part of it for checksums */
	int checksum_error; /* why a file's checksum is not known this time */
	bool has_perfmap; /* looked at in this call, and there is one */
	bool did_perfmap;
};

/*
 * Fills the cache for addresses of an image, of which there are at most
 * FGT_HELPER_ADDRESSES_MAX. Lock held. -ENOMEM and -ECANCELED; all other
 * errors become a reason.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_resolver_ask(struct fgt_resolver *resolver,
		     struct fgt_name_image *image,
		     const struct fgt_slice_image *slice_image,
		     const uint64_t *addresses, size_t count,
		     enum fgt_symbol_reason *ret_reason);

#endif
