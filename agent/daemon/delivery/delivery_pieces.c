/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes pieces in the process that encodes, and reads them in the daemon. Must
 * not trust a length that it reads.
 */
#include "agent/daemon/delivery/delivery_pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/base/sink.h"

#define COPY_BYTES 65536

/* Before each body. */
struct piece_head {
	uint64_t len; /* of the body */
	struct fgt_payload_head payload;
};

struct piece_writer {
	int fd;
	uint64_t at;
};

static int write_at(void *context, const void *bytes, size_t len)
{
	struct piece_writer *writer = context;
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(writer->fd, (const char *)bytes + done,
				   len - done, (off_t)(writer->at + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO;
		done += n > 0 ? (size_t)n : 0;
	}
	writer->at += len;
	return 0;
}

int fgt_delivery_piece_write(int fd, uint64_t *at,
			     const struct fgt_payload *payload)
{
	struct piece_writer body = { fd, *at + sizeof(struct piece_head) };
	struct piece_writer start = { fd, *at };
	const struct fgt_sink sink = { write_at, &body };
	struct piece_head head;
	int r = payload->body.write(payload->body.context, &sink);

	if (r < 0) {
		(void)!ftruncate(fd, (off_t)*at);
		return r;
	}
	memset(&head, 0, sizeof(head));
	head.len = body.at - *at - sizeof(head);
	head.payload = payload->head;
	r = write_at(&start, &head, sizeof(head));
	if (r == 0)
		*at = body.at;
	return r;
}

static int write_piece(const void *context, const struct fgt_sink *sink)
{
	const struct fgt_delivery_piece *piece = context;
	FGT_AUTO(free) void *bytes = malloc(COPY_BYTES);
	uint64_t at = piece->at, left = piece->len;
	int r = bytes ? 0 : -ENOMEM;

	while (r == 0 && left > 0) {
		size_t len = left < COPY_BYTES ? (size_t)left : COPY_BYTES;
		ssize_t n = pread(piece->fd, bytes, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		r = fgt_sink_write(sink, bytes, (size_t)n);
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return r;
}

int fgt_delivery_piece_read(int fd, uint64_t *at,
			    struct fgt_delivery_piece *ret_piece,
			    struct fgt_payload *ret_payload)
{
	struct piece_head head;
	struct stat status;
	uint64_t begin = *at + sizeof(head), size;

	if (fstat(fd, &status) < 0)
		return -errno;
	size = (uint64_t)status.st_size;
	if (*at == size)
		return -ENODATA;
	if (begin > size ||
	    pread(fd, &head, sizeof(head), (off_t)*at) !=
		    (ssize_t)sizeof(head) ||
	    head.len > size - begin ||
	    fgt_payload_head_read(&head.payload, sizeof(head.payload),
				  &ret_payload->head) < 0)
		return -EBADMSG;
	*ret_piece = (struct fgt_delivery_piece){ .fd = fd,
						  .at = begin,
						  .len = head.len };
	ret_payload->body = (struct fgt_envelope){ write_piece, ret_piece };
	*at = begin + head.len;
	return 0;
}
