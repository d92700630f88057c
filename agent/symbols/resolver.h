/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call to resolve a slice, and the symbolizer that it uses. Private to the
 * symbolizer; runs in threads that make slices.
 */
#ifndef FGT_AGENT_SYMBOLS_RESOLVER_H
#define FGT_AGENT_SYMBOLS_RESOLVER_H

#include "agent/symbols/elf/image_open.h"
#include "agent/symbols/symbolizer.h"
#include "agent/symbols/user_names.h"

/* For all checksums of one call. A file whose checksum takes longer is not
 * taken. */
#define FGT_RESOLVER_CHECKSUMS_MS 2000
/* For the identity of one file. */
#define FGT_RESOLVER_IDENT_MS 1000

struct fgt_symbolizer {
	enum fgt_demangle demangle;
	unsigned int wait_max_ms;
	struct fgt_image_places places;
	char **debug_dirs; /* what places has, NULL at the end */
	struct fgt_users users;
};

/* One call of fgt_symbolizer_resolve_until(). */
struct fgt_resolver {
	struct fgt_symbolizer *symbolizer;
	struct fgt_ring_slice *slice;
	const struct fgt_symbolizer_cancel *cancel;
	struct fgt_user_names *user;
	struct fgt_target_root root;
	int64_t left_ms; /* to wait for helpers */
	int64_t checksums_left_ms; /* the part of it for checksums */
	int checksum_error; /* why a file's checksum is not known this time */
	bool has_perfmap; /* looked at in this call, and there is one */
	bool did_perfmap;
};

/* What the cache has of an image. The user's lock held. -ENOMEM. */
int fgt_resolver_find_image(struct fgt_resolver *resolver,
			    const struct fgt_slice_image *slice_image,
			    struct fgt_name_image **ret_image);

/*
 * Names the addresses that blocked threads of the slice wait at, once its
 * frames have names. -ENOMEM and -ECANCELED.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_resolver_name_objects(struct fgt_resolver *resolver);

/*
 * Fills the cache for addresses of an image, of which there are at most
 * FGT_HELPER_ADDRESSES_MAX. The user's lock held. -ENOMEM and -ECANCELED; all
 * other errors become a reason.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_resolver_ask(struct fgt_resolver *resolver,
		     struct fgt_name_image *image,
		     const struct fgt_slice_image *slice_image,
		     const uint64_t *addresses, size_t count,
		     enum fgt_symbol_reason *ret_reason);

#endif
