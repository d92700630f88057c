/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the server answers: a status, and a body in memory or a stream.
 *
 * MT-Unsafe for one answer | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_ANSWER_H
#define FGT_AGENT_HTTP_ANSWER_H

#include "agent/http/live.h"
#include "agent/http/stream.h"
#include "agent/http/websocket/websocket.h"
#include "ringbuf/base/sink.h"
#include "ringbuf/base/why.h"

#define FGT_WEB_TEXT "text/plain; charset=utf-8"
#define FGT_WEB_JSON "application/json"

struct fgt_web_answer {
	unsigned int status;
	unsigned int retry_after_s; /* 0: no such header */
	const char *type; /* Content-Type */
	char file_name[96]; /* it is to be saved as; "": to be shown */
	bool is_gzip;
	char websocket[FGT_WS_ACCEPT_SIZE]; /* the live stream is one; or "" */
	struct fgt_memory_sink body; /* unless there is one of these */
	struct fgt_web_stream *stream;
	struct fgt_web_live *live;
};

/* An empty body of at most 16 MiB. It must not be moved afterwards. */
void fgt_web_answer_init(struct fgt_web_answer *answer);
void fgt_web_answer_done(struct fgt_web_answer *answer);

/* The body becomes one line. */
void fgt_web_answer_text(struct fgt_web_answer *answer, unsigned int status,
			 const char *text);

/* The status that fits a negative errno, and why as the line. */
void fgt_web_answer_fail(struct fgt_web_answer *answer, int error,
			 const struct fgt_why *why);

#endif
