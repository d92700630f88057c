/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault D7: any bytes as the file of a spool's entry, also with the right sums:
 * no crash, and what is accepted is what the file holds.
 */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ringbuf/base/hash.h"
#include "ringbuf/base/sink.h"
#include "upload/deliver/spool/spool_file.h"

static void put_sum(uint8_t *place, const uint8_t *bytes, size_t len)
{
	uint32_t sum = htole32(fgt_crc32c(0, bytes, len));

	memcpy(place, &sum, sizeof(sum));
}

/* As if a program that knows the format had made it. */
static void correct(uint8_t *bytes, size_t len)
{
	uint32_t head_len;

	if (len < FGT_SPOOL_FIXED)
		return;
	memcpy(&head_len, bytes + 12, sizeof(head_len));
	head_len = le32toh(head_len);
	if (head_len <= len - FGT_SPOOL_FIXED) {
		uint8_t *head = bytes + FGT_SPOOL_FIXED;

		put_sum(bytes + 32, head, head_len);
		put_sum(bytes + 36, head + head_len,
			len - FGT_SPOOL_FIXED - head_len);
	}
	put_sum(bytes + 40, bytes, 40);
}

static void check(const uint8_t *bytes, size_t len)
{
	static uint8_t head[FGT_SPOOL_HEAD_MAX];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct fgt_spool_parts parts;
	uint8_t *body;

	if (fd < 0)
		return;
	if (fgt_fd_write(fd, bytes, len) < 0)
		abort();
	if (fgt_spool_file_read(fd, head, &parts, &body) == 0) {
		uint8_t fixed[FGT_SPOOL_FIXED];

		fgt_spool_file_fix(&parts, fixed);
		if (memcmp(fixed, bytes, sizeof(fixed)) != 0 ||
		    len != FGT_SPOOL_FIXED + parts.head_len + parts.body_len ||
		    memcmp(head, bytes + FGT_SPOOL_FIXED, parts.head_len) !=
			    0 ||
		    memcmp(body, bytes + FGT_SPOOL_FIXED + parts.head_len,
			   (size_t)parts.body_len) != 0)
			abort();
		free(body);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len + 1);

	if (!copy)
		return 0;
	memcpy(copy, bytes, len);
	check(copy, len);
	correct(copy, len);
	check(copy, len);
	free(copy);
	return 0;
}
