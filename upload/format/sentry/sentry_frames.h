/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a Sentry profile that its samples point into.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_FRAMES_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_FRAMES_H

#include "upload/format/sentry/sentry_profile.h"

/* Writes "frames": […] into an open object. */
void fgt_sentry_frames_put(const struct fgt_sentry_profile *profile,
			   struct fgt_json *json);

/*
 * Writes "stacks": […]; -EINVAL if the plan lacks a frame.
 *
 * MT-Safe | AS-Unsafe
 */
int fgt_sentry_stacks_put(const struct fgt_sentry_profile *profile,
			  struct fgt_json *json);

#endif
