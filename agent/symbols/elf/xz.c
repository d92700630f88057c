/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xz decoding with bounds on memory and on output. Runs in the symbol helper;
 * must stop at the bound, since 20 kB can stand for gigabytes.
 */
#include "agent/symbols/elf/xz.h"

#include <errno.h>
#include <lzma.h>

#define DECODER_MAX_BYTES (64u << 20)

static int error_of(lzma_ret result)
{
	return result == LZMA_MEM_ERROR || result == LZMA_MEMLIMIT_ERROR
		       ? -ENOMEM
		       : -EBADMSG;
}

static int decode(lzma_stream *stream, struct fgt_bytes *bytes)
{
	uint8_t chunk[65536];
	lzma_ret result = LZMA_OK;
	int error = 0;

	while (!error && result == LZMA_OK) {
		stream->next_out = chunk;
		stream->avail_out = sizeof(chunk);
		result = lzma_code(stream, LZMA_FINISH);
		if (result != LZMA_OK && result != LZMA_STREAM_END)
			return error_of(result);
		error = fgt_bytes_append(bytes, chunk,
					 sizeof(chunk) - stream->avail_out);
	}
	return error;
}

int fgt_xz_unpack(const void *packed, size_t len, struct fgt_bytes *bytes)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	lzma_ret result;
	int error;

	result = lzma_stream_decoder(&stream, DECODER_MAX_BYTES, 0);
	if (result != LZMA_OK)
		return error_of(result);
	stream.next_in = packed;
	stream.avail_in = len;
	error = decode(&stream, bytes);
	lzma_end(&stream);
	return error;
}
