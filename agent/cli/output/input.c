/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads .fgt files. Runs in the main thread; what a file holds is not trusted.
 */
#include "agent/cli/output/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "agent/capture/look/state_name.h"
#include "agent/cli/complaint.h"
#include "agent/cli/output/export.h"
#include "ringbuf/base/fd.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/slice/slice_codec.h"

#define INPUT_MAX_BYTES	 ((size_t)1 << 30)
#define INPUT_PART_BYTES 65536

/* A whole file or pipe; only the first part of what begins like no slice,
 * which may have no end. */
static int read_all(int fd, struct fgt_memory_sink *input)
{
	uint8_t bytes[INPUT_PART_BYTES];
	ssize_t n;
	int r;

	do {
		n = fgt_fd_read(fd, bytes, sizeof(bytes));
		r = n < 0 ? (int)n
			  : fgt_sink_write(&input->sink, bytes, (size_t)n);
	} while (r == 0 && n > 0 &&
		 fgt_slice_has_magic(input->bytes, input->len_bytes));
	return r;
}

static int complain_read(const char *path, int error, struct fgt_why *why)
{
	if (error == -EMSGSIZE)
		return fgt_why_set(why, error,
				   "%s has more than 1 GiB, the most that is "
				   "read; write a shorter time as .fgt",
				   path);
	return fgt_why_set(why, error, "cannot read %s: %s; give a .fgt file",
			   path, fgt_error_text(error));
}

/* cause: from the decoder. */
static int complain_decode(const char *path, int error, bool has_magic,
			   const struct fgt_why *cause, struct fgt_why *why)
{
	if (!has_magic)
		return fgt_why_set(why, error,
				   "%s is not an fgtrace slice; give a .fgt "
				   "file that record, slice or convert wrote",
				   path);
	if (error == -EPROTONOSUPPORT)
		return fgt_why_set(why, error, "cannot read %s: %s", path,
				   cause->text);
	if (error == -ENOMEM)
		return fgt_why_set(why, error, FGT_NO_MEMORY);
	return fgt_why_set(why, error,
			   "%s is not a slice that can be read: %s; copy or "
			   "write it once more",
			   path, cause->text);
}

int fgt_input_read(const char *path, struct fgt_ring_slice **ret_slice,
		   struct stat *ret_status, struct fgt_why *why)
{
	FGT_AUTO(fgt_fd_close) int fd = -1;
	struct fgt_memory_sink input;
	struct fgt_why cause = { "" };
	bool has_magic;
	int r;

	fd = strcmp(path, "-") == 0
		     ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
		     : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, ret_status) < 0)
		return fgt_why_set(why, -errno,
				   "cannot read %s: %m; check its name and "
				   "permissions",
				   path);
	fgt_memory_sink_init(&input, INPUT_MAX_BYTES);
	r = read_all(fd, &input);
	if (r < 0) {
		complain_read(path, r, why);
	} else {
		has_magic = fgt_slice_has_magic(input.bytes, input.len_bytes);
		r = fgt_slice_decode(input.bytes, input.len_bytes, ret_slice,
				     &cause);
		if (r < 0)
			complain_decode(path, r, has_magic, &cause, why);
	}
	fgt_memory_sink_done(&input);
	return r;
}

int fgt_input_name(struct fgt_ring_slice *slice,
		   const struct fgt_config *config)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < slice->state_count; i++) {
		if (slice->states[i].name == 0) {
			r = fgt_slice_name_states(slice, fgt_state_name);
			break;
		}
	}
	return r < 0 ? r : fgt_export_resolve(slice, config, NULL, false);
}

int fgt_input_load(const char *path, struct fgt_ring_slice **ret_slice,
		   struct fgt_why *why)
{
	FGT_AUTO(fgt_ring_slice_free) struct fgt_ring_slice *slice = NULL;
	FGT_AUTO(fgt_config_free) struct fgt_config *config = NULL;
	struct stat status;
	int r = fgt_input_read(path, &slice, &status, why);

	if (r == 0)
		r = fgt_config_load(NULL, &config, why);
	if (r == 0)
		r = fgt_input_name(slice, config);
	if (r == 0)
		*ret_slice = FGT_TAKE(slice);
	return r;
}
