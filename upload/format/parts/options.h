/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of encoders.
 */
#ifndef FGT_UPLOAD_FORMAT_PARTS_OPTIONS_H
#define FGT_UPLOAD_FORMAT_PARTS_OPTIONS_H

#include "ringbuf/base/sink.h"
#include "ringbuf/slice/slice.h"
#include "upload/format/parts/transaction.h"

enum fgt_state_frames {
	FGT_STATE_FRAMES_ROOT, /* a virtual outermost frame names the state */
	FGT_STATE_FRAMES_LEAF, /* innermost */
	FGT_STATE_FRAMES_NO,
};

/* Zero or NULL means default; strings are borrowed for the call. */
struct fgt_format_options {
	enum fgt_state_frames state_frames;
	/* Sentry only. */
	const char *dsn; /* without secret; NULL: no dsn in header */
	const char *release;
	const char *environment;
	const char *transaction; /* name; default: the process's name */
	const char *event_id; /* 32 hex digits; default: random */
	/* Of chunks that belong together; as event_id. A transaction with a
	 * profiler_id has no profile: the chunks have it. */
	const char *profiler_id;
	/*
	 * The program's transaction, whose range lies in the slice. Ids given
	 * above take precedence over those of the facts. The transaction is
	 * written even if no thread has two samples.
	 */
	const struct fgt_transaction_facts *facts;
};

#endif
