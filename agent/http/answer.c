/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers. Runs in the thread of a connection.
 */
#include "agent/http/answer.h"

#include <errno.h>

#define BODY_MAX_BYTES ((size_t)16 << 20)
#define RETRY_S	       1

void fgt_web_answer_init(struct fgt_web_answer *answer)
{
	*answer =
		(struct fgt_web_answer){ .status = 200, .type = FGT_WEB_TEXT };
	fgt_memory_sink_init(&answer->body, BODY_MAX_BYTES);
}

void fgt_web_answer_done(struct fgt_web_answer *answer)
{
	fgt_memory_sink_done(&answer->body);
	fgt_web_stream_close(FGT_TAKE(answer->stream));
	fgt_web_live_close(FGT_TAKE(answer->live));
}

void fgt_web_answer_text(struct fgt_web_answer *answer, unsigned int status,
			 const char *text)
{
	answer->status = status;
	answer->type = FGT_WEB_TEXT;
	answer->file_name[0] = '\0';
	answer->body.len_bytes = 0;
	/* Without memory the status has to do. */
	if (fgt_sink_write(&answer->body.sink, text, strlen(text)) == 0)
		(void)fgt_sink_write(&answer->body.sink, "\n", 1);
}

static unsigned int status_of(int error)
{
	switch (error) {
	case -EINVAL:
	case -ENOTUNIQ:
		return 400;
	case -EPERM:
	case -EACCES:
		return 403;
	case -ESRCH:
	case -ENODATA:
		return 404;
	case -E2BIG:
		return 414;
	case -EBUSY:
	case -EAGAIN:
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
	case -ESHUTDOWN:
	case -ENOTCONN:
		return 503;
	case -ETIMEDOUT:
		return 504;
	default:
		return 500;
	}
}

void fgt_web_answer_fail(struct fgt_web_answer *answer, int error,
			 const struct fgt_why *why)
{
	unsigned int status = status_of(error);

	fgt_web_answer_text(answer, status,
			    why->text[0]       ? why->text
			    : error == -ENOMEM ? FGT_NO_MEMORY
					       : strerror(-error));
	answer->retry_after_s = status == 503 ? RETRY_S : 0;
}
