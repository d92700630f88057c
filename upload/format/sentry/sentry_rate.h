/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the threads of a Sentry profile are told: at each tick, or only
 * where something changed. Sentry weighs a sample by the time to the next one
 * of its thread, so that durations are the same.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_RATE_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_RATE_H

#include "upload/format/sentry/sentry_envelope.h"
#include "upload/format/sentry/sentry_profile.h"

/*
 * Of a profile whose threads are all thinned: tells them at each tick, if that
 * takes no more than room_bytes; else only the active thread and those that
 * ran or changed their stack, the busiest first, as far as there is room.
 * -ENOMEM.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_rate_raise(struct fgt_sentry_profile *profile,
			  uint64_t room_bytes);

/*
 * Plans a profile whose item is small enough: at each tick as far as 10 MiB
 * reach, and without the oldest ticks if 48 MiB do not. body writes the item
 * of *profile. Errors of fgt_sentry_profile_init() and of the body; the
 * profile is to be done with in any case.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_profile_fit(struct fgt_sentry_profile *profile,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_sentry_scope *scope,
			   const struct fgt_sentry_body *body,
			   uint64_t *ret_len);

#endif
