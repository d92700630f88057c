/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the HTTP server gets slices and figures from: an agent over its control
 * protocol, or the recorder of this process. One interface.
 */
#ifndef FGT_AGENT_HTTP_SOURCE_H
#define FGT_AGENT_HTTP_SOURCE_H

#include <stdint.h>

#include "agent/cli/range/range.h"
#include "agent/cli/range/several.h"
#include "agent/protocol/message.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"

/* Which slice. */
struct fgt_web_cut {
	struct fgt_target_choice choice;
	int32_t tid; /* 0: all threads */
	struct fgt_range range;
	int client_fd; /* once it is closed by the client, the work ends */
};

/* Called by several threads at once. */
struct fgt_web_source {
	/*
	 * Of one target the bytes of a .fgt file, with names; waits until the range's end.
	 * -ESRCH no such target, -ENOTUNIQ several, -ENODATA, -EINVAL, -EBUSY,
	 * -EAGAIN, -ESHUTDOWN, -ECANCELED the client has gone, -ETIMEDOUT, and
	 * others; with why.
	 */
	int (*cut)(void *context, const struct fgt_web_cut *cut,
		   const struct fgt_sink *to, struct fgt_why *why);
	/* The reply to the verb "status" or "targets". NULL: there is none. */
	int (*ask)(void *context, const char *verb,
		   struct fgt_message **ret_reply, struct fgt_why *why);
	void *context;
};

#endif
