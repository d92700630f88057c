/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts, describes and frees the slices that the program asks for. Runs in the
 * program's threads.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/lib/library.h"
#include "agent/lib/own.h"

#define AHEAD_MAX_NS (UINT64_C(3600) * 1000000000)
#define GRACE_HZ_MIN 4.0

/* The last tick of a range is in the ring after this time. Limited, because
 * ticks may be rare. */
static uint64_t grace_ns(double hz)
{
	if (hz < GRACE_HZ_MIN)
		hz = GRACE_HZ_MIN;
	return (uint64_t)(2e9 / hz) + 5000000;
}

/* Waits until to_ns has passed, then cuts. */
static int cut(uint64_t from_ns, uint64_t to_ns, struct fgt_slice **ret_slice)
{
	const struct fgt_open_backend *backend = fgt_library_backend();
	int r = 0;

	if (to_ns > fgt_now())
		r = fgt_library_wait_until(
			to_ns + grace_ns(backend->calls->hz(backend->state)));
	return r < 0 ? r : fgt_library_cut(from_ns, to_ns, ret_slice);
}

static void take_texts(struct fgt_slice *slice)
{
	const struct fgt_options *options = fgt_library_options();

	if (options->release)
		fgt_settings_copy_text(slice->release, sizeof(slice->release),
				       options->release);
	if (options->environment)
		fgt_settings_copy_text(slice->environment,
				       sizeof(slice->environment),
				       options->environment);
}

int fgt_get_slice(uint64_t from_ns, uint64_t to_ns,
		  struct fgt_slice **ret_slice)
{
	FGT_UNCANCELLED;
	uint64_t now_ns = fgt_now();
	int r;

	if (!ret_slice || from_ns > to_ns ||
	    (to_ns > now_ns && to_ns - now_ns > AHEAD_MAX_NS))
		return -EINVAL;
	r = fgt_library_enter();
	if (r < 0)
		return r;
	r = cut(from_ns, to_ns, ret_slice);
	if (r == 0) {
		(*ret_slice)->caller_tid = gettid();
		take_texts(*ret_slice);
	}
	fgt_library_leave();
	return r;
}

int fgt_slice_get_info(const struct fgt_slice *slice,
		       struct fgt_slice_info *ret_info)
{
	const size_t size_min =
		offsetof(struct fgt_slice_info, bytes) + sizeof(size_t);
	struct fgt_slice_info info = { .size = sizeof(info) };

	if (!slice)
		return -EINVAL;
	info.from_ns = slice->from_ns;
	info.to_ns = slice->to_ns;
	info.ticks = slice->ticks;
	info.threads = slice->threads;
	info.caller_tid = slice->caller_tid;
	info.bytes = slice->len_bytes;
	return fgt_settings_copy_struct(ret_info, size_min, &info,
					sizeof(info));
}

void fgt_slice_free(struct fgt_slice *slice)
{
	if (!slice)
		return;
	free(slice->bytes);
	free(slice);
}
