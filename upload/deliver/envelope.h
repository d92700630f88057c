/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An envelope that has not been written yet: its bytes exist only on their way
 * into a sink.
 */
#ifndef FGT_UPLOAD_DELIVER_ENVELOPE_H
#define FGT_UPLOAD_DELIVER_ENVELOPE_H

#include "ringbuf/base/sink.h"

struct fgt_envelope {
	/* All of it; negative errno as fgt_format_write(). */
	int (*write)(const void *context, const struct fgt_sink *sink);
	const void *context;
};

#endif
