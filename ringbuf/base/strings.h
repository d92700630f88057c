/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of distinct strings, named by number; id 0 is "".
 * Grows as strings come; used for slices, never in the ring.
 *
 * MT-Unsafe for one table while a thread adds | AS-Unsafe
 */
#ifndef FGT_RINGBUF_BASE_STRINGS_H
#define FGT_RINGBUF_BASE_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#define FGT_STRING_MAX 4096 /* bytes; longer ones are cut */

struct fgt_strings {
	char *bytes; /* each string NUL-terminated; none contains a NUL */
	size_t len_bytes, capacity_bytes;
	uint32_t *offsets; /* [count] into bytes */
	uint32_t count, capacity;
	uint32_t *buckets; /* open addressing; id + 1, 0 = empty */
	uint32_t bucket_count;
	uint64_t secret; /* texts may be a stranger's */
};

int fgt_strings_init(struct fgt_strings *strings);
void fgt_strings_done(struct fgt_strings *strings);

/*
 * Finds or adds text[len]; cut at FGT_STRING_MAX and at an embedded NUL.
 * -ENOMEM.
 *
 * MT-Unsafe | AS-Unsafe
 */
int fgt_strings_intern(struct fgt_strings *strings, const char *text,
		       size_t len, uint32_t *ret_id);

/* "" for an id that does not exist. MT-Safe while no thread adds. */
const char *fgt_strings_get(const struct fgt_strings *strings, uint32_t id);

#endif
