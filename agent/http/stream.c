/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes in a thread of its stream, which gets no signal: a write to a pipe
 * whose reader has gone returns EPIPE there, in any program.
 */
#include "agent/http/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "ringbuf/base/thread.h"
#include "upload/format/parts/gzip.h"

#define FIRST_BYTES 4096
#define STACK_BYTES ((size_t)256 << 10)

struct fgt_web_stream {
	struct fgt_ring_slice *slice;
	enum fgt_format_kind format;
	struct fgt_format_options options;
	bool is_gzip;
	int read_fd, write_fd;
	pthread_t thread;
	bool has_thread;
	int error; /* of the encoder; after the join */
	char first[FIRST_BYTES]; /* read at open */
	size_t first_len, first_read;
};

static int encode_to(struct fgt_web_stream *stream, const struct fgt_sink *sink)
{
	FGT_AUTO(fgt_gzip_free) struct fgt_gzip *gzip = NULL;
	int r;

	if (!stream->is_gzip)
		return fgt_format_write(stream->slice, stream->format,
					&stream->options, sink);
	r = fgt_gzip_new(sink, &gzip);
	if (r == 0)
		r = fgt_format_write(stream->slice, stream->format,
				     &stream->options, fgt_gzip_sink(gzip));
	return r < 0 ? r : fgt_gzip_finish(gzip);
}

static void *encode(void *context)
{
	struct fgt_web_stream *stream = context;
	sigset_t urgent;
	const struct fgt_sink sink = fgt_fd_sink(&stream->write_fd);

	/* As in the server's other threads. */
	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	pthread_sigmask(SIG_UNBLOCK, &urgent, NULL);
	stream->error = encode_to(stream, &sink);
	fgt_fd_close(FGT_TAKE_FD(stream->write_fd));
	return NULL;
}

/* The thread has closed its end of the pipe, or writes fail now. */
static int join(struct fgt_web_stream *stream)
{
	if (stream->has_thread)
		pthread_join(stream->thread, NULL);
	stream->has_thread = false;
	return stream->error;
}

/* 0 at the end of the pipe, or the encoder's error. */
static ssize_t read_pipe(struct fgt_web_stream *stream, void *bytes,
			 size_t size)
{
	ssize_t n;

	do
		n = read(stream->read_fd, bytes, size);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n > 0 ? n : join(stream);
}

static int start(struct fgt_web_stream *stream)
{
	int fds[2], r;
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	stream->read_fd = fds[0];
	stream->write_fd = fds[1];
	r = fgt_thread_start(STACK_BYTES, encode, stream, &stream->thread);
	if (r < 0)
		return r;
	stream->has_thread = true;
	n = read_pipe(stream, stream->first, sizeof(stream->first));
	if (n < 0)
		return (int)n;
	stream->first_len = (size_t)n;
	return 0;
}

int fgt_web_stream_open(struct fgt_ring_slice *slice,
			enum fgt_format_kind format,
			enum fgt_state_frames state_frames, bool is_gzip,
			struct fgt_web_stream **ret_stream)
{
	FGT_AUTO(fgt_web_stream_close)
	struct fgt_web_stream *stream = calloc(1, sizeof(*stream));
	int r;

	if (!stream) {
		fgt_ring_slice_free(slice);
		return -ENOMEM;
	}
	stream->slice = slice;
	stream->format = format;
	stream->options.state_frames = state_frames;
	stream->is_gzip = is_gzip;
	stream->read_fd = stream->write_fd = -1;
	r = start(stream);
	if (r < 0)
		return r;
	*ret_stream = FGT_TAKE(stream);
	return 0;
}

ssize_t fgt_web_stream_read(struct fgt_web_stream *stream, void *bytes,
			    size_t size)
{
	size_t left = stream->first_len - stream->first_read;

	if (left == 0)
		return read_pipe(stream, bytes, size);
	if (size > left)
		size = left;
	memcpy(bytes, stream->first + stream->first_read, size);
	stream->first_read += size;
	return (ssize_t)size;
}

void fgt_web_stream_close(struct fgt_web_stream *stream)
{
	if (!stream)
		return;
	fgt_fd_close(stream->read_fd);
	(void)join(stream);
	fgt_fd_close(stream->write_fd);
	fgt_ring_slice_free(stream->slice);
	free(stream);
}
