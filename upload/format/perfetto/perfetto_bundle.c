/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets on their way to the file: gathered, and where there are many of them,
 * compressed in bundles, each of which is one packet. A trace that is smaller
 * than a bundle is written as it is. Runs in any thread; must not hold more
 * than a bundle, a packet and zlib's state.
 */
#include <stdint.h>

#include "upload/format/parts/gzip.h"
#include "upload/format/perfetto/perfetto.h"

/* Larger ones are hardly smaller when compressed. */
#define BUNDLE_BYTES 65536u

enum {
	TRACE_PACKET = 1,
	PACKET_COMPRESSED_PACKETS = 50,
};

void fgt_perfetto_bundle_init(struct fgt_perfetto_bundle *bundle,
			      const struct fgt_sink *target)
{
	fgt_memory_sink_init(&bundle->plain, SIZE_MAX);
	fgt_protobuf_init(&bundle->file, target);
	bundle->has_packed = false;
}

void fgt_perfetto_bundle_done(struct fgt_perfetto_bundle *bundle)
{
	fgt_memory_sink_done(&bundle->plain);
	fgt_protobuf_done(&bundle->file);
}

static int compress(const struct fgt_memory_sink *plain,
		    const struct fgt_sink *target)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *zlib = NULL;
	int r = fgt_gzip_new_zlib(target, &zlib);

	if (!r)
		r = fgt_sink_write(fgt_gzip_sink(zlib), plain->bytes,
				   plain->len_bytes);
	return r ? r : fgt_gzip_finish(zlib);
}

static int put_packed(struct fgt_perfetto_bundle *bundle)
{
	struct fgt_memory_sink packed;
	int r;

	fgt_memory_sink_init(&packed, SIZE_MAX);
	r = compress(&bundle->plain, &packed.sink);
	if (!r) {
		fgt_protobuf_begin(&bundle->file, TRACE_PACKET);
		fgt_protobuf_put_bytes(&bundle->file, PACKET_COMPRESSED_PACKETS,
				       packed.bytes, packed.len_bytes);
		fgt_protobuf_end(&bundle->file);
		bundle->plain.len_bytes = 0;
		bundle->has_packed = true;
	}
	fgt_memory_sink_done(&packed);
	return r;
}

int fgt_perfetto_bundle_packet(struct fgt_perfetto_bundle *bundle,
			       struct fgt_protobuf *out)
{
	int r;

	if (bundle->plain.len_bytes < BUNDLE_BYTES)
		return 0;
	r = fgt_protobuf_finish(out); /* up to the end of a packet */
	return r ? r : put_packed(bundle);
}

int fgt_perfetto_bundle_finish(struct fgt_perfetto_bundle *bundle,
			       struct fgt_protobuf *out)
{
	const struct fgt_memory_sink *plain = &bundle->plain;
	int r = fgt_protobuf_finish(out);

	if (!r && bundle->has_packed && plain->len_bytes)
		r = put_packed(bundle);
	else if (!r && plain->len_bytes)
		r = fgt_sink_write(bundle->file.out.target, plain->bytes,
				   plain->len_bytes);
	return r ? r : fgt_protobuf_finish(&bundle->file);
}
