/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins replies. Runs in the loop and in slice threads; must not block.
 */
#include "agent/daemon/socket/reply.h"

#include <sys/socket.h>

#include "agent/protocol/protocol.h"

static int begin(bool is_ok, struct fgt_builder **ret_builder)
{
	int r = fgt_builder_new(ret_builder);

	if (r < 0)
		return r;
	fgt_builder_int(*ret_builder, "v", FGT_PROTOCOL_VERSION);
	fgt_builder_bool(*ret_builder, "ok", is_ok);
	return 0;
}

int fgt_reply_new(struct fgt_builder **ret_builder)
{
	return begin(true, ret_builder);
}

int fgt_reply_new_error(int error, const char *why,
			struct fgt_builder **ret_builder)
{
	int r = begin(false, ret_builder);

	if (r < 0)
		return r;
	fgt_builder_int(*ret_builder, "error", error);
	fgt_builder_string(*ret_builder, "why", why);
	return 0;
}

void fgt_reply_put_figures(struct fgt_builder *builder,
			   const struct fgt_figure *figures, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fgt_builder_uint(builder, figures[i].key, figures[i].value);
}

void fgt_reply_turn_away(int fd, int error, const char *why)
{
	FGT_AUTO(fgt_builder_free) struct fgt_builder *builder = NULL;
	const uint8_t *frame;
	size_t len;

	if (fgt_reply_new_error(error, why, &builder) == 0 &&
	    fgt_builder_finish(builder, &frame, &len) == 0)
		(void)!send(fd, frame, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}
