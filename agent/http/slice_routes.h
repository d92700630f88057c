/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths that answer with stacks.
 *
 * MT-Safe | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_SLICE_ROUTES_H
#define FGT_AGENT_HTTP_SLICE_ROUTES_H

#include "agent/http/routes.h"

/* /debug/fgtrace: a Chrome trace of the past seconds. */
void fgt_web_answer_trace(const struct fgt_web_call *call,
			  struct fgt_web_answer *answer);
/* /debug/fgprof, /debug/pprof/profile: pprof or folded stacks of them. */
void fgt_web_answer_profile(const struct fgt_web_call *call,
			    struct fgt_web_answer *answer);
/* /api/v1/slice: any range and format. */
void fgt_web_answer_slice(const struct fgt_web_call *call,
			  struct fgt_web_answer *answer);
/* /api/v1/threads: the threads of the last second, as JSON. */
void fgt_web_answer_threads(const struct fgt_web_call *call,
			    struct fgt_web_answer *answer);

/* /api/v1/live: what happens, as server-sent events. */
void fgt_web_answer_live(const struct fgt_web_call *call,
			 struct fgt_web_answer *answer);

#endif
