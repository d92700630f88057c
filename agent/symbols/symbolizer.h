/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the frames of a slice their names: function, file, line, inlined
 * calls. Runs on slices, never while sampling; caches by build id.
 */
#ifndef FGT_AGENT_SYMBOLS_SYMBOLIZER_H
#define FGT_AGENT_SYMBOLS_SYMBOLIZER_H

#include "agent/symbols/names/demangle.h"
#include "ringbuf/base/owner.h"
#include "ringbuf/slice/slice.h"

struct fgt_symbolizer_options {
	enum fgt_demangle demangle;
	const char *const *debug_dirs; /* [debug_dir_count]; NULL: the default,
					* /usr/lib/debug */
	size_t debug_dir_count;
	/*
	 * Opens the very file that was mapped (caller closes). NULL or
	 * -ENOENT: opened by path below the target's root (below "/" once it
	 * has ended), and taken only if build id or (dev, ino) agree.
	 */
	int (*open_image)(void *context, const struct fgt_ring_slice *slice,
			  const struct fgt_slice_image *image, int *ret_fd);
	void *context;
	/* What that opens may be another file: its build id is compared. */
	bool is_image_checked;
	/*
	 * The program to execute as helper; it calls
	 * fgt_helper_serve_if_asked(). Outlives the symbolizer. NULL: this
	 * program.
	 */
	const char *helper_path;
	/* No helper: names are found in this process, which is the one that
	 * is sampled. Nothing but the names is kept from call to call. */
	bool is_local;
	/*
	 * How long one call waits for helpers; the frames that are left then
	 * have no name this time. 0: 8 s.
	 */
	unsigned int wait_max_ms;
};

struct fgt_symbolizer;

int fgt_symbolizer_new(const struct fgt_symbolizer_options *options,
		       struct fgt_symbolizer **ret_symbolizer);
void fgt_symbolizer_free(struct fgt_symbolizer *symbolizer);
FGT_DEFINE_AUTO(struct fgt_symbolizer *, fgt_symbolizer_free);

/*
 * Resolves every frame of the slice that has no symbols yet. A frame without a
 * name becomes image!0xstart, the ELF address at which its function begins by
 * the unwind rules, or image+0xoffset, with a reason; markers get their name;
 * afterwards every frame has symbols. Addresses of waits get a name, too: the
 * object that covers them ("g_lock+0x8"), image+0xoffset, or while it lives
 * "heap" and "stack of thread N"; sockets get where they lead (sockets.h).
 * Waits for helpers at most wait_max_ms in all: frames that are not named by
 * then count as not readable. is_live: slice->process still runs on this
 * machine (its root and perf map may be read). -ENOMEM; -EBUSY: programs of
 * FGT_USERS_MAX other users are named at this moment.
 *
 * MT-Safe (calls for one user's programs take turns per image) | AS-Unsafe
 */
int fgt_symbolizer_resolve(struct fgt_symbolizer *symbolizer,
			   struct fgt_ring_slice *slice, bool is_live);

/* Asked at least 5 times a second, in the thread that waits. */
struct fgt_symbolizer_cancel {
	bool (*is_cancelled)(void *context); /* may be NULL: never */
	void *context;
};

/* The same, but stops once the slice is wanted no more: -ECANCELED. */
int fgt_symbolizer_resolve_until(struct fgt_symbolizer *symbolizer,
				 struct fgt_ring_slice *slice, bool is_live,
				 const struct fgt_symbolizer_cancel *cancel);

#endif
