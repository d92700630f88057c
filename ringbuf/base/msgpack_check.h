/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks msgpack bytes before anything is allocated for them: the unpacker of
 * msgpack-c reserves 4 GB for five bytes of input.
 */
#ifndef FGT_RINGBUF_BASE_MSGPACK_CHECK_H
#define FGT_RINGBUF_BASE_MSGPACK_CHECK_H

#include <stddef.h>
#include <stdint.h>

/*
 * One object that fills bytes[len] exactly, nested at most max_depth deep,
 * every count and length covered by bytes that are really there, no 0xc1.
 * 0, or -EBADMSG.
 *
 * MT-Safe | AS-Safe
 */
int fgt_msgpack_check(const uint8_t *bytes, size_t len, unsigned int max_depth);

#endif
