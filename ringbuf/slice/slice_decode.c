/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the .fgt form of a slice; slice_codec.c describes and writes it. Runs
 * in any thread; must not trust a byte: the whole file is checked before the
 * first allocation, and the result has to pass fgt_slice_is_valid().
 */
#include "ringbuf/slice/slice_codec.h"

#include <errno.h>
#include <string.h>

#include "ringbuf/base/msgpack_check.h"
#include "ringbuf/slice/slice_tables.h"

/* Our own form nests three deep; the rest is room for later versions. */
#define NESTING_MAX 16

/* The version comes first, whatever the rest looks like. */
static int read_version(struct fgt_msgpack_cursor *cursor, struct fgt_why *why)
{
	struct fgt_msgpack_text key = fgt_msgpack_read_str(cursor);
	uint64_t version = fgt_msgpack_read_uint(cursor, UINT64_MAX);

	if (cursor->error || !fgt_msgpack_text_is(key, "version"))
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: it does not tell a version");
	if (version != FGT_SLICE_VERSION)
		return fgt_why_set(why, -EPROTONOSUPPORT,
				   "slice of version %llu, this program reads "
				   "version %d: use a newer fgtrace",
				   (unsigned long long)version,
				   FGT_SLICE_VERSION);
	return 0;
}

/* "FGT" and another digit is a later container. */
static int check_magic(const uint8_t *bytes, size_t len, struct fgt_why *why)
{
	if (len < FGT_SLICE_MAGIC_LEN ||
	    memcmp(bytes, FGT_SLICE_MAGIC, FGT_SLICE_MAGIC_LEN - 1))
		return fgt_why_set(why, -EBADMSG,
				   "not an fgtrace slice (.fgt file)");
	if (bytes[FGT_SLICE_MAGIC_LEN - 1] !=
	    FGT_SLICE_MAGIC[FGT_SLICE_MAGIC_LEN - 1])
		return fgt_why_set(why, -EPROTONOSUPPORT,
				   "slice file of another kind than %s: use a "
				   "newer fgtrace",
				   FGT_SLICE_MAGIC);
	return 0;
}

int fgt_slice_decode(const uint8_t *bytes, size_t len,
		     struct fgt_ring_slice **ret_slice, struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	struct fgt_msgpack_cursor cursor;
	uint32_t count;
	int r;

	r = check_magic(bytes, len, why);
	if (r)
		return r;
	bytes += FGT_SLICE_MAGIC_LEN;
	len -= FGT_SLICE_MAGIC_LEN;
	if (fgt_msgpack_check(bytes, len, NESTING_MAX))
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: cut short, or with bytes "
				   "that do not belong to it");
	fgt_msgpack_cursor_init(&cursor, bytes, len);
	count = fgt_msgpack_read_map(&cursor);
	r = read_version(&cursor, why);
	if (r)
		return r;
	r = fgt_slice_new(&slice);
	if (r)
		return fgt_why_set(why, r, "no memory for the slice");
	r = fgt_slice_tables_read(&cursor, count - 1, slice, why);
	if (r)
		return r;
	if (!fgt_slice_is_valid(slice))
		return fgt_why_set(why, -EBADMSG,
				   "damaged slice: its tables contradict each "
				   "other");
	*ret_slice = FGT_TAKE(slice);
	return 0;
}
