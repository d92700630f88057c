/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often samples of a thread are written into a Sentry profile: at each
 * tick, or only where its stack changed. Sentry weighs a sample by the time to
 * the next one of its thread, so both give the same durations.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_RATE_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_RATE_H

#include "upload/format/sentry/sentry_envelope.h"
#include "upload/format/sentry/sentry_profile.h"

/*
 * Plans a profile whose item is small enough:
 *  - Up to 10 MiB each thread has a sample a tick. Beyond that, only the active
 *    thread and those that ran or changed their stack have, the busiest first;
 *    the other ones have a sample a change.
 *  - Beyond 48 MiB the oldest ticks are left out.
 * body writes the item of *profile. Errors of fgt_sentry_profile_init() and of
 * the body; fgt_sentry_profile_done() follows in any case.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_profile_fit(struct fgt_sentry_profile *profile,
			   const struct fgt_ring_slice *slice,
			   const struct fgt_sentry_scope *scope,
			   const struct fgt_sentry_body *body,
			   uint64_t *ret_len);

#endif
