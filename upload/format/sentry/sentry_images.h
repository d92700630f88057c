/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images of a Sentry profile: which files its addresses lie in.
 */
#ifndef FGT_UPLOAD_FORMAT_SENTRY_SENTRY_IMAGES_H
#define FGT_UPLOAD_FORMAT_SENTRY_SENTRY_IMAGES_H

#include "ringbuf/base/json.h"
#include "ringbuf/slice/slice.h"

/* "debug_meta": {…} into an open object. MT-Safe | AS-Unsafe */
void fgt_sentry_images_put(const struct fgt_ring_slice *slice,
			   struct fgt_json *json);

#endif
