/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of addresses, resolved in this process. Runs in the thread that wants
 * a slice; must bound its time and its memory, which are the program's.
 */
#include "agent/symbols/helper/helper.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/symbols/elf/checksum.h"
#include "agent/symbols/elf/symbol_image.h"
#include "ringbuf/base/clock.h"

#define NS_PER_MS 1000000u

struct fgt_local_names {
	uint64_t image; /* the caller's number of what is open, 0: nothing */
	struct fgt_symbol_image *opened;
};

static uint64_t count_bytes(int fd)
{
	struct stat status;

	if (fd < 0)
		return 0;
	return fstat(fd, &status) < 0 ? UINT64_MAX / 4
				      : (uint64_t)status.st_size;
}

/* libdw ends the process in which it finds no memory. */
static bool is_memory_limited(void)
{
	struct rlimit space, data;

	return getrlimit(RLIMIT_AS, &space) < 0 ||
	       getrlimit(RLIMIT_DATA, &data) < 0 ||
	       space.rlim_cur != RLIM_INFINITY ||
	       data.rlim_cur != RLIM_INFINITY;
}

static void close_image(struct fgt_local_names *names)
{
	fgt_symbol_image_close(FGT_TAKE(names->opened));
	names->image = 0;
}

static int open_image(struct fgt_local_names *names,
		      const struct fgt_helper_request *request,
		      struct fgt_image_files *files)
{
	uint64_t bytes = count_bytes(files->image_fd) +
			 count_bytes(files->debug_fd) +
			 count_bytes(files->alt_fd);
	int rc;

	close_image(names);
	rc = fgt_symbol_image_open(files,
				   request->want_dwarf &&
					   bytes <= FGT_LOCAL_DWARF_MAX &&
					   !is_memory_limited(),
				   &names->opened);
	if (rc == 0)
		names->image = request->image;
	return rc;
}

static int find_checksum(int fd, uint64_t deadline_ns,
			 struct fgt_memory_sink *reply)
{
	uint32_t crc;
	int rc = fgt_checksum_read(fd, deadline_ns, &crc);

	return rc < 0 ? rc : fgt_sink_write(&reply->sink, &crc, sizeof(crc));
}

int fgt_local_names_ask(struct fgt_local_names **names,
			const struct fgt_helper_request *request,
			const uint64_t *addresses,
			struct fgt_image_files *files, int64_t *left_ms,
			struct fgt_memory_sink *reply)
{
	uint64_t start_ns = fgt_clock_ns(CLOCK_MONOTONIC);
	uint64_t deadline_ns = start_ns + (uint64_t)*left_ms * NS_PER_MS;
	bool is_checksum = request->image == FGT_HELPER_CHECKSUM;
	int rc = 0;

	if (*left_ms <= 0)
		return -ETIME;
	if (!*names)
		*names = calloc(1, sizeof(**names));
	if (!*names)
		return -ENOMEM;
	reply->len_bytes = 0;
	if (is_checksum)
		rc = find_checksum(files->image_fd, deadline_ns, reply);
	else if (files)
		rc = open_image(*names, request, files);
	else if ((*names)->image != request->image)
		return -ENOENT;
	if (rc == 0 && !is_checksum)
		rc = fgt_symbol_image_find((*names)->opened, addresses,
					   request->address_count,
					   (enum fgt_demangle)request->demangle,
					   deadline_ns, reply);
	*left_ms -= (int64_t)((fgt_clock_ns(CLOCK_MONOTONIC) - start_ns) /
			      NS_PER_MS);
	return rc;
}

void fgt_local_names_free(struct fgt_local_names *names)
{
	if (!names)
		return;
	close_image(names);
	free(names);
}
