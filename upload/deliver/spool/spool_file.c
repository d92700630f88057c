/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes and checks the fixed part of an entry's file. Any thread or process;
 * must not believe a byte of the file that no sum covers.
 */
#include "upload/deliver/spool/spool_file.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ringbuf/base/hash.h"
#include "ringbuf/base/owner.h"

#define MAGIC	"FGTSPOOL"
#define VERSION 1

struct fixed_part {
	char magic[8];
	uint32_t version, head_len;
	uint64_t body_len, created_ns;
	uint32_t head_sum, body_sum, sum, zero;
};
_Static_assert(sizeof(struct fixed_part) == FGT_SPOOL_FIXED, "no padding");

static uint32_t sum_of(const struct fixed_part *fixed)
{
	return fgt_crc32c(0, fixed, offsetof(struct fixed_part, sum));
}

void fgt_spool_file_fix(const struct fgt_spool_parts *parts,
			uint8_t ret_fixed[FGT_SPOOL_FIXED])
{
	struct fixed_part fixed = {
		.version = htole32(VERSION),
		.head_len = htole32(parts->head_len),
		.body_len = htole64(parts->body_len),
		.created_ns = htole64(parts->created_ns),
		.head_sum = htole32(parts->head_sum),
		.body_sum = htole32(parts->body_sum),
	};

	memcpy(fixed.magic, MAGIC, sizeof(fixed.magic));
	fixed.sum = htole32(sum_of(&fixed));
	memcpy(ret_fixed, &fixed, sizeof(fixed));
}

/* -EBADMSG also where the file is shorter. */
static int read_at(int fd, void *bytes, size_t len, uint64_t at)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)bytes + done, len - done,
				  (off_t)(at + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EBADMSG;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static bool is_sound(const struct fixed_part *fixed)
{
	return memcmp(fixed->magic, MAGIC, sizeof(fixed->magic)) == 0 &&
	       le32toh(fixed->sum) == sum_of(fixed) && fixed->zero == 0 &&
	       le32toh(fixed->version) == VERSION &&
	       le32toh(fixed->head_len) <= FGT_SPOOL_HEAD_MAX &&
	       le64toh(fixed->body_len) <= FGT_SPOOL_BODY_MAX;
}

static int read_fixed(int fd, struct fgt_spool_parts *ret_parts)
{
	struct fixed_part fixed;
	struct stat status;
	int r;

	if (fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -EBADMSG;
	r = read_at(fd, &fixed, sizeof(fixed), 0);
	if (r < 0)
		return r;
	if (!is_sound(&fixed))
		return -EBADMSG;
	*ret_parts = (struct fgt_spool_parts){
		.created_ns = le64toh(fixed.created_ns),
		.head_len = le32toh(fixed.head_len),
		.head_sum = le32toh(fixed.head_sum),
		.body_len = le64toh(fixed.body_len),
		.body_sum = le32toh(fixed.body_sum),
	};
	return (uint64_t)status.st_size == FGT_SPOOL_FIXED +
						   ret_parts->head_len +
						   ret_parts->body_len
		       ? 0
		       : -EBADMSG;
}

int fgt_spool_file_read_head(int fd, uint8_t ret_head[FGT_SPOOL_HEAD_MAX],
			     struct fgt_spool_parts *ret_parts)
{
	struct fgt_spool_parts parts;
	int r = read_fixed(fd, &parts);

	if (r == 0)
		r = read_at(fd, ret_head, parts.head_len, FGT_SPOOL_FIXED);
	if (r < 0)
		return r;
	if (fgt_crc32c(0, ret_head, parts.head_len) != parts.head_sum)
		return -EBADMSG;
	*ret_parts = parts;
	return 0;
}

int fgt_spool_file_read(int fd, uint8_t ret_head[FGT_SPOOL_HEAD_MAX],
			struct fgt_spool_parts *ret_parts, uint8_t **ret_body)
{
	FGT_AUTO(free) void *body = NULL;
	struct fgt_spool_parts parts;
	int r = fgt_spool_file_read_head(fd, ret_head, &parts);

	if (r < 0)
		return r;
	body = malloc((size_t)parts.body_len + 1);
	if (!body)
		return -ENOMEM;
	r = read_at(fd, body, (size_t)parts.body_len,
		    FGT_SPOOL_FIXED + parts.head_len);
	if (r < 0)
		return r;
	if (fgt_crc32c(0, body, (size_t)parts.body_len) != parts.body_sum)
		return -EBADMSG;
	*ret_parts = parts;
	*ret_body = FGT_TAKE(body);
	return 0;
}
