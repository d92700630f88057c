/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice on its way into a format: a thread encodes it into a pipe, and the
 * thread of the connection reads as its client takes it. So the memory does not
 * grow with the output, and a client that has gone ends the encoding.
 *
 * MT-Unsafe for one stream | AS-Unsafe
 */
#ifndef FGT_AGENT_HTTP_STREAM_H
#define FGT_AGENT_HTTP_STREAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "ringbuf/base/owner.h"
#include "ringbuf/slice/slice.h"
#include "upload/format/format.h"

struct fgt_web_stream;

/*
 * Takes the slice, also if it fails. Returns once there are bytes: errors of
 * the encoder that come before are returned. is_gzip: compressed. -EAGAIN: no
 * thread; -EMFILE; -ENOMEM.
 */
int fgt_web_stream_open(struct fgt_ring_slice *slice,
			enum fgt_format_kind format,
			enum fgt_state_frames state_frames, bool is_gzip,
			struct fgt_web_stream **ret_stream);

/* Waits for bytes. How many; 0: the end; an error of the encoder: what was read
 * is incomplete. */
ssize_t fgt_web_stream_read(struct fgt_web_stream *stream, void *bytes,
			    size_t size);

/* Ends the encoding and waits for its thread. */
void fgt_web_stream_close(struct fgt_web_stream *stream);
FGT_DEFINE_AUTO(struct fgt_web_stream *, fgt_web_stream_close);

#endif
