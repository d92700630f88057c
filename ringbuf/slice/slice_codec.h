/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The .fgt form of a slice: msgpack, versioned, loss-free.
 */
#ifndef FGT_RINGBUF_SLICE_SLICE_CODEC_H
#define FGT_RINGBUF_SLICE_SLICE_CODEC_H

#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"
#include "ringbuf/slice/slice.h"

#define FGT_SLICE_VERSION   1
#define FGT_SLICE_MAGIC	    "FGT1" /* then one msgpack map */
#define FGT_SLICE_MAGIC_LEN 4
/* Keys of that map, without those that may be left out. */
#define FGT_SLICE_KEY_COUNT 25
/* Its last pair. The value follows: CRC-32C of all bytes before it, 4 bytes. */
#define FGT_SLICE_CHECKSUM                                                     \
	"\xa8"                                                                 \
	"checksum"                                                             \
	"\xce"
#define FGT_SLICE_CHECKSUM_LEN 10

/*
 * Streams the slice; memory does not grow with it. Errors are the sink's, and
 * -EOVERFLOW for a table that msgpack cannot count, -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_encode(const struct fgt_ring_slice *slice,
		     const struct fgt_sink *sink);

/* Do the bytes, the first ones of a file, begin like a slice of any version?
 *
 * MT-Safe | AS-Unsafe
 */
bool fgt_slice_has_magic(const uint8_t *bytes, size_t len);

/*
 * Reads a slice back from untrusted bytes. Allocates at most a small multiple
 * of len. -EBADMSG malformed, or another checksum than it has;
 * -EPROTONOSUPPORT another version; -ENOMEM; why has the cause and the place.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_slice_decode(const uint8_t *bytes, size_t len,
		     struct fgt_ring_slice **ret_slice, struct fgt_why *why);

#endif
