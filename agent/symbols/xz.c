/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xz decoding with bounds on memory and on output. Runs in the symbol helper;
 * must stop at the bound, since 20 kB can stand for gigabytes (FAULTS U6).
 */
#include "agent/symbols/xz.h"

#include <errno.h>
#include <lzma.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringbuf/owner.h"

#define DECODER_MAX_BYTES (64u << 20)

static int write_all(int fd, const uint8_t *data, size_t len)
{
	while (len) {
		ssize_t put = write(fd, data, len);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		data += put;
		len -= (size_t)put;
	}
	return 0;
}

static int error_of(lzma_ret result)
{
	return result == LZMA_MEM_ERROR || result == LZMA_MEMLIMIT_ERROR
		       ? -ENOMEM
		       : -EBADMSG;
}

static int decode(lzma_stream *stream, uint64_t max_bytes, int fd)
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
		if (stream->total_out > max_bytes)
			return -EFBIG;
		error = write_all(fd, chunk, sizeof(chunk) - stream->avail_out);
	}
	return error;
}

int fgt_xz_unpack(const void *packed, size_t len, uint64_t max_bytes,
		  int *ret_fd)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	FGT_AUTO(fgt_fd_close) int fd = -1;
	lzma_ret result;
	int error;

	fd = memfd_create("fgt-debugdata", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	result = lzma_stream_decoder(&stream, DECODER_MAX_BYTES, 0);
	if (result != LZMA_OK)
		return error_of(result);
	stream.next_in = packed;
	stream.avail_in = len;
	error = decode(&stream, max_bytes, fd);
	lzma_end(&stream);
	if (error)
		return error;
	*ret_fd = FGT_TAKE_FD(fd);
	return 0;
}
