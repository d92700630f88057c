/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a builder to a message, as over the socket. Include cmocka first.
 */
#ifndef FGT_TESTS_UNIT_PROTOCOL_FRAME_KIT_H
#define FGT_TESTS_UNIT_PROTOCOL_FRAME_KIT_H

#include "agent/protocol/builder.h"
#include "agent/protocol/message.h"

static inline struct fgt_message *finish(struct fgt_builder *builder)
{
	struct fgt_message *message = NULL;
	const uint8_t *frame;
	size_t len;

	assert_int_equal(fgt_builder_finish(builder, &frame, &len), 0);
	assert_int_equal(len - 4, (size_t)frame[0] << 24 | frame[1] << 16 |
					  frame[2] << 8 | frame[3]);
	assert_int_equal(fgt_message_decode(frame + 4, len - 4, &message), 0);
	return message;
}

#endif
