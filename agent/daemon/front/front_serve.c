/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a front: gives up all rights, then answers frames until the
 * daemon's end of the socket is closed, so also when the daemon is killed. Must
 * not read a byte of a frame before it is confined.
 */
#include "agent/daemon/front/front.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/children/confinement.h"
#include "agent/children/self_child.h"
#include "agent/daemon/requests/fronts.h"
#include "ringbuf/base/fd_message.h"

/* A message is decoded into at most twice its size. */
#define MEMORY_MAX_BYTES (256ull << 20) /* on top of what is mapped */
#define FILES_MAX	 16

struct received {
	struct fgt_front_head head;
	uint8_t bytes[FGT_FRONT_INLINE];
};

/* Waits for a frame; ends the process if there will be none. Returns the memfd
 * of one that is long, else -1. */
static int receive(struct received *received)
{
	const struct iovec part = { received, sizeof(*received) };
	int fd;
	ssize_t n =
		fgt_fd_message_receive(FGT_SELF_CHILD_FD, &part, 1, &fd, 1, 0);

	if (n < (ssize_t)sizeof(received->head))
		_exit(0);
	if (fd < 0 && (size_t)n != sizeof(received->head) + received->head.len)
		_exit(1);
	return fd;
}

static void answer(const struct fgt_request *request)
{
	const struct iovec part = { (void *)(uintptr_t)request,
				    fgt_request_size(request->verb) };

	if (fgt_fd_message_send(FGT_SELF_CHILD_FD, &part, 1, NULL, 0, 0) < 0)
		_exit(0);
}

static void serve(void)
{
	static struct received received;
	static struct fgt_request request;
	int fd = receive(&received);
	struct fgt_request_frame frame = { .bytes = received.bytes,
					   .len = received.head.len,
					   .is_kept = received.head.is_kept };
	void *map = MAP_FAILED;

	if (fd >= 0) {
		map = mmap(NULL, frame.len, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
		if (map == MAP_FAILED)
			_exit(1);
		frame.bytes = map;
	}
	fgt_request_read(&frame, &request);
	answer(&request);
	if (map != MAP_FAILED)
		munmap(map, frame.len);
	/* It may hold a secret. */
	explicit_bzero(received.bytes, sizeof(received.bytes));
}

void fgt_front_serve_if_asked(int argc, char **argv)
{
	static const struct fgt_confinement confinement = {
		.memory_bytes = MEMORY_MAX_BYTES,
		.files = FILES_MAX,
		.set_filter = fgt_syscall_filter_answer,
	};

	if (!fgt_self_child_is_asked(argc, argv, FGT_FRONT_NAME,
				     FGT_FRONT_VERB))
		return;
	(void)fgt_confinement_enter(&confinement);
	for (;;)
		serve();
}
