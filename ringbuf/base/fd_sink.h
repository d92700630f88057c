/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sink that writes to a descriptor which blocks.
 */
#ifndef FGT_RINGBUF_BASE_FD_SINK_H
#define FGT_RINGBUF_BASE_FD_SINK_H

#include "ringbuf/base/sink.h"

/*
 * All of it, however often the kernel takes a part only or a signal comes.
 * errno of write(2), -EIO: nothing was taken.
 *
 * MT-Safe | AS-Safe
 */
int fgt_fd_write(int fd, const void *bytes, size_t len);

/* fd must stay where it is as long as the sink is used. */
struct fgt_sink fgt_fd_sink(int *fd);

#endif
