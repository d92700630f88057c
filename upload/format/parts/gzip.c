/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip and zlib framing through zlib, streaming. Runs in any thread; the only
 * file of upload/ that includes zlib.h. Must not hold more than one buffer of
 * output.
 */
#include "upload/format/parts/gzip.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <zlib.h>

#define LEVEL	  6
#define ZLIB_BITS 15
#define GZIP_BITS (15 + 16) /* 16: gzip framing */
#define MEMORY	  8 /* zlib's default */

struct fgt_gzip {
	const struct fgt_sink *target;
	struct fgt_sink sink;
	z_stream stream;
	bool is_ready; /* deflateInit2() succeeded */
	int error; /* the first one sticks */
	unsigned char out[16384];
};

/* Hands on what zlib has produced so far. */
static int drain(struct fgt_gzip *gzip)
{
	size_t len = sizeof(gzip->out) - gzip->stream.avail_out;

	gzip->stream.next_out = gzip->out;
	gzip->stream.avail_out = sizeof(gzip->out);
	return len ? fgt_sink_write(gzip->target, gzip->out, len) : 0;
}

static int compress_some(struct fgt_gzip *gzip, int flush)
{
	int status;

	do {
		int r;

		status = deflate(&gzip->stream, flush);
		if (status != Z_OK && status != Z_STREAM_END &&
		    status != Z_BUF_ERROR)
			return -EIO;
		r = drain(gzip);
		if (r)
			return r;
	} while (gzip->stream.avail_in ||
		 (flush == Z_FINISH && status != Z_STREAM_END));
	return 0;
}

static int write_plain(void *context, const void *bytes, size_t len)
{
	struct fgt_gzip *gzip = context;
	const unsigned char *at = bytes;

	while (len && !gzip->error) {
		uInt part = len > UINT_MAX ? UINT_MAX : (uInt)len;

		gzip->stream.next_in = (unsigned char *)at;
		gzip->stream.avail_in = part;
		gzip->error = compress_some(gzip, Z_NO_FLUSH);
		at += part;
		len -= part;
	}
	return gzip->error;
}

static int new_of(const struct fgt_sink *target, int window_bits,
		  struct fgt_gzip **ret_gzip)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *gzip = NULL;

	gzip = calloc(1, sizeof(*gzip));
	if (!gzip)
		return -ENOMEM;
	gzip->target = target;
	gzip->sink.write = write_plain;
	gzip->sink.context = gzip;
	if (deflateInit2(&gzip->stream, LEVEL, Z_DEFLATED, window_bits, MEMORY,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	gzip->is_ready = true;
	gzip->stream.next_out = gzip->out;
	gzip->stream.avail_out = sizeof(gzip->out);
	*ret_gzip = FGT_TAKE(gzip);
	return 0;
}

int fgt_gzip_new(const struct fgt_sink *target, struct fgt_gzip **ret_gzip)
{
	return new_of(target, GZIP_BITS, ret_gzip);
}

int fgt_gzip_new_zlib(const struct fgt_sink *target, struct fgt_gzip **ret_gzip)
{
	return new_of(target, ZLIB_BITS, ret_gzip);
}

struct fgt_sink *fgt_gzip_sink(struct fgt_gzip *gzip)
{
	return &gzip->sink;
}

int fgt_gzip_finish(struct fgt_gzip *gzip)
{
	if (!gzip->error)
		gzip->error = compress_some(gzip, Z_FINISH);
	return gzip->error;
}

void fgt_gzip_free(struct fgt_gzip *gzip)
{
	if (!gzip)
		return;
	if (gzip->is_ready)
		deflateEnd(&gzip->stream);
	free(gzip);
}
